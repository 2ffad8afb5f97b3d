"""How far the numbers can be trusted: the noise of each machine, and what was measured at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from mlxcache.dashboard.data.repository import Repository
from mlxcache.history.loading.history import facts_of
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.history.statistics.control import is_control
from mlxcache.history.statistics.noise import short_term_sigma

_SAMPLE: Final = 300  # series a machine that its noise is estimated from
_BINS: Final = 160  # of a strip of commits
_LEAST: Final = 4  # commits of a series before its noise can be told


@dataclass(frozen=True, slots=True)
class Noise:
    """Relative spread on one machine; None where too little was measured.

    between: of one commit's value against its neighbours', the median over its series, with the tenth and
    ninetieth percentile. within: half of the 99 % interval of repeated runs at one commit, the median. control:
    `between` of the control benchmarks, by name.
    """

    between: tuple[float, float, float] | None
    within: float | None
    controls: dict[str, float]


@dataclass(frozen=True, slots=True)
class Coverage:
    """What one machine and environment measured.

    `bins` are shares of the commits that have results, along the commits of the table (or the branch);
    `missing` commits of the branch between its first and its last have none, newest first.
    """

    machine: str
    env: str
    n_commits: int
    n_series: int
    last_index: int
    n_between: int
    missing: tuple[tuple[str, str], ...]
    n_missing: int
    bins: tuple[float, ...]


def machine_noise(store: SeriesStore, positions: Sequence[int]) -> Noise:
    """The noise of the machine whose series these are."""
    step = max(1, len(positions) // _SAMPLE)
    between, within = [], []
    controls: dict[str, list[float]] = {}
    chosen = list(positions[::step])
    chosen += [p for p in positions if is_control(store.keys[p].benchmark) and p not in set(chosen)]
    for position in chosen:
        series = store.series(position)
        positive = series.values > 0
        with np.errstate(all="ignore"):
            half = (series.high - series.low) / 2.0 / series.values
        half = half[np.isfinite(half) & (half > 0)]
        if len(half):
            within.append(float(np.median(half)))
        if len(series.values) < _LEAST or not bool(positive.all()):
            continue
        sigma = short_term_sigma(np.log(series.values))
        if sigma > 1e-5:
            between.append(sigma)
        if is_control(series.key.benchmark):
            controls.setdefault(series.key.label, []).append(sigma)
    spread = tuple(float(q) for q in np.quantile(between, [0.5, 0.1, 0.9])) if between else None
    return Noise(
        (spread[0], spread[1], spread[2]) if spread else None,
        float(np.median(within)) if within else None,
        {name: float(np.median(values)) for name, values in sorted(controls.items())},
    )


def coverage(df: pd.DataFrame, store: SeriesStore, repository: Repository) -> list[Coverage]:
    """One entry for each machine and environment, the most recent first."""
    n_series: dict[tuple[str, str], int] = {}
    seen: dict[tuple[str, str], list[np.ndarray]] = {}
    for position, key in enumerate(store.keys):
        place = (key.machine, key.env)
        n_series[place] = n_series.get(place, 0) + 1
        seen.setdefault(place, []).append(store.commits[store.starts[position] : store.stops[position]])
    positions = np.full(store.n_commits, -1)
    for commit in facts_of(df).commits.values():
        if commit.position is not None and commit.index < store.n_commits:
            positions[commit.index] = commit.position
    line = repository.line
    found = []
    for place, parts in seen.items():
        flags = np.zeros(store.n_commits, np.bool_)
        for part in parts:
            flags[part] = True
        indices = np.flatnonzero(flags)
        missing: list[tuple[str, str]] = []
        between = len(indices)
        on_line = positions[indices]
        on_line = on_line[on_line >= 0]
        if line and len(on_line):
            first, last = int(on_line.min()), int(on_line.max())
            have = set(on_line.tolist())
            missing = [line[p] for p in range(last, first - 1, -1) if p not in have]
            between = last - first + 1
            marks = np.zeros(max(1, len(line)), np.float64)
            marks[on_line] = 1.0
            start = int(positions[positions >= 0].min())
            marks = marks[start:]
        else:
            marks = flags.astype(np.float64)
        found.append(
            Coverage(
                *place, len(indices), n_series[place], int(indices.max()), between, tuple(missing[:200]),
                len(missing), _bins(marks),
            )
        )  # fmt: skip
    return sorted(found, key=lambda entry: (-entry.last_index, entry.machine, entry.env))


def _bins(marks: np.ndarray) -> tuple[float, ...]:
    if len(marks) <= _BINS:
        return tuple(marks.tolist())
    edges = np.linspace(0, len(marks), _BINS + 1).round().astype(int)
    sums = np.add.reduceat(marks, edges[:-1])
    return tuple((sums / np.diff(edges)).round(3).tolist())


def percent(share: float | None) -> str:
    """A spread as people read it."""
    if share is None or not math.isfinite(share):
        return "unknown"
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"
