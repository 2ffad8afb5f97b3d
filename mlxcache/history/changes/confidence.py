"""How sure a proposed change is: evidence in, probability out.

A logistic regression on the numbers of `Evidence`, none of which depends on the unit or the noise.
It was fitted on changes planted into quiet stretches of public histories (`python tools/tune_detector.py`), of
some projects alone; docs/detector.md has what it says of the others against what is right there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mlxcache.history.statistics.density import profile
from mlxcache.history.statistics.noise import FloatArray, inflation, median

# Values further than this from a boundary say little about it: machines change in the meantime.
WINDOW = 40
# Values that a level has at least, and how far off a change may be placed.
_LEVEL = 3
_CLOSE = 2


@dataclass(frozen=True)
class Evidence:
    """What is known about one proposed change; WINDOW values on both sides count.

    slope: the difference in standard errors once a straight line through both sides may explain it: small for a
        drift.
    overlap: pairs of a value before and one after that lie the right way round, less those that do not: 1 where
        the sides do not overlap.
    elsewhere: share of the values beyond both levels that lie on the wrong side of the middle: there the same
        change comes and goes.
    smaller_side: number of values (at most WINDOW) on the side that has fewer.
    at_end: the smaller side is cut off by the end of the series and may yet grow.
    told: log-likelihood of the two levels over that of one of them alone.
    placed: how probable it is that the step lies within two values of its place, if there is one.
    """

    slope: float
    overlap: float
    elsewhere: float
    smaller_side: int
    at_end: bool
    told: float
    placed: float

    def vector(self) -> FloatArray:
        """The regression's terms, the constant first."""
        return np.array(
            [
                1.0,
                min(max(self.slope, -3.0), 10.0),
                self.overlap,
                self.elsewhere,
                1.0 / self.smaller_side,
                1.0 / self.smaller_side**2,
                float(self.at_end),
                math.log1p(min(max(self.told, 0.0), 200.0)),
                math.log(max(self.placed, 1e-3)),
            ]
        )


# Terms in the order of Evidence.vector; remade by tools/tune_detector.py.
WEIGHTS: tuple[float, ...] = (-5.182, 0.311, 4.277, -1.066, -33.339, 51.91, 1.418, 1.1, 1.331)


def confidence(evidence: Evidence, weights: tuple[float, ...] = WEIGHTS) -> float:
    """Probability that a true change lies within two commits of the proposed place."""
    score = float(evidence.vector() @ np.asarray(weights))
    return 1.0 / (1.0 + math.exp(-min(max(score, -500.0), 500.0)))


def step_with_slope(y: FloatArray, split: int) -> tuple[float, float]:
    """Size of the step at `split` when both sides share one slope, and its error in sigmas.

    Least squares for level + slope * position + step; with equal spacing the inverse needs no matrix library.
    """
    n = len(y)
    t = np.arange(n) - (n - 1) / 2.0
    g = np.where(np.arange(n) >= split, 1.0, 0.0)
    g -= g.mean()
    tt, gg, tg = float(t @ t), float(g @ g), float(t @ g)
    determinant = tt * gg - tg * tg
    if determinant <= 1e-9 * tt * gg:
        return 0.0, math.inf
    size = (tt * float(g @ y) - tg * float(t @ y)) / determinant
    return size, math.sqrt(tt / determinant)


def overlap(before: FloatArray, after: FloatArray) -> float:
    """Cliff's delta: 1 if all values after lie above all before, 0 if they are alike."""
    return float(np.sign(after[:, None] - before[None, :]).mean())


def told_and_placed(before: FloatArray, after: FloatArray) -> tuple[float, float]:
    """`Evidence.told` and `Evidence.placed` of the step between the two."""
    n = len(before)
    likely = profile(before, after, np.concatenate([before, after]))
    inner = likely[_LEVEL : len(likely) - _LEVEL]
    if not len(inner):
        return 0.0, 1.0
    best = float(inner.max())
    mass = np.exp(inner - best)
    near = mass[max(0, n - _LEVEL - _CLOSE) : n - _LEVEL + _CLOSE + 1]
    return best - max(0.0, float(likely[-1])), float(near.sum() / mass.sum())


@dataclass(frozen=True)
class Side:
    """Values on one side of a boundary, the nearest WINDOW of its level: as they are, and clipped."""

    x: FloatArray
    clipped: FloatArray

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.x)


@dataclass(frozen=True)
class Surroundings:
    """What lies around both sides.

    noise: standard deviation of the residuals nearby. rho: their autocorrelation. earlier, later: values beyond
    the two levels. at_end: which sides the series' ends cut off.
    """

    noise: float
    rho: float
    earlier: FloatArray
    later: FloatArray
    at_end: tuple[bool, bool]


def weigh(before: Side, after: Side, around: Surroundings, shift: float) -> Evidence:
    """The evidence for a change from one side to the other, by `shift` as the effect size has it."""
    n, m = len(before.x), len(after.x)
    sign = 1.0 if shift >= 0 else -1.0
    inflated = math.sqrt(inflation(around.rho))
    middle = (before.middle + after.middle) / 2.0
    wrong = int((sign * (around.earlier - middle) > 0).sum()) + int((sign * (around.later - middle) <= 0).sum())
    size, factor = step_with_slope(np.concatenate([before.clipped, after.clipped]), n)
    first_cut, last_cut = around.at_end
    told, placed = told_and_placed(before.x, after.x)
    return Evidence(
        slope=sign * size / (around.noise * inflated * factor),
        overlap=sign * overlap(before.x, after.x),
        elsewhere=wrong / max(1, len(around.earlier) + len(around.later)),
        smaller_side=min(n, m),
        at_end=(last_cut and m <= n) or (first_cut and n < m),
        told=told,
        placed=placed,
    )
