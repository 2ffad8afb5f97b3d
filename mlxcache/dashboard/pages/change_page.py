"""A page for each change, at an address that stays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from mlxcache.dashboard.data.answer import day
from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.drawings.change import change_drawing
from mlxcache.dashboard.drawings.numbers import value_text
from mlxcache.dashboard.drawings.sparkline import sparkline
from mlxcache.dashboard.writing.change_text import issue_text
from mlxcache.dashboard.writing.links import compare_link, explorer_link
from mlxcache.dashboard.writing.page import Site
from mlxcache.dashboard.writing.render import confidence
from mlxcache.dashboard.writing.tables import Cell, Table, number
from mlxcache.history.statistics.noise import short_term_sigma
from mlxcache.reports.events import Event, size, standing, state_word
from mlxcache.reports.plain_text import short
from mlxcache.reports.units import change_of, interval_of

_MOST_SETS: Final = 8
_MOST_OTHERS: Final = 30
_MOST_COMMITS: Final = 60
_MOST_ROWS: Final = 60
_MANY: Final = 1000  # changes of a site from which each page has what is its own, and links to the rest
_NOTE: Final = "changes"
_ADDRESS: Final = re.compile(r"changes/[A-Za-z0-9_.-]+")


def write_change_pages(site: Site) -> None:
    """Write the pages below changes/, and pages for addresses of earlier builds that have no change any more."""
    facts = site.facts
    before = np.array([event.before_index for event in facts.events])
    after = np.array([event.after_index for event in facts.events])
    days = [day(commit) for commit in facts.commits]
    for event in facts.events:
        beside = np.flatnonzero((before < event.after_index) & (after > event.before_index))
        others = [facts.events[i] for i in beside.tolist() if facts.events[i].benchmark != event.benchmark]
        others.sort(key=lambda other: (other.direction != event.direction, -size(other.lead)))
        _write_one(site, event, others, days)
    _write_gone(site)


def _write_one(site: Site, event: Event, others: Sequence[Event], days: Sequence[str]) -> None:
    facts = site.facts
    store = facts.store
    small = len(facts.events) > _MANY
    series = store.series(store.position(int(event.lead["series"])))
    commits, n_commits = facts.repository.between(event.before, event.after)
    address = f"{facts.address.rstrip('/')}/{event.address}.html" if facts.address else ""
    keys = [store.keys[store.position(int(row["series"]))] for row in event.rows[:8]]
    old, new = (value_text(float(event.lead[name]), series.key.unit) for name in ("value_before", "value_after"))
    title = f"{short(event.benchmark, 80)} over commits: {old} before and {new} from {event.after[:8]} on"
    positive = bool((series.values > 0).all()) and len(series.values) > 3
    sigma = short_term_sigma(np.log(series.values)) if positive else 0.0
    moved = float(event.lead["magnitude"])
    times_noise = abs(np.log1p(max(moved, -0.999999))) / sigma if sigma > 0 else None
    site.pages.page(
        f"{event.address}.html",
        "change.html",
        event=event,
        key=series.key,
        drawing=change_drawing(series, event.lead, facts.commits, days, title, small=small),
        noise=sigma or None,
        times_noise=times_noise,
        newest=float(series.values[-1]),
        newest_commit=facts.commits[int(series.commits[-1])],
        # One row says what the page says.
        table=None
        if small and len(event.rows) == 1
        else site.pages.table(rows_table(facts, f"{event.address}.csv", event)),
        n_rows=len(event.rows),
        commits=commits[:_MOST_COMMITS],
        n_commits=n_commits,
        with_line=bool(facts.repository.line),
        others=[] if small else others[:_MOST_OTHERS],
        n_others=len(others),
        sets=[] if small else _sets(facts, event),
        n_sets=len(store.by_benchmark.get(event.benchmark, ())),
        issue=issue_text(event, commits, n_commits, address, facts.names),
        explorer=explorer_link(facts, event.benchmark, keys),
        whole=explorer_link(facts, event.benchmark),
        comparison=compare_link(event.before, event.after),
    )


def rows_table(facts: SiteFacts, path: str, event: Event) -> Table:
    """Every series of one event; the page shows the largest, the CSV file has all."""
    header = (
        "Parameters",
        "Machine",
        "Environment",
        "Before",
        "After",
        "Change",
        "95 % interval",
        "State",
        "Confidence",
    )
    names = (
        "params",
        "machine",
        "env",
        "value_before",
        "value_after",
        "unit",
        "magnitude",
        "ci95_low",
        "ci95_high",
        "state",
        "confidence",
    )
    rows = [_row(facts, row) for row in event.rows]
    return Table(path, "Series that moved", header, rows, names, most=_MOST_ROWS)


def _row(facts: SiteFacts, row: Mapping[str, Any]) -> list[Cell]:
    unit = str(row["unit"])
    params = facts.names.params(str(row["benchmark"]), str(row["params"]))
    ends = (float(row["ci95_low"]), float(row["ci95_high"]))
    return [
        Cell(short(params, 80) or "none", params, "code"),
        Cell(short(facts.names.machine(str(row["machine"])), 40), str(row["machine"])),
        Cell(short(facts.names.environment(str(row["env"])), 60), str(row["env"])),
        number(value_text(float(row["value_before"]), unit), float(row["value_before"])),
        number(value_text(float(row["value_after"]), unit), float(row["value_after"])),
        Cell("", unit, "hidden"),
        amount_cell(row),
        number(interval_of(row), ends[0]),
        number("", ends[1], "hidden"),
        Cell(state_word(str(row["state"]), str(row["direction"])), str(row["state"])),
        number(confidence(float(row["confidence"])), float(row["confidence"])),
    ]


def amount_cell(row: Mapping[str, Any]) -> Cell:
    """How much a row moved, with its sign and whether that is worse."""
    sign = "▲" if float(row["difference"]) > 0 else "▼"
    return number(
        f"{sign} {change_of(row)}",
        float(row["magnitude"]),
        "worse" if row["direction"] == "regression" else "better",
    )


def _sets(facts: SiteFacts, event: Event) -> list[dict[str, Any]]:
    """A few of the benchmark's series side by side: those that moved, then others of the same machines."""
    store = facts.store
    moved = {int(row["series"]): row for row in event.rows}
    machines = set(event.machines)
    positions = [
        p
        for p in store.by_benchmark.get(event.benchmark, [])
        if store.keys[p].number not in facts.retired or store.keys[p].number in moved
    ]
    if len(positions) < 2:
        return []
    positions.sort(key=lambda p: (store.keys[p].number not in moved, store.keys[p].machine not in machines, p))
    found = []
    for position in positions[:_MOST_SETS]:
        key = store.keys[position]
        row = moved.get(key.number)
        series = store.series(position)
        found.append(
            {
                "key": key,
                "row": row,
                "spark": sparkline(series, row),
                "last": float(series.values[-1]),
                "link": explorer_link(facts, key.benchmark, [key]),
            }
        )
    return found


def _write_gone(site: Site) -> None:
    """Addresses of earlier builds keep a page that says what became of the change."""
    events = site.facts.events
    listed = {event.address for event in events}
    old = site.out.old_notes.get(_NOTE)
    notes = {event.address: [event.benchmark, event.direction, event.after] for event in events}
    for address, facts in old.items() if isinstance(old, dict) else ():
        sound = isinstance(facts, list) and len(facts) == 3 and _ADDRESS.fullmatch(address)
        if address in listed or not sound:
            continue
        benchmark, direction, after = map(str, facts)
        near = [event for event in events if event.benchmark == benchmark]
        what = {"benchmark": benchmark, "direction": direction, "after": after}
        site.pages.page(f"{address}.html", "gone.html", near=near, **what)
        notes[address] = [benchmark, direction, after]
    site.out.notes[_NOTE] = notes


def standing_first(events: Sequence[Event]) -> list[Event]:
    """What stands, then the rest, each in its order."""
    ahead = {id(event) for event in standing(list(events))}
    return sorted(events, key=lambda event: id(event) not in ahead)
