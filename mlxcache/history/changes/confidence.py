"""How sure a proposed change is: evidence in, probability out.

The probability is calibrated: among changes reported with confidence 0.8 about 80 % are within two commits of
a true one on the labelled series of `tools.labelled`. It is a logistic regression on six numbers,
fitted by `python tools/tune_detector.py` on the tuning split; docs/detector.md has its calibration on the
held-out split. On noise unlike all eight models it is a score, no longer a probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mlxcache.history.statistics.noise import FloatArray, inflation

# Values further than this from a boundary say little about it: machines change in the meantime.
WINDOW = 40
# Beyond these a larger score adds nothing.
_MAX_Z = 15.0
_MIN_Z = 0.1


@dataclass(frozen=True)
class Evidence:
    """What is known about one proposed change.

    z: difference of the two means in standard errors, autocorrelation included.
    z_slope: the same once a straight line through both sides may explain the difference: small for a drift.
    z_rank: the rank test's standard score.
    shift: absolute difference of the logarithms.
    smaller_side: number of commits (at most WINDOW) on the side that has fewer.
    """

    z: float
    z_slope: float
    z_rank: float
    shift: float
    smaller_side: int

    def vector(self) -> FloatArray:
        """The regression's terms, the constant first."""
        return np.array(
            [
                1.0,
                math.log(min(max(self.z, _MIN_Z), _MAX_Z)),
                min(max(self.z_slope, -3.0), _MAX_Z),
                min(self.z_rank, _MAX_Z),
                math.log(max(self.shift, 1e-4) / 0.025),
                math.log(self.smaller_side),
            ]
        )


# Terms in the order of Evidence.vector; remade by tools/tune_detector.py.
WEIGHTS: tuple[float, ...] = (-8.633, 2.01, 0.624, 0.098, 0.602, 1.073)


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


def weigh(
    before: FloatArray, after: FloatArray, *, sigma: float, rho: float, z_rank: float, shift: float
) -> Evidence:
    """Evidence from the (outlier-clipped) log values on both sides of a boundary, nearest WINDOW of each."""
    near_before, near_after = before[-WINDOW:], after[:WINDOW]
    n, m = len(near_before), len(near_after)
    spread = sigma * math.sqrt(inflation(rho))
    difference = float(near_after.mean() - near_before.mean())
    sign = 1.0 if difference >= 0 else -1.0
    size, factor = step_with_slope(np.concatenate([near_before, near_after]), n)
    return Evidence(
        z=abs(difference) / (spread * math.sqrt(1.0 / n + 1.0 / m)),
        z_slope=sign * size / (spread * factor),
        z_rank=sign * z_rank / math.sqrt(inflation(rho)),
        shift=abs(shift),
        smaller_side=min(n, m),
    )
