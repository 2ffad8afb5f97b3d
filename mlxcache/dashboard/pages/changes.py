"""The list of all changes, and a page for each with a permanent address."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from mlxcache.dashboard.data.answer import plural
from mlxcache.dashboard.data.repository import Repository
from mlxcache.dashboard.figures.change_pictures import ChangePictures
from mlxcache.dashboard.output import Output
from mlxcache.dashboard.pages.change_text import issue_text
from mlxcache.dashboard.pages.render import Pages
from mlxcache.dashboard.pages.sparkline import sparkline
from mlxcache.dashboard.pages.tables import Cell, Table, number
from mlxcache.history.changes.change_table import set_aside_of
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.reports.events import Event, left_standing, size, standing, state_word
from mlxcache.reports.plain_text import short
from mlxcache.reports.text import interval, label
from mlxcache.reports.units import format_change, format_value

_MOST_SETS: Final = 60
_MOST_OTHERS: Final = 40
_MOST_ASIDE: Final = 200
_NOTE: Final = "changes"
_ADDRESS: Final = re.compile(r"changes/[A-Za-z0-9_.-]+")
_ROW_NAMES: Final = (
    "benchmark", "params", "machine", "env", "direction", "state", "before", "after", "value_before",
    "value_after", "unit", "magnitude", "magnitude_low", "magnitude_high", "confidence", "n_before", "n_after",
    "range_commits", "p_value", "control", "version", "note",
)  # fmt: skip


def write_change_pages(
    pages: Pages,
    out: Output,
    pictures: ChangePictures,
    store: SeriesStore,
    events: Sequence[Event],
    changes: pd.DataFrame,
    repository: Repository,
    address: str,
) -> int:
    """Write changes.html and the pages below changes/; returns how many figures are left for later builds."""
    now = standing(list(events))
    ahead = {id(event) for event in now}
    left = 0
    before = np.array([event.before_index for event in events])
    after = np.array([event.after_index for event in events])
    # What stands is drawn first, since the number of figures is limited.
    for event in [*now, *(event for event in events if id(event) not in ahead)]:
        picture = pictures.get(event.lead, event.address)
        left += picture is None
        beside = np.flatnonzero((before < event.after_index) & (after > event.before_index))
        others = [events[i] for i in beside.tolist() if events[i].benchmark != event.benchmark]
        others.sort(key=lambda other: (other.direction != event.direction, -size(other.lead)))
        commits, n_commits = repository.between(event.before, event.after)
        page = f"{address.rstrip('/')}/{event.address}.html" if address else ""
        table = pages.table(rows_table(f"{event.address}.csv", event))
        pages.page(
            f"{event.address}.html",
            "change.html",
            event=event,
            picture=picture,
            spark=sparkline(store.series(store.position(int(event.lead["series"]))), event.lead),
            table=table,
            commits=commits,
            n_commits=n_commits,
            with_line=bool(repository.line),
            others=others[:_MOST_OTHERS],
            n_others=len(others),
            sets=_sets(store, event),
            n_sets=len(store.by_benchmark.get(event.benchmark, ())),
            issue=issue_text(event, commits, n_commits, page),
            explorer=_explorer_link(store, event),
        )
    _write_gone(pages, out, events)
    aside = set_aside_of(changes)
    parts = [] if aside is None else [
        ("Refuted by a rerun", aside.refuted),
        ("Only documentation changed there", aside.documentation),
        ("The machine's own", aside.machine),
    ]  # fmt: skip
    pages.page(
        "changes.html",
        "changes.html",
        groups=[
            ("standing", "Regressions", now),
            ("ended", "No longer measured", left_standing(list(events))),
            ("recovered", "Recovered", [e for e in events if e.is_regression and e.state == "recovered"]),
            ("improved", "Improvements", [e for e in events if not e.is_regression]),
        ],
        sparks={
            event.address: sparkline(store.series(store.position(int(event.lead["series"]))), event.lead)
            for event in events
        },
        aside=[(title, aside_table(pages, title, frame)) for title, frame in parts if len(frame)],
    )
    pages.table(_all_rows(events))
    return left


def rows_table(path: str, event: Event) -> Table:
    """Every series of one event."""
    header = ("Parameters", "Machine", "Before", "After", "Change", "95 % interval", "State", "Confidence")
    return Table(path, "Series that moved", header, [_short_row(row) for row in event.rows])


def _short_row(row: Any) -> list[Cell]:
    unit = str(row["unit"])
    sign = "▲" if float(row["magnitude"]) > 0 else "▼"
    kind: Any = "worse" if row["direction"] == "regression" else "better"
    return [
        Cell(short(str(row["params"])) or "none", str(row["params"]), "code"),
        Cell(short(str(row["machine"]), 40), str(row["machine"])),
        number(format_value(float(row["value_before"]), unit), float(row["value_before"])),
        number(format_value(float(row["value_after"]), unit), float(row["value_after"])),
        number(f"{sign} {format_change(float(row['magnitude']))}", float(row["magnitude"]), kind),
        Cell(interval(float(row["magnitude_low"]), float(row["magnitude_high"])), kind="number"),
        Cell(state_word(str(row["state"]), str(row["direction"])), str(row["state"])),
        number(f"{float(row['confidence']):.2f}", float(row["confidence"])),
    ]


def _all_rows(events: Sequence[Event]) -> Table:
    names = ("page", *_ROW_NAMES)
    rows = [
        [Cell(f"{event.address}.html"), *(_raw(row[name]) for name in _ROW_NAMES)]
        for event in events
        for row in event.rows
    ]
    return Table("csv/changes.csv", "All changes", names, rows)


def _raw(value: Any) -> Cell:
    if isinstance(value, str):
        return Cell(value)
    return number(str(value), value)


def aside_table(pages: Pages, title: str, frame: pd.DataFrame) -> Table:
    """Changes that are not listed, and why."""
    rows = []
    for row in frame.to_dict("records")[:_MOST_ASIDE]:
        cells = _short_row(row)
        name = Cell(short(label(row)), label(row), "code")
        rows.append([name, *cells[1:5], Cell(str(row["after"])[:8], str(row["after"])), Cell(str(row["note"]))])
    header = ("Benchmark", "Machine", "Before", "After", "Change", "Since", "Note")
    slug = title.split()[0].lower()
    return pages.table(Table(f"csv/set-aside-{slug}.csv", plural(len(frame), "change"), header, rows))


def _sets(store: SeriesStore, event: Event) -> list[dict[str, Any]]:
    """The benchmark's series side by side: those that moved first."""
    moved = {int(row["series"]): row for row in event.rows}
    positions = store.by_benchmark.get(event.benchmark, [])
    machines = set(event.machines)
    positions = sorted(
        positions, key=lambda p: (store.keys[p].number not in moved, store.keys[p].machine not in machines, p)
    )
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
            }
        )
    return found


def _explorer_link(store: SeriesStore, event: Event) -> str:
    names = [store.keys[store.position(int(row["series"]))].id for row in event.rows[:6]]
    return f"explorer.html#s={','.join(names)}"


def _write_gone(pages: Pages, out: Output, events: Sequence[Event]) -> None:
    """Addresses of earlier builds keep a page that says what became of the change."""
    listed = {event.address for event in events}
    old = out.old_notes.get(_NOTE)
    notes = {event.address: [event.benchmark, event.direction, event.after] for event in events}
    for address, facts in old.items() if isinstance(old, dict) else ():
        sound = isinstance(facts, list) and len(facts) == 3 and _ADDRESS.fullmatch(address)
        if address in listed or not sound:
            continue
        benchmark, direction, after = map(str, facts)
        near = [event for event in events if event.benchmark == benchmark]
        what = {"benchmark": benchmark, "direction": direction, "after": after}
        pages.page(f"{address}.html", "gone.html", near=near, **what)
        notes[address] = [benchmark, direction, after]
    out.notes[_NOTE] = notes
