"""The list of all changes: pages of fifty for reading, and the same as data, which a script sorts and filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from mlxcache.dashboard.data.answer import certain, day, plural
from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.drawings.numbers import course_text, value_text
from mlxcache.dashboard.pages.change_page import amount_cell, write_change_pages
from mlxcache.dashboard.pages.front import sparks_of
from mlxcache.dashboard.writing.page import Page, Site, always
from mlxcache.dashboard.writing.render import amount
from mlxcache.dashboard.writing.tables import Cell, Table, number
from mlxcache.history.changes.change_table import set_aside_of
from mlxcache.reports.events import Event, left_standing, standing
from mlxcache.reports.plain_text import clean, script_json, short
from mlxcache.reports.units import format_change

_A_PAGE: Final = 50
_MOST_ASIDE: Final = 200
_ROW_NAMES: Final = (
    "benchmark", "params", "machine", "env", "direction", "state", "before", "after", "value_before",
    "value_after", "unit", "magnitude", "ci95_low", "ci95_high", "confidence", "n_before", "n_after",
    "range_commits", "p_value", "control", "version", "note",
)  # fmt: skip


def sections_of(events: list[Event]) -> list[tuple[str, str, str, list[Event]]]:
    """The kinds of changes: id, title, what it means, the events."""
    now, ended = standing(events), left_standing(events)
    unsure = [event for event in now if event.uncertain]
    return [
        ("standing", "Regressions", "Worse than before, and still so.", certain(now)),
        ("unsure", "Perhaps", "Their intervals hold 0: more commits or a rerun will tell.", unsure),
        ("ended", "No longer measured", "Worse when last measured; what became of them is not known.", ended),
        ("recovered", "Recovered", "Worse for a while, and back.",
         [e for e in events if e.is_regression and e.state == "recovered"]),
        ("improved", "Improvements", "Better than before.", [e for e in events if not e.is_regression]),
    ]  # fmt: skip


def _write(site: Site, facts: SiteFacts) -> None:
    write_change_pages(site)
    sections = sections_of(facts.events)
    flat = [(part, event) for part in sections for event in part[3]]
    pages = [flat[i : i + _A_PAGE] for i in range(0, len(flat), _A_PAGE)] or [[]]
    paths = ["changes.html", *(f"changes-{i}.html" for i in range(2, len(pages) + 1))]
    first_page = {
        name: next(
            (path for path, own in zip(paths, pages, strict=True) if any(p[0] == name for p, _ in own)), paths[0]
        )
        for name, _, _, _ in sections
    }
    aside = _aside(site)
    for number_, (path, own) in enumerate(zip(paths, pages, strict=True)):
        groups = []
        for part in sections:
            events = [event for kind, event in own if kind is part]
            if events or (number_ == 0 and not part[3]):
                groups.append((part[0], part[1], part[2], events, len(part[3])))
        site.pages.page(
            path,
            "changes.html",
            groups=groups,
            jump=[(first_page[name], name, title, len(events)) for name, title, _, events in sections],
            sparks=sparks_of(facts, [event for _, event in own]),
            newest=_newest(facts, [event for _, event in own]),
            paths=paths,
            n_events=len(facts.events),
            aside=aside if path == paths[-1] else [],
            aside_path=paths[-1] if aside else "",
            is_first=number_ == 0,
        )
    site.out.text("data/changes.js", f"mlxcacheData({script_json(['changes', _packed(facts, sections)])});\n")
    site.pages.table(_all_rows(facts.events))


def _newest(facts: SiteFacts, events: Sequence[Event]) -> dict[str, float]:
    store = facts.store
    return {event.address: store.newest_value(store.position(int(event.lead["series"]))) for event in events}


def _packed(facts: SiteFacts, sections: list[tuple[str, str, str, list[Event]]]) -> dict[str, Any]:
    """Every change as a short list, for the script that sorts and filters."""
    machines = list(facts.store.by_machine)
    place = {name: i for i, name in enumerate(machines)}
    rows = []
    newest = _newest(facts, facts.events)
    for number_, (_, _, _, events) in enumerate(sections):
        for event in events:
            lead = event.lead
            unit = str(lead["unit"])
            magnitude = float(lead["magnitude"])
            rows.append(
                [
                    f"{event.address}.html", clean(event.benchmark), event.word, int(event.is_regression),
                    round(magnitude, 5) if math.isfinite(magnitude) else None, number_, event.state_word,
                    round(event.confidence, 4), ("▲ " if lead["difference"] > 0 else "▼ ") + amount(lead),
                    course_text(lead["value_before"], lead["value_after"], newest[event.address], unit),
                    event.after_index, [place[m] for m in event.machines if m in place],
                    clean(short(facts.names.params(event.benchmark, str(lead["params"])), 80)), len(event.rows),
                ]
            )  # fmt: skip
    return {
        "sections": [title for _, title, _, _ in sections],
        "machines": [clean(facts.names.machine(name)) for name in machines],
        "commits": {
            event.after_index: [clean(event.after[:10]), day(facts.by_name.get(event.after)),
                                clean(short(facts.repository.subject(event.after), 90))]
            for event in facts.events
        },
        "rows": rows,
    }  # fmt: skip


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


def _aside(site: Site) -> list[tuple[str, Table]]:
    """What was found and is not listed, by the reason."""
    found = set_aside_of(site.facts.changes)
    parts = [] if found is None else [
        ("Refuted by a rerun", found.refuted),
        ("Only documentation changed there", found.documentation),
        ("The machine's own", found.machine),
    ]  # fmt: skip
    return [(title, aside_table(site, title, frame)) for title, frame in parts if len(frame)]


def aside_table(site: Site, title: str, frame: pd.DataFrame) -> Table:
    """Changes that are not listed, and why."""
    facts = site.facts
    rows = []
    for row in frame.to_dict("records"):
        benchmark, unit = str(row["benchmark"]), str(row["unit"])
        params = facts.names.params(benchmark, str(row["params"]))
        rows.append(
            [
                Cell(short(benchmark, 80), benchmark, "code"),
                Cell(short(params, 60), params, "code"),
                Cell(short(facts.names.machine(str(row["machine"])), 40), str(row["machine"])),
                Cell("", str(row["env"]), "hidden"),
                number(value_text(float(row["value_before"]), unit), float(row["value_before"])),
                number(value_text(float(row["value_after"]), unit), float(row["value_after"])),
                amount_cell({str(name): value for name, value in row.items()}),
                Cell(str(row["after"])[:8], str(row["after"])),
                Cell(str(row["note"])),
            ]
        )
    header = ("Benchmark", "Parameters", "Machine", "Before", "After", "Change", "Since", "Note")
    names = ("benchmark", "params", "machine", "env", "value_before", "value_after", "magnitude", "after", "note")
    slug = title.split()[0].lower()
    caption = f"{plural(len(frame), 'change')}, median {format_change(float(frame['magnitude'].median()))}"
    return site.pages.table(Table(f"csv/set-aside-{slug}.csv", caption, header, rows, names, most=_MOST_ASIDE))


PAGE: Final = Page("changes.html", "Changes", always, _write)
