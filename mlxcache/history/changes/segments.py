"""One series of values in, its changes with their confidence out; knows nothing of commits or tables.

Detector, significance test and effect size are pieces of `Method` and can be swapped one by one:

    >>> quick = Method(effect=ShiftOfMedians())
    >>> second_opinion = Method(detector=AsvDetector())
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np

from mlxcache.history.changes.confidence import WEIGHTS, WINDOW, Evidence, confidence, weigh
from mlxcache.history.changes.detectors import Detector, PeltDetector
from mlxcache.history.changes.relocate import relocate
from mlxcache.history.statistics.effect import Effect, EffectSize, ShiftOfPairs
from mlxcache.history.statistics.noise import (
    FloatArray,
    autocorrelation,
    clip_outliers,
    inflation,
    residuals,
    short_term_sigma,
)
from mlxcache.history.statistics.significance import RankTest, SignificanceTest

MIN_CHANGE = 0.025
MIN_CONFIDENCE = 0.5
_LEVEL = 3
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Method:
    """How changes are found: what proposes them, tests them, and what is too small or unsure.

    min_change: smallest relative change worth a line (0.025: 2.5 %).
    min_confidence: proposals below it are dropped; 0.5 is where F1 peaks on the tuning split.
    reach: how many commits a boundary may be moved by `relocate`; 0 leaves the detector's own place.
    """

    detector: Detector = field(default_factory=PeltDetector)
    significance: SignificanceTest = field(default_factory=RankTest)
    effect: EffectSize = field(default_factory=ShiftOfPairs)
    min_change: float = MIN_CHANGE
    min_confidence: float = MIN_CONFIDENCE
    reach: int = 4
    weights: tuple[float, ...] = WEIGHTS

    def for_rerun(self) -> Method:
        """This method, picking what is worth measuring again: unsure and slightly small changes too.

        A rerun throws the wrong ones out, so here recall counts and precision does not.
        """
        return replace(
            self,
            min_change=0.8 * self.min_change,
            min_confidence=min(0.1, self.min_confidence),
        )


@dataclass(frozen=True)
class Change:
    """One change.

    `index` is the first value on the new level, `start` and `stop` bound the two levels beside it.
    """

    start: int
    index: int
    stop: int
    effect: Effect
    confidence: float
    p_value: float
    evidence: Evidence


@dataclass(frozen=True)
class _Series:
    """A series as every proposal in it sees it."""

    x: FloatArray
    clipped: FloatArray
    sigma: float
    rho: float


def log_values(values: FloatArray) -> tuple[FloatArray, bool]:
    """Logarithms, and True; where a value is 0 or negative, shares of the median magnitude and False.

    Differences of either are read as relative changes, so a counter that starts at zero can be judged as
    well.
    """
    if bool((values > 0).all()):
        return np.log(values), True
    magnitude = np.abs(values)
    scale = float(np.median(magnitude)) or float(magnitude.max()) or 1.0
    return values / scale, False


def _z_from_p(p: float) -> float:
    return _NORMAL.inv_cdf(1.0 - max(p, 1e-15) / 2.0) if p < 1.0 else 0.0


def _judge(series: _Series, start: int, index: int, stop: int, method: Method) -> Change:
    before = series.x[max(start, index - WINDOW) : index]
    after = series.x[index : min(stop, index + WINDOW)]
    p_value = method.significance.p_value(before, after)
    effect = method.effect.measure(before, after, inflation(series.rho))
    agree = 1.0 if (effect.shift >= 0) == (after.mean() >= before.mean()) else -1.0
    evidence = weigh(
        series.clipped[start:index],
        series.clipped[index:stop],
        sigma=series.sigma,
        rho=series.rho,
        z_rank=agree * _z_from_p(p_value),
        shift=effect.shift,
    )
    sure = confidence(evidence, method.weights) if _is_level(before, after, effect.shift) else 0.0
    return Change(start, index, stop, effect, sure, p_value, evidence)


def _is_level(before: FloatArray, after: FloatArray, shift: float) -> bool:
    """Whether three values on each side lie on their side of the middle.

    Two of three are a spike, no level.
    """
    sign = 1.0 if shift >= 0 else -1.0
    middle = (float(np.median(before)) + float(np.median(after))) / 2.0
    low, high = int((sign * (before - middle) < 0).sum()), int((sign * (after - middle) > 0).sum())
    return min(low, high) >= _LEVEL


def _prepare(x: FloatArray, boundaries: list[int]) -> _Series:
    quick = short_term_sigma(x)
    clipped = clip_outliers(x, quick)
    rest = residuals(clipped, boundaries)
    overall = math.sqrt(float(rest @ rest) / max(1, len(x) - len(boundaries) - 1))
    return _Series(x, clipped, max(quick, overall), autocorrelation(rest))


def find_changes(
    x: FloatArray,
    method: Method | None = None,
    *,
    proposed: Sequence[int] | None = None,
    dropped: Callable[[Change], None] | None = None,
) -> list[Change]:
    """All changes in the log values `x` (see `log_values`), in order.

    The weakest proposal is dropped and its two levels joined until all that are left are large and sure
    enough, so a real step is judged against everything on both sides of it. `proposed` is what the method's
    detector answers, where somebody has asked it already. `dropped` is told of each proposal that went, as it
    was judged at that moment.
    """
    chosen = method or Method()
    boundaries = list(chosen.detector.boundaries(x) if proposed is None else proposed)
    if not boundaries:
        return []
    series = _prepare(x, boundaries)
    if chosen.reach:
        boundaries = relocate(x, boundaries, reach=chosen.reach)
    edges = [0, *boundaries, len(x)]
    smallest = math.log1p(chosen.min_change)
    changes = [_judge(series, edges[k - 1], edges[k], edges[k + 1], chosen) for k in range(1, len(edges) - 1)]
    while changes:
        # Too small comes before too unsure.
        ranking = [c.confidence - (2.0 if abs(c.effect.shift) < smallest else 0.0) for c in changes]
        weakest = int(np.argmin(ranking))
        if ranking[weakest] >= chosen.min_confidence:
            break
        gone = changes.pop(weakest)
        if dropped is not None:
            dropped(gone)
        if weakest > 0:
            left = changes[weakest - 1]
            changes[weakest - 1] = _judge(series, left.start, left.index, gone.stop, chosen)
        if weakest < len(changes):
            right = changes[weakest]
            changes[weakest] = _judge(series, gone.start, right.index, right.stop, chosen)
    return changes


def search_range(change: Change, sigma: float, commits: int) -> tuple[int, int]:
    """Two positions between which the change lies almost surely.

    A step of s sigmas is placed with an error of the order of 1 / s**2 commits (Hinkley, Biometrika 57,
    1970).
    """
    steps = abs(change.effect.shift) / max(sigma, 1e-9)
    reach = min(max(math.ceil(2.0 / steps**2) + 1, 2), 12)
    low = max(change.start, change.index - 1 - reach)
    high = min(change.stop - 1, change.index + reach, commits - 1)
    return low, high
