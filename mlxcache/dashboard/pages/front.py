"""The first page: the answer and what it speaks for, plots of what was measured, what is slower, what moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from mlxcache.dashboard.data.answer import answer, certain, day, plural
from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.overview import Grid, Strip, grid, heat_step, movements, strips
from mlxcache.dashboard.data.quality import Coverage
from mlxcache.dashboard.data.repository import commit_page
from mlxcache.dashboard.drawings.chart import Area, Chart, Level, Point, Trace, draw
from mlxcache.dashboard.drawings.numbers import spaced
from mlxcache.dashboard.drawings.sparkline import sparkline
from mlxcache.dashboard.writing.links import explorer_link
from mlxcache.dashboard.writing.page import Page, Site, always
from mlxcache.history.answering.account import Broken
from mlxcache.history.repository.commits import Commit
from mlxcache.reports.events import Event, left_standing, size, standing
from mlxcache.reports.plain_text import short
from mlxcache.reports.units import format_change

_MOST_GROUPS: Final = 12
_MOST_ENDED: Final = 10
_MOST_MACHINES: Final = 8
_MOST_STRIPS: Final = 4
_MOST_GRIDS: Final = 2
_MOST_PROBLEMS: Final = 50
_MOST_UNSURE: Final = 10
_MOST_BROKEN: Final = 12
_MOST_RETIRED: Final = 20


def sparks_of(facts: SiteFacts, events: Sequence[Event]) -> dict[str, Markup]:
    """The small plot of each event."""
    store = facts.store
    return {
        event.address: sparkline(store.series(store.position(int(event.lead["series"]))), event.lead)
        for event in events
    }


class Group:
    """Events of one commit, told in a line."""

    def __init__(self, facts: SiteFacts, after: str, events: Sequence[Event]) -> None:
        self.after = after
        self.events = events
        machines = sorted({machine for event in events for machine in event.machines})
        benchmarks = {event.benchmark for event in events}
        measured = {
            facts.store.keys[p].benchmark for machine in machines for p in facts.store.by_machine.get(machine, ())
        }
        middle = float(np.median([float(event.lead["magnitude"]) for event in events]))
        words = sorted({event.word for event in events})
        where = facts.names.machine(machines[0]) if len(machines) == 1 else f"{len(machines)} machines"
        self.summary = (
            f"{len(benchmarks)} of {plural(len(measured), 'benchmark')} {' or '.join(words)}, "
            f"median {format_change(middle)}, {where}"
        )
        self.whole_machine = len(benchmarks) > 3 and 2 * len(benchmarks) > len(measured)


def groups_of(facts: SiteFacts, events: Sequence[Event]) -> list[Group]:
    """Events by their commit, in the order of the first of each."""
    found: dict[str, list[Event]] = {}
    for event in events:
        found.setdefault(event.after, []).append(event)
    return [Group(facts, after, sorted(own, key=lambda e: -size(e.lead))) for after, own in found.items()]


def strip_drawing(facts: SiteFacts, strip: Strip, *, alone: bool = True) -> Markup:
    """The course of one machine with its changes; the height stands for 6 % at least.

    Two strips of a machine stand side by side; one that is `alone` is as wide as both.
    """
    ratio = np.exp(np.array([strip.mean, strip.low, strip.high]))
    place = {commit: i for i, commit in enumerate(strip.commits)}
    points = []
    for i, commit in enumerate(strip.commits):
        known = facts.commits[commit]
        words = f"{format_change(float(ratio[0, i]) - 1)} at {known.name[:10]} {day(known)} {known.subject[:60]}"
        points.append(Point(i, float(ratio[0, i]), words=words))
    bands = [(float(i), float(ratio[1, i]), float(ratio[2, i])) for i in range(len(strip.commits))]
    areas: list[Area] = []
    flags = []
    own = [e for e in facts.events if strip.machine in e.machines and not e.uncertain and e.after_index in place]
    by_commit: dict[int, list[Event]] = {}
    for event in own:
        by_commit.setdefault(event.after_index, []).append(event)
    for index, events in by_commit.items():
        worse = sum(e.is_regression for e in events)
        better = len(events) - worse
        text = " and ".join(
            t for t in (f"{worse} worse" if worse else "", f"{better} better" if better else "") if t
        )
        kind = "worse" if worse >= better else "better"
        words = f"{text} at {facts.commits[index].name[:8]}"
        areas.append(Area(place[index] - 1, place[index], kind=f"range {kind}", words=words))
    for index, name in facts.repository.tags():
        if index in place:
            flags.append((float(place[index]), name))
    picks = spaced(len(strip.commits), 12 if alone else 7)
    what = "all times" if strip.what == "time" else "all counts"
    return draw(
        Chart(
            title=f"{facts.names.machine(strip.machine)}: geometric mean of {what} over the last "
            f"{plural(len(strip.commits), 'commit')}, {format_change(float(ratio[0, -1]) - 1)} since the first",
            unit="ratio",
            traces=[Trace(points, look=0)],
            x_ticks=[(i, facts.commits[strip.commits[i]].name[:7]) for i in picks],
            levels=[Level(0, len(strip.commits) - 1, 1.0, kind="reference")],
            areas=areas,
            bands=bands,
            height=210,
            width=1200 if alone else 590,
            least=0.06,
            include=(1.0,),
            flags=flags,
        )
    )


def _cells(facts: SiteFacts, found: Grid) -> list[dict[str, Any]]:
    """The rows of the heat map as the template wants them."""
    pages = {
        (event.benchmark, event.after_index): event for event in facts.events if found.machine in event.machines
    }
    rows = []
    for benchmark, squares in found.rows:
        cells: list[dict[str, Any] | None] = []
        for commit in found.commits:
            square = squares.get(commit)
            event = pages.get((benchmark, commit))
            if square is None:
                cells.append(None)
                continue
            step, worse, up = heat_step(square.z), square.worse, square.z > 0
            if event is not None:  # a few of many series moved: the median does not show it
                step, worse, up = max(step, 2), event.is_regression, float(event.lead["difference"]) > 0
            cells.append(
                {
                    "heat": f"heat-{'up' if worse else 'down'}-{step}" if step else "heat-0",
                    "sign": ("▲" if up else "▼") if step else "",
                    "words": f"{format_change(square.change)}, {abs(square.z):.1f} x noise, at "
                    f"{facts.commits[commit].name[:8]}, {plural(square.n, 'series', 'series')}",
                    "link": f"{event.address}.html" if event else commit_page(facts.commits[commit].name),
                    "event": event is not None,
                }
            )
        limit = min(110, 66 + 4 * max(0, 20 - len(found.commits)))
        rows.append(
            {
                "benchmark": benchmark,
                "name": short(benchmark, limit),
                "cells": cells,
                "link": explorer_link(facts, benchmark),
            }
        )
    return rows


def _strips(facts: SiteFacts, machines: Sequence[str]) -> list[tuple[str, list[tuple[Strip, Markup]]]]:
    """Strips by machine, times before counts."""
    found: dict[str, list[Strip]] = {}
    for strip in strips(facts, machines)[:_MOST_STRIPS]:
        found.setdefault(strip.machine, []).append(strip)
    return [
        (name, [(strip, strip_drawing(facts, strip, alone=len(own) == 1)) for strip in own])
        for name, own in found.items()
    ]


def _grid(facts: SiteFacts, found: Grid) -> tuple[Grid, list[dict[str, Any]], list[dict[str, Any]]]:
    """The heat map's rows with a mark, and those without one."""
    rows = _cells(facts, found)
    marked = [row for row in rows if any(cell and cell["sign"] for cell in row["cells"])]
    return found, marked, [row for row in rows if row not in marked]


def _broken(facts: SiteFacts) -> list[tuple[Broken, int]]:
    """What gives no value any more: one series of each benchmark, machine and commit, and how many there are."""
    found: dict[tuple[str, str, str], list[Broken]] = {}
    for entry in facts.account.broken:
        found.setdefault((entry.benchmark, entry.machine, entry.since), []).append(entry)
    order = sorted(found.values(), key=lambda own: (own[0].n_commits, own[0].name))
    return [(own[0], len(own)) for own in order]


def _retired(facts: SiteFacts) -> list[tuple[str, Commit]]:
    """Benchmarks of which nothing is measured any more, with their last commit, the latest first."""
    store = facts.store
    found = []
    for name, own in store.by_benchmark.items():
        if all(store.keys[p].number in facts.retired for p in own):
            found.append((name, facts.commits[max(int(store.commits[store.stops[p] - 1]) for p in own)]))
    return sorted(found, key=lambda entry: -entry[1].index)


def _write(site: Site, facts: SiteFacts) -> None:
    store = facts.store
    every = standing(facts.events)
    now, ended = certain(every), left_standing(facts.events)
    unsure = [event for event in every if event.uncertain]
    said = answer(facts)
    latest: dict[str, Coverage] = {}
    for entry in facts.covered if len(store) else []:
        latest.setdefault(entry.machine, entry)
    machines = list(latest.values())[:_MOST_MACHINES]
    groups = groups_of(facts, now)
    moved = movements(facts, facts.events)
    broken, retired = _broken(facts), _retired(facts)
    grids = [found for entry in machines if (found := grid(facts, entry.machine))][:_MOST_GRIDS]
    shown = [event for group in groups[:_MOST_GROUPS] for event in group.events]
    site.pages.page(
        "index.html",
        "front.html",
        answer=said,
        judged={entry.machine: entry for entry in said.judged},
        groups=groups[:_MOST_GROUPS],
        n_groups=len(groups),
        n_standing=len(now),
        unsure=unsure[:_MOST_UNSURE],
        n_unsure=len(unsure),
        ended=ended[:_MOST_ENDED],
        n_ended=len(ended),
        n_recovered=sum(event.is_regression and event.state == "recovered" for event in facts.events),
        n_improved=sum(not event.is_regression for event in facts.events),
        moved=moved,
        broken=broken[:_MOST_BROKEN],
        n_broken=len(broken),
        retired=retired[:_MOST_RETIRED],
        n_retired=len(retired),
        links={
            name: explorer_link(facts, name)
            for name in [*(entry.benchmark for entry, _ in broken), *(name for name, _ in retired)]
        },
        strips=_strips(facts, [entry.machine for entry in machines]),
        grids=[_grid(facts, found) for found in grids],
        sparks=sparks_of(facts, [*shown, *ended[:_MOST_ENDED], *moved, *unsure[:_MOST_UNSURE]]),
        newest={
            event.address: store.newest_value(store.position(int(event.lead["series"])))
            for event in [*shown, *ended[:_MOST_ENDED], *moved, *unsure[:_MOST_UNSURE]]
        },
        machines=machines,
        n_machines=len(latest),
        noise=facts.noise,
        commits=facts.commits,
        n_series=len(store),
        n_benchmarks=len(store.by_benchmark),
        problems=facts.problems[:_MOST_PROBLEMS],
        n_problems=len(facts.problems),
        n_lost=facts.problems.n_values,
        statuses={str(status): int(n) for status, n in facts.df["status"].value_counts().items()},
        notices=facts.notices,
    )


PAGE: Final = Page("index.html", "Overview", always, _write)
