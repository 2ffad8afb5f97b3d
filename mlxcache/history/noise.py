"""How noisy one series is, measured so that its own steps do not count as noise.

All functions take logarithms of values in commit order; 0.03 is then close to "3 %".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Median absolute deviation -> standard deviation, for normal data.
_MAD_TO_SIGMA = 1.4826
# Below this, values are equal for every purpose (1e-6 is a ten-thousandth of a percent).
FLOOR = 1e-6


def running_median(x: FloatArray, width: int = 7) -> FloatArray:
    """Median of the `width` values around each one; the edges repeat the outermost value."""
    half = width // 2
    padded = np.concatenate([np.full(half, x[0]), x, np.full(half, x[-1])])
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)
    result: FloatArray = np.partition(windows, half, axis=1)[:, half]
    return result


def short_term_sigma(x: FloatArray) -> float:
    """Standard deviation of one value, from the differences between neighbours.

    A step touches one difference of n - 1, so the median absolute difference does not see it. Autocorrelation
    makes this too small, which `autocorrelation` makes up for.
    """
    if len(x) < 2:
        return FLOOR
    difference = np.diff(x)
    spread = float(np.median(np.abs(difference)))
    if spread <= FLOOR:  # half of the values repeat: fall back on the mean
        spread = float(np.mean(np.abs(difference))) * 0.845
    return max(_MAD_TO_SIGMA * spread / math.sqrt(2.0), FLOOR)


def clip_outliers(x: FloatArray, sigma: float, limit: float = 3.0) -> FloatArray:
    """`x` with everything beyond `limit` sigmas of its running median moved to that bound."""
    middle = running_median(x)
    result: FloatArray = np.clip(x, middle - limit * sigma, middle + limit * sigma)
    return result


def residuals(x: FloatArray, boundaries: Sequence[int]) -> FloatArray:
    """`x` less the mean of its segment; `boundaries` are the first indices of all segments but the first."""
    edges = [0, *boundaries, len(x)]
    out = np.empty(len(x))
    for start, stop in itertools.pairwise(edges):
        out[start:stop] = x[start:stop] - x[start:stop].mean()
    return out


def autocorrelation(rest: FloatArray) -> float:
    """Correlation of neighbouring residuals `rest`, shrunk for short series, within [0, 0.9]."""
    n = len(rest)
    energy = float(rest @ rest)
    if n < 4 or energy <= 0:
        return 0.0
    rho = float(rest[1:] @ rest[:-1]) / energy
    return min(max(rho * n / (n + 10.0), 0.0), 0.9)


def inflation(rho: float) -> float:
    """By how much the variance of a long mean grows when neighbours correlate by `rho` (AR(1))."""
    return (1.0 + rho) / (1.0 - rho)
