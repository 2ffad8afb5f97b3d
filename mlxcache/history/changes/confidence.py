"""How sure a proposed change is: evidence in, probability out.

A logistic regression on the numbers of `Evidence`, none of which depends on the unit or the noise.
It was fitted on changes planted into quiet stretches of public histories (`python tools/tune_detector.py`), of
some projects alone; docs/detector.md has what it says of the others against what is right there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mlxcache.history.statistics.noise import FloatArray, inflation, median

# Values further than this from a boundary say little about it: machines change in the meantime.
WINDOW = 40


@dataclass(frozen=True)
class Evidence:
    """What is known about one proposed change; WINDOW values on both sides count.

    gain: by how many values two levels explain more than one does, as a kernel sees it; wild values do no harm.
    slope: the difference in standard errors once a straight line through both sides may explain it: small for a
        drift.
    overlap: pairs of a value before and one after that lie the right way round, less those that do not: 1 where
        the sides do not overlap.
    elsewhere: share of the values beyond both levels that lie on the wrong side of the middle: there the same
        change comes and goes.
    smaller_side: number of values (at most WINDOW) on the side that has fewer.
    at_end: the smaller side is cut off by the end of the series and may yet grow.
    """

    gain: float
    slope: float
    overlap: float
    elsewhere: float
    smaller_side: int
    at_end: bool

    def vector(self) -> FloatArray:
        """The regression's terms, the constant first."""
        return np.array(
            [
                1.0,
                math.log(max(self.gain, 0.05)),
                min(max(self.slope, -3.0), 10.0),
                self.overlap,
                self.elsewhere,
                1.0 / self.smaller_side,
                1.0 / self.smaller_side**2,
                float(self.at_end),
            ]
        )


# Terms in the order of Evidence.vector; remade by tools/tune_detector.py.
WEIGHTS: tuple[float, ...] = (-4.232, 1.163, 0.358, 4.376, -0.951, -23.199, 24.994, 0.948)


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


def kernel_gain(x: FloatArray, split: int, width: float) -> float:
    """By how much the kernel cost of `x` falls when it is split; 0 for no difference."""
    alike = np.exp(-0.5 * ((x[:, None] - x[None, :]) / width) ** 2)
    before, after = alike[:split, :split].sum() / split, alike[split:, split:].sum() / (len(x) - split)
    return float(before + after - alike.sum() / len(x))


def overlap(before: FloatArray, after: FloatArray) -> float:
    """Cliff's delta: 1 if all values after lie above all before, 0 if they are alike."""
    return float(np.sign(after[:, None] - before[None, :]).mean())


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

    noise, width: standard deviation of a value nearby, from residuals and from differences. rho: the residuals'
    autocorrelation. earlier, later: values beyond the two levels. at_end: which sides the series' ends cut off.
    """

    noise: float
    width: float
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
    both = np.concatenate([before.x, after.x])
    wrong = int((sign * (around.earlier - middle) > 0).sum()) + int((sign * (around.later - middle) <= 0).sum())
    size, factor = step_with_slope(np.concatenate([before.clipped, after.clipped]), n)
    first_cut, last_cut = around.at_end
    return Evidence(
        gain=kernel_gain(both, n, max(around.noise, around.width / 2.0)),
        slope=sign * size / (around.noise * inflated * factor),
        overlap=sign * overlap(before.x, after.x),
        elsewhere=wrong / max(1, len(around.earlier) + len(around.later)),
        smaller_side=min(n, m),
        at_end=(last_cut and m <= n) or (first_cut and n < m),
    )
