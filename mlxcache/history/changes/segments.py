"""One series of values in, its changes with their confidence out; knows nothing of commits or tables.

Detector, significance test and effect size are pieces of `Method` and can be swapped one by one:

    >>> second_opinion = Method(detector=AsvDetector())
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from mlxcache.history.changes.confidence import (
    WEIGHTS,
    WINDOW,
    Evidence,
    Side,
    Surroundings,
    confidence,
    weigh,
)
from mlxcache.history.changes.detectors import Detector, KernelDetector
from mlxcache.history.changes.relocate import relocate
from mlxcache.history.statistics.effect import LOGS, EffectSize, Scale, Shift, ShiftOfPairs
from mlxcache.history.statistics.noise import (
    FLOOR,
    FloatArray,
    autocorrelation,
    clip_outliers,
    inflation,
    local_width,
    median,
    residuals,
)
from mlxcache.history.statistics.significance import RankTest, SignificanceTest

MIN_CHANGE = 0.025
MIN_CONFIDENCE = 0.6
_LEVEL = 3
_ROUNDING = 1e-9
# How often boundaries are moved and weighed; further rounds change next to nothing.
_ROUNDS = 3


@dataclass(frozen=True)
class Method:
    """How changes are found: what proposes them, tests them, and what is too small or unsure.

    min_change: smallest relative change worth a line (0.025: 2.5 %).
    min_confidence: proposals below it are dropped; 0.6 is where F1 peaks on real noise.
    reach: how many commits a boundary may be moved by `relocate`; 0 leaves the detector's own place.
    open_intervals: whether a change counts whose interval holds "no change".
    """

    detector: Detector = field(default_factory=KernelDetector)
    significance: SignificanceTest = field(default_factory=RankTest)
    effect: EffectSize = field(default_factory=ShiftOfPairs)
    min_change: float = MIN_CHANGE
    min_confidence: float = MIN_CONFIDENCE
    reach: int = 4
    weights: tuple[float, ...] = WEIGHTS
    open_intervals: bool = False

    def for_rerun(self) -> Method:
        """This method, picking what is worth measuring again: unsure and slightly small changes too.

        A rerun throws the wrong ones out, so here recall counts and precision does not.
        """
        return replace(
            self,
            min_change=0.8 * self.min_change,
            min_confidence=min(0.1, self.min_confidence),
            open_intervals=True,
        )


@dataclass(frozen=True)
class Change:
    """One change.

    `index` is the first value on the new level, `start` and `stop` bound the two levels beside it. `size` is what
    thresholds ask for, see `effect`. `p_value` counts in how many places the step was looked for. A drift has a
    `since`, where it began; it ends at `index`.
    """

    start: int
    index: int
    stop: int
    effect: Shift
    size: float
    confidence: float
    p_value: float
    evidence: Evidence
    since: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the interval holds "no change"."""
        return self.effect.low <= 0 <= self.effect.high


@dataclass(frozen=True)
class _Series:
    """A series as every proposal in it sees it."""

    x: FloatArray
    clipped: FloatArray
    rest: FloatArray
    scale: Scale


def _judge(series: _Series, start: int, index: int, stop: int, method: Method) -> Change:
    n = len(series.x)
    first, last = max(start, index - WINDOW), min(stop, index + WINDOW)
    near = slice(max(0, first - WINDOW), min(n, last + WINDOW))
    rest = series.rest[near]
    around = Surroundings(
        noise=max(math.sqrt(float(rest @ rest) / len(rest)), FLOOR),
        rho=autocorrelation(rest),
        earlier=series.x[max(0, start - WINDOW) : start],
        later=series.x[stop : stop + WINDOW],
        at_end=(first == 0, last == n),
    )
    before = Side(series.x[first:index], series.clipped[first:index])
    after = Side(series.x[index:last], series.clipped[index:last])
    effect = method.effect.measure(before.x, after.x, inflation(around.rho))
    evidence = weigh(before, after, around, effect.shift)
    sure = confidence(evidence, method.weights) if _is_level(before.x, after.x, effect.shift) else 0.0
    # The place was chosen among so many.
    places = max(1, len(before.x) + len(after.x) - 2 * _LEVEL + 1)
    p_value = min(1.0, places * method.significance.p_value(before.x, after.x))
    size = series.scale.size(before.middle, effect.shift)
    return Change(start, index, stop, effect, size, sure, p_value, evidence)


def _is_level(before: FloatArray, after: FloatArray, shift: float) -> bool:
    """Whether three values on each side lie on their side of the middle.

    Two of three are a spike, no level.
    """
    sign = 1.0 if shift >= 0 else -1.0
    middle = (median(before) + median(after)) / 2.0
    low, high = int((sign * (before - middle) < 0).sum()), int((sign * (after - middle) > 0).sum())
    return min(low, high) >= _LEVEL


def _prepare(x: FloatArray, boundaries: list[int], scale: Scale) -> _Series:
    clipped = clip_outliers(x, local_width(x))
    return _Series(x, clipped, residuals(clipped, boundaries), scale)


def find_changes(
    x: FloatArray,
    method: Method | None = None,
    *,
    scale: Scale = LOGS,
    dropped: Callable[[Change], None] | None = None,
) -> list[Change]:
    """All changes in the values `x`, which are on `scale` (see `effect.on_scale`), in order.

    The weakest proposal is dropped and its two levels joined until all that are left are large and sure
    enough, so a real step is judged against everything on both sides of it. `dropped` is told of each proposal
    that went, as it was judged at that moment.
    """
    chosen = method or Method()
    boundaries = chosen.detector.boundaries(x)
    if not boundaries:
        return []
    series = _prepare(x, boundaries, scale)
    reach = chosen.reach
    changes: list[Change] = []
    for _ in range(_ROUNDS):
        # Again with the levels that are left: a proposal that is gone had cut them short.
        placed = relocate(x, boundaries, reach=reach) if reach else boundaries
        if changes and placed == boundaries:
            break
        edges = [0, *placed, len(x)]
        changes = [
            _judge(series, start, index, stop, chosen)
            for start, index, stop in zip(edges, edges[1:], edges[2:], strict=False)
        ]
        changes = _prune(series, changes, chosen, dropped)
        boundaries = [change.index for change in changes]
        reach *= 2
        if not boundaries:
            break
    return changes


def _prune(
    series: _Series, changes: list[Change], method: Method, dropped: Callable[[Change], None] | None
) -> list[Change]:
    """The changes that are left once the weakest went, one after the other."""
    while changes:
        # Too small comes before too unsure.
        small = [
            c.size < method.min_change - _ROUNDING or (c.is_open and not method.open_intervals) for c in changes
        ]
        ranking = [c.confidence - 2.0 * too_small for c, too_small in zip(changes, small, strict=True)]
        weakest = int(np.argmin(ranking))
        if ranking[weakest] >= method.min_confidence:
            break
        gone = changes.pop(weakest)
        if dropped is not None:
            dropped(gone)
        if weakest > 0:
            left = changes[weakest - 1]
            changes[weakest - 1] = _judge(series, left.start, left.index, gone.stop, method)
        if weakest < len(changes):
            right = changes[weakest]
            changes[weakest] = _judge(series, gone.start, right.index, right.stop, method)
    return changes


def search_range(change: Change, sigma: float, commits: int) -> tuple[int, int]:
    """Two positions between which the change lies almost surely.

    A step of s sigmas is placed with an error of the order of 1 / s**2 commits (Hinkley, Biometrika 57,
    1970).
    """
    if change.since is not None:
        return change.since, change.index
    steps = abs(change.effect.shift) / max(sigma, 1e-9)
    reach = min(max(math.ceil(2.0 / steps**2) + 1, 2), 12)
    low = max(change.start, change.index - 1 - reach)
    high = min(change.stop - 1, change.index + reach, commits - 1)
    return low, high
