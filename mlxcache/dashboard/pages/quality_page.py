"""Noise and coverage: how far each machine can be trusted, and what it has measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlxcache.dashboard.data.quality import Coverage, Noise, percent
from mlxcache.dashboard.pages.render import Pages
from mlxcache.dashboard.pages.tables import Cell, Table, number
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.reports.plain_text import short

_MOST_STRIPS = 60


def write_quality_page(
    pages: Pages, store: SeriesStore, noise: Mapping[str, Noise], covered: Sequence[Coverage]
) -> None:
    """Write quality.html."""
    pages.page(
        "quality.html",
        "quality.html",
        noise=pages.table(_noise_table(store, noise)),
        coverage=pages.table(_coverage_table(covered)),
        strips=covered[:_MOST_STRIPS],
        n_strips=len(covered),
    )


def _noise_table(store: SeriesStore, noise: Mapping[str, Noise]) -> Table:
    rows = []
    for machine, found in noise.items():
        between = found.between or (None, None, None)
        spread = f"{percent(between[1])} to {percent(between[2])}" if found.between else ""
        controls = "; ".join(f"{short(name, 50)}: {percent(sigma)}" for name, sigma in found.controls.items())
        rows.append(
            [
                Cell(short(machine, 60), machine),
                number(f"{len(store.by_machine[machine]):,}", len(store.by_machine[machine])),
                number(percent(between[0]), between[0]),
                Cell(spread, kind="number"),
                number(percent(found.within), found.within),
                Cell(controls or "none ran"),
            ]
        )
    header = ("Machine", "Series", "Commit to commit", "10 % to 90 % of series", "Within a run", "Controls")
    return Table("csv/noise.csv", "Spread of values that should be equal", header, rows)


def _coverage_table(covered: Sequence[Coverage]) -> Table:
    rows = [
        [
            Cell(short(entry.machine, 60), entry.machine),
            Cell(short(entry.env, 160), entry.env),
            number(f"{entry.n_series:,}", entry.n_series),
            number(f"{entry.n_commits:,}", entry.n_commits),
            number(f"{entry.n_between:,}", entry.n_between),
            number(f"{entry.n_missing:,}", entry.n_missing),
        ]
        for entry in covered
    ]
    header = ("Machine", "Environment", "Series", "Commits measured", "Commits in that time", "Without results")
    return Table("csv/coverage.csv", "What was measured", header, rows)
