"""How noisy one series is, measured so that its own steps do not count as noise.

All functions take logarithms of values in commit order; 0.03 is then close to "3 %".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter, uniform_filter1d

FloatArray = NDArray[np.float64]

# Median absolute deviation -> standard deviation, for normal data.
_MAD_TO_SIGMA = 1.4826
# Below this, values are equal for every purpose (1e-6 is a ten-thousandth of a percent).
FLOOR = 1e-6


# How many values a running median looks at.
_SPAN = 7
# How many differences tell how noisy a place is.
_NEAR = 61
# Neighbours alone would take noise in two modes for quiet, and wandering for noise.
_LAGS = (1, 2, 3)


def running_median(x: FloatArray) -> FloatArray:
    """Median of the seven values around each one; the ends are mirrored.

    Mirrored, not repeated: an outlier at the very end is one of seven values there too, and is clipped.
    """
    result: FloatArray = median_filter(x, _SPAN, mode="mirror")
    return result


def median(x: FloatArray) -> float:
    """`np.median` of finite values, without what it costs to ask about axes and NaN."""
    half = len(x) // 2
    if len(x) % 2:
        return float(np.partition(x, half)[half])
    pair = np.partition(x, (half - 1, half))
    return float((pair[half - 1] + pair[half]) / 2.0)


def short_term_sigma(x: FloatArray) -> float:
    """Standard deviation of one value, from the differences between neighbours.

    A step touches one difference of n - 1, so the median absolute difference does not see it. Autocorrelation
    makes this too small, which `autocorrelation` makes up for.
    """
    if len(x) < 2:
        return FLOOR
    difference = np.diff(x)
    np.abs(difference, out=difference)
    spread = median(difference)
    if spread <= FLOOR:  # half of the values repeat: fall back on the mean
        spread = float(np.mean(difference)) * 0.845
    return max(_MAD_TO_SIGMA * spread / math.sqrt(2.0), FLOOR)


def width(x: FloatArray) -> float:
    """Standard deviation of one value, from differences at several lags; at least FLOOR."""
    spreads = []
    for lag in _LAGS:
        if len(x) > lag:
            difference = np.abs(x[lag:] - x[:-lag])
            spread = median(difference)
            spreads.append(spread if spread > FLOOR else 0.845 * float(difference.mean()))
    return max(_MAD_TO_SIGMA / math.sqrt(2.0) * sum(spreads) / len(spreads), FLOOR) if spreads else FLOOR


def local_width(x: FloatArray) -> FloatArray:
    """`width` at each value, from what lies within 30 values of it; the ends are mirrored.

    Where noise grows, what is judged at one place is judged by the noise of that place.
    """
    total = np.zeros(len(x))
    lags = [lag for lag in _LAGS if len(x) > lag]
    for lag in lags:
        difference = np.abs(x[lag:] - x[:-lag])
        spread = median_filter(difference, _NEAR, mode="mirror")
        spread = np.where(spread > FLOOR, spread, 0.845 * uniform_filter1d(difference, _NEAR, mode="mirror"))
        # A difference stands between its two values.
        total += np.pad(spread, (lag // 2, lag - lag // 2), mode="edge")
    result: FloatArray = np.maximum(_MAD_TO_SIGMA / math.sqrt(2.0) * total / max(1, len(lags)), FLOOR)
    return result


def clip_outliers(x: FloatArray, sigma: float | FloatArray, limit: float = 3.0) -> FloatArray:
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
