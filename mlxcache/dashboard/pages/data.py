"""Everything for other programs, and everything that could not be used."""

from __future__ import annotations

from typing import Any, Final

from mlxcache.dashboard.data import feed
from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.values import COLUMNS, MOST_CSV_ROWS, PARQUET_PATH, package_columns, write_values
from mlxcache.dashboard.writing.page import Page, Site, always
from mlxcache.dashboard.writing.tables import Cell, Table, number
from mlxcache.reports.plain_text import short

_MOST_SHOWN: Final = 300


def _write(site: Site, facts: SiteFacts) -> None:
    files = write_values(site.out, facts) if len(facts.df) else []
    problems = site.pages.table(_problems(facts))
    failed = site.pages.table(_failed(facts))
    site.pages.page(
        PAGE.path,
        "data.html",
        n_events=len(facts.events),
        has_series=bool(len(facts.store)),
        values=files,
        n_values=len(facts.df),
        most_csv=MOST_CSV_ROWS if len(facts.df) > MOST_CSV_ROWS else 0,
        no_parquet=len(facts.df) > 0 and PARQUET_PATH not in files,
        columns={**COLUMNS, **dict.fromkeys(package_columns(facts), "its version")},
        problems=problems,
        failed=failed,
        notices=facts.notices,
        beside_asv=(site.out.folder / "asv" / "index.html").is_file(),
    )
    site.out.text(feed.JSON_PATH, feed.as_changes_json(facts.events, facts.account))
    entries = feed.as_feed(facts.events, facts.account, facts.title, facts.address, facts.by_name)
    site.out.data(feed.FEED_PATH, entries)


def _problems(facts: SiteFacts) -> Table:
    rows = [
        [
            Cell(short(problem.file, 120), problem.file, "code"),
            Cell(short(problem.row, 80), problem.row, "code"),
            Cell(short(problem.reason, 300), problem.reason),
            number(f"{problem.n_values:,}", problem.n_values),
        ]
        for problem in facts.problems
    ]
    header = ("File", "Benchmark", "Why", "Values left out")
    names = ("file", "benchmark", "why", "n_values")
    return Table("csv/problems.csv", "Could not be used", header, rows, names, most=_MOST_SHOWN)


def _failed(facts: SiteFacts) -> Table:
    """What failed when it ran: how often, and the newest commit where it did."""
    mask = (facts.df["status"] == "failed").to_numpy()
    columns = ["benchmark", "params", "machine", "env"]
    part = facts.df.loc[mask, [*columns, "commit_index"]]
    rows: list[list[Cell]] = []
    if len(part):
        plain = part.astype(dict.fromkeys(columns, "str"))
        found: Any = plain.groupby(columns)["commit_index"].agg(["size", "min", "max"]).reset_index()
        found = found.sort_values(["max", "size"], ascending=False)
        for benchmark, params, machine, env, n, first, last in found.itertuples(index=False):
            named = facts.names.params(benchmark, params)
            oldest, newest = facts.commits[int(first)], facts.commits[int(last)]
            rows.append(
                [
                    Cell(short(benchmark, 100), benchmark, "code"),
                    Cell(short(named, 60), named, "code"),
                    Cell(short(facts.names.machine(machine), 40), machine),
                    Cell(short(facts.names.environment(env), 50), env),
                    number(f"{n:,}", int(n)),
                    Cell(oldest.name[:8], oldest.name),
                    Cell(newest.name[:8], newest.name),
                ]
            )
    header = ("Benchmark", "Parameters", "Machine", "Environment", "Times", "First at", "Last at")
    names = ("benchmark", "params", "machine", "env", "n_failed", "first_commit", "last_commit")
    return Table("csv/failed.csv", "Failed when they ran", header, rows, names, most=_MOST_SHOWN)


PAGE: Final = Page("data.html", "Data", always, _write)
