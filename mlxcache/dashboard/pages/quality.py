"""Noise and coverage: how far each machine can be trusted, and what it has measured."""

from __future__ import annotations

from typing import Final

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.quality import percent
from mlxcache.dashboard.writing.page import Page, Site, with_series
from mlxcache.dashboard.writing.tables import Cell, Table, number
from mlxcache.reports.plain_text import short

_MOST_STRIPS = 60


def _write(site: Site, facts: SiteFacts) -> None:
    covered = facts.covered
    site.pages.page(
        PAGE.path,
        "quality.html",
        noise=site.pages.table(_noise_table(facts)),
        coverage=site.pages.table(_coverage_table(facts)),
        strips=covered[:_MOST_STRIPS],
        n_strips=len(covered),
    )


def _noise_table(facts: SiteFacts) -> Table:
    rows = []
    reach = {entry.machine: entry for entry in facts.account.reach}
    for machine, found in facts.noise.items():
        between = found.between or (None, None, None)
        spread = f"{percent(between[1])} to {percent(between[2])}" if found.between else ""
        controls = "; ".join(f"{short(name, 50)} {percent(sigma)}" for name, sigma in found.controls.items())
        own = reach.get(machine)
        rows.append(
            [
                Cell(short(facts.names.machine(machine), 60), machine),
                number(f"{len(facts.store.by_machine[machine]):,}", len(facts.store.by_machine[machine])),
                number(f"{own.n_judged:,}" if own else "0", own.n_judged if own else 0),
                number(percent(own.least) if own and own.least else "unknown", own.least if own else None),
                number(percent(between[0]), between[0]),
                number(spread, between[1]),
                number("", between[2], "hidden"),
                number(percent(found.within), found.within),
                Cell(controls or "none ran"),
            ]
        )
    header = (
        "Machine",
        "Series",
        "That can show a change",
        "Smallest seen",
        "Commit to commit",
        "10 % to 90 % of series",
        "Within a run",
        "Controls",
    )
    names = (
        "machine",
        "n_series",
        "n_judged",
        "smallest_change_seen",
        "between_median",
        "between_10",
        "between_90",
        "within_median",
        "controls",
    )
    return Table("csv/noise.csv", "Spread of values that should be equal", header, rows, names)


def _coverage_table(facts: SiteFacts) -> Table:
    rows = [
        [
            Cell(short(facts.names.machine(entry.machine), 60), entry.machine),
            Cell(short(facts.names.environment(entry.env), 100), entry.env),
            number(f"{entry.n_series:,}", entry.n_series),
            number(f"{entry.n_commits:,}", entry.n_commits),
            number(f"{entry.n_between:,}", entry.n_between),
            number(f"{entry.n_missing:,}", entry.n_missing),
        ]
        for entry in facts.covered
    ]
    header = ("Machine", "Environment", "Series", "Commits measured", "Commits in that time", "Without results")
    names = ("machine", "env", "n_series", "n_commits", "n_commits_between", "n_missing")
    return Table("csv/coverage.csv", "What was measured", header, rows, names)


PAGE: Final = Page("quality.html", "How far to trust this", with_series, _write)
