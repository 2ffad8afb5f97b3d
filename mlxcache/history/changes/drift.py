"""Tells a drift from steps: a ramp looks like one step or several, and no commit is to blame for it.

Steps one way, one after the other, are held against a ramp between two level parts. Where the ramp explains the
values at least as well, given how many numbers each of the two needs, they become one change with a beginning.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from mlxcache.history.changes.segments import Change
from mlxcache.history.statistics.effect import Scale, Shift
from mlxcache.history.statistics.noise import (
    FLOOR,
    FloatArray,
    autocorrelation,
    clip_outliers,
    inflation,
    local_width,
)

# What goes up within fewer values is a step.
_SHORTEST: Final = 12
# How many places are tried for the beginning, and for the end.
_PLACES: Final = 16
# How much of the levels before and after counts.
_REACH: Final = 80
# A ramp has a beginning, an end and two heights.
_NUMBERS: Final = 4
# One step alone is far more common than a ramp that looks like it; several one way are not.
_DOUBT: Final = 1.0


class Ramp(NamedTuple):
    """The best ramp: its first and last place, its height, and the squares that it leaves."""

    first: int
    last: int
    height: float
    squares: float
    rest: FloatArray


def join_drifts(x: FloatArray, changes: Sequence[Change], scale: Scale) -> list[Change]:
    """The changes, with those that a ramp explains better joined to one that has a `since`."""
    clipped = clip_outliers(x, local_width(x))
    joined: list[Change] = []
    group: list[Change] = []
    for change in [*changes, None]:
        if change is not None and (not group or change.effect.shift * group[-1].effect.shift > 0):
            group.append(change)
            continue
        joined += _as_drift(clipped, group, scale)
        group = [] if change is None else [change]
    return joined


def _as_drift(x: FloatArray, group: list[Change], scale: Scale) -> list[Change]:
    start, stop = max(group[0].start, group[0].index - _REACH), min(group[-1].stop, group[-1].index + _REACH)
    y = x[start:stop]
    ramp = _best_ramp(y)
    if ramp is None:
        return group
    edges = [0, *(change.index - start for change in group), len(y)]
    steps = np.concatenate([y[a:b] - y[a:b].mean() for a, b in itertools.pairwise(edges)])
    noise = max(min(float(steps @ steps), ramp.squares) / len(y), FLOOR**2)
    noise *= inflation(autocorrelation(ramp.rest))
    # The Bayesian criterion: a number more has to explain log(n) squares.
    better = (float(steps @ steps) - ramp.squares) / noise
    more = _NUMBERS - 2 * len(group) - 1 + (_DOUBT if len(group) == 1 else 0.0)
    needs = more * math.log(len(y))
    if better <= needs or ramp.height * group[0].effect.shift <= 0:
        return group
    margin = 1.96 * math.sqrt(noise * 12.0 / len(y))
    effect = Shift(ramp.height, ramp.height - margin, ramp.height + margin)
    surest = max(group, key=lambda change: change.confidence)
    size = scale.size(float(np.median(x[group[0].start : start + ramp.first + 1])), ramp.height)
    return [
        replace(
            surest,
            start=group[0].start,
            since=start + ramp.first,
            index=start + ramp.last,
            stop=group[-1].stop,
            effect=effect,
            size=size,
        )
    ]


def _best_ramp(y: FloatArray) -> Ramp | None:
    """The ramp of at least _SHORTEST values with the least squares, of those on a grid of places."""
    n = len(y)
    if n <= _SHORTEST:
        return None
    t = np.arange(n)
    places = np.unique(np.linspace(0, n - 1, _PLACES).astype(int))
    best: Ramp | None = None
    centred = y - y.mean()
    for first in places:
        lasts = places[places >= first + _SHORTEST]
        if not len(lasts):
            break
        shapes = np.clip((t[None, :] - first) / (lasts - first)[:, None], 0.0, 1.0)
        shapes -= shapes.mean(axis=1, keepdims=True)
        heights = shapes @ centred / (shapes**2).sum(axis=1)
        rests = centred - heights[:, None] * shapes
        squares = (rests**2).sum(axis=1)
        k = int(np.argmin(squares))
        if best is None or squares[k] < best.squares:
            best = Ramp(int(first), int(lasts[k]), float(heights[k]), float(squares[k]), rests[k])
    return best
