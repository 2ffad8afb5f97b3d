"""What the first page draws: the course of each machine, every benchmark at the last commits, what moved most."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.history.loading.direction import higher_is_better
from mlxcache.history.statistics.noise import short_term_sigma
from mlxcache.reports.events import Event, size

STRIP_COMMITS: Final = 50
MAP_COMMITS: Final = 20
MAP_ROWS: Final = 40
_BEFORE: Final = 8  # values that a value of the heat map is compared with
_LEAST_NOISE: Final = 0.002
_FEW: Final = 4  # values before a series' own noise is known
_MONTH_S: Final = 30 * 86_400
_MOST_MOVES: Final = 6
_COUNTS: Final = re.compile(r"instruction|count|operation|alloc|refs?\b|calls?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Strip:
    """A machine's geometric mean over its last commits, relative to the first of them.

    `mean` is the logarithm of the ratio, `low` and `high` hold the middle half of the series. A series without a
    value at a commit keeps its last one. `n` is how many series count at the end.
    """

    machine: str
    what: str
    commits: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n: int


@dataclass(frozen=True, slots=True)
class Square:
    """One benchmark at one commit: how far it lies from the values before it, in units of noise."""

    z: float
    change: float
    n: int
    worse: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """Benchmarks by commits of one machine; the most unusual rows first."""

    machine: str
    commits: tuple[int, ...]
    rows: tuple[tuple[str, dict[int, Square]], ...]
    n_rows: int


def kind_of(unit: str) -> str:
    """What is averaged with what: "time", "counts" or nothing."""
    if unit == "seconds":
        return "time"
    return "counts" if _COUNTS.search(unit) else ""


def strips(facts: SiteFacts, machines: Sequence[str]) -> list[Strip]:
    """Of each of these machines one strip of its times, and one of its counts where it has some."""
    found = []
    for machine in machines:
        for what in ("time", "counts"):
            strip = _strip(facts, machine, what)
            if strip is not None:
                found.append(strip)
    return found


def _strip(facts: SiteFacts, machine: str, what: str) -> Strip | None:
    store = facts.store
    own = [p for p in store.by_machine[machine] if kind_of(store.keys[p].unit) == what]
    seen = sorted({int(c) for p in own for c in store.commits[store.starts[p] : store.stops[p]]})[-STRIP_COMMITS:]
    if len(seen) < 3:
        return None
    place = {commit: i for i, commit in enumerate(seen)}
    moved = np.full((len(own), len(seen)), np.nan)
    for row, position in enumerate(own):
        series = store.series(position)
        inside = (series.commits >= seen[0]) & (series.values > 0)
        if int(inside.sum()) > 1:
            at = [place[int(c)] for c in series.commits[inside]]
            moved[row, at] = np.log(series.values[inside])
    moved = moved[np.isfinite(moved).sum(axis=1) > 1]
    if not len(moved):
        return None
    for column in range(1, len(seen)):  # a series without a value keeps its last
        gap = np.isnan(moved[:, column])
        moved[gap, column] = moved[gap, column - 1]
    # A series that starts later joins where the others are, so that it moves nothing by being there.
    steps = np.diff(moved, axis=1)
    known = np.isfinite(steps)
    count = known.sum(axis=0)
    mean = np.concatenate([[0.0], np.cumsum(np.where(known, steps, 0.0).sum(axis=0) / np.maximum(count, 1))])
    first = known.argmax(axis=1)
    course = np.concatenate([np.zeros((len(moved), 1)), np.cumsum(np.where(known, steps, 0.0), axis=1)], axis=1)
    course += mean[first][:, None]
    hidden = np.arange(len(seen))[None, :] < first[:, None]
    course[hidden] = np.nan
    low, high = np.nanquantile(course, [0.25, 0.75], axis=0)
    return Strip(machine, what, tuple(seen), tuple(mean), tuple(low), tuple(high), int(count[-1]))


def grid(facts: SiteFacts, machine: str) -> Grid | None:
    """The heat map of one machine; None where no series has values enough to know its noise."""
    store = facts.store
    own = store.by_machine[machine]
    seen = sorted({int(c) for p in own for c in store.commits[store.starts[p] : store.stops[p]]})[-MAP_COMMITS:]
    sums: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for position in own:
        if store.keys[position].number in facts.retired:
            continue
        series = store.series(position)
        if len(series.values) < _FEW or not bool((series.values > 0).all()):
            continue
        logs = np.log(series.values)
        sigma = max(short_term_sigma(logs), _LEAST_NOISE)
        first = int(np.searchsorted(series.commits, seen[0]))
        for i in range(max(first, 2), len(logs)):
            before = logs[max(0, i - _BEFORE) : i]
            change = float(logs[i] - np.median(before))
            own_row = sums.setdefault(series.key.benchmark, {})
            own_row.setdefault(int(series.commits[i]), []).append((change / sigma, change))
    rows = []
    for benchmark, cells in sums.items():
        unit = store.keys[store.by_benchmark[benchmark][0]].unit
        higher = higher_is_better(unit, getattr(facts.benchmarks.get(benchmark), "facts", None), benchmark)
        rows.append((benchmark, {commit: _square(found, higher) for commit, found in cells.items()}))
    rows.sort(key=lambda row: (-max(abs(square.z) for square in row[1].values()), row[0]))
    if not rows:
        return None
    filled = {commit for _, squares in rows for commit in squares}
    return Grid(machine, tuple(c for c in seen if c in filled), tuple(rows[:MAP_ROWS]), len(rows))


def _square(found: Sequence[tuple[float, float]], higher: bool) -> Square:
    z = float(np.median([z for z, _ in found]))
    return Square(z, math.expm1(float(np.median([c for _, c in found]))), len(found), (z > 0) != higher)


def movements(facts: SiteFacts, events: Sequence[Event]) -> list[Event]:
    """The largest certain changes of the last 30 days of measuring, improvements too; no control among them."""
    dates = {commit.name: commit.date_s for commit in facts.commits}
    now = max((date for date in dates.values() if date is not None), default=None)

    def is_recent(event: Event) -> bool:
        date = dates.get(event.after)
        return now is None or date is None or now - date <= _MONTH_S

    recent = [e for e in events if is_recent(e) and not e.uncertain and not e.retired and e.state != "recovered"]
    recent.sort(key=lambda event: -size(event.lead))
    return recent[:_MOST_MOVES]


def heat_step(z: float) -> int:
    """The colour of a distance in units of noise: 0 within noise, up to 5."""
    return sum(abs(z) > edge for edge in (3.0, 5.0, 8.0, 14.0, 25.0)) if math.isfinite(z) else 0
