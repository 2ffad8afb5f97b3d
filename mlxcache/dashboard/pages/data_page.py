"""Everything for other programs, and everything that could not be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from mlxcache.dashboard.pages.render import Pages
from mlxcache.dashboard.pages.tables import Cell, Table, number
from mlxcache.history.loading.history import facts_of
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.reports.events import Event
from mlxcache.reports.plain_text import short

_MOST_SHOWN: Final = 500


def write_data_page(
    pages: Pages,
    df: pd.DataFrame,
    store: SeriesStore,
    events: Sequence[Event],
    notices: Sequence[str],
    *,
    beside_asv: bool = False,
) -> None:
    """Write data.html and the list of problems; `beside_asv` says that asv's own pages lie in asv/."""
    problems = facts_of(df).problems
    rows = [
        [
            Cell(short(problem.file, 120), problem.file, "code"),
            Cell(short(problem.row, 80), problem.row, "code"),
            Cell(short(problem.reason, 300), problem.reason),
            number(f"{problem.n_values:,}", problem.n_values),
        ]
        for problem in problems
    ]
    table = Table("csv/problems.csv", "Could not be used", ("File", "Benchmark", "Why", "Values left out"), rows)
    pages.table(table)
    failed = df.loc[(df["status"] == "failed").to_numpy(), ["benchmark", "machine"]]
    counts = failed.groupby(["benchmark", "machine"], observed=True).size().sort_values(ascending=False)
    failures = [
        [
            Cell(short(str(name), 120), str(name), "code"),
            Cell(short(str(machine), 60), str(machine)),
            number(f"{n:,}", int(n)),
        ]
        for name, machine, n in counts.reset_index(name="n").itertuples(index=False)
    ]
    failed_table = Table("csv/failed.csv", "Failed when they ran", ("Benchmark", "Machine", "Results"), failures)
    pages.table(failed_table)
    pages.page(
        "data.html",
        "data.html",
        problems=Table(table.path, table.caption, table.header, rows[:_MOST_SHOWN]),
        n_problems=len(rows),
        failed=Table(failed_table.path, failed_table.caption, failed_table.header, failures[:_MOST_SHOWN]),
        n_failed=len(failures),
        n_events=len(events),
        has_series=bool(len(store)),
        notices=notices,
        beside_asv=beside_asv,
    )
