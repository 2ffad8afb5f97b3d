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


# How far to each side a running median looks.
REACH = 3
# Compare and exchange these places of seven values and the fourth is their median (Paeth, Graphics Gems, 1990).
_EXCHANGES = (
    *((0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6)),
    *((2, 3), (3, 6), (4, 5), (1, 4), (1, 3), (3, 4)),
)


def running_median(x: FloatArray) -> FloatArray:
    """Median of the seven values around each one; the edges repeat the outermost value."""
    return middle_of_seven(np.concatenate([np.full(REACH, x[0]), x, np.full(REACH, x[-1])]))


def middle_of_seven(padded: FloatArray) -> FloatArray:
    """Median of each run of seven values; six fewer than there are values."""
    n = len(padded) - 2 * REACH
    seven = [padded[i : i + n] for i in range(2 * REACH + 1)]
    # A sorting network on whole arrays: five times as fast as sorting window by window.
    for low, high in _EXCHANGES:
        seven[low], seven[high] = np.minimum(seven[low], seven[high]), np.maximum(seven[low], seven[high])
    return seven[REACH]


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


def short_term_sigmas(xs: Sequence[FloatArray]) -> list[float]:
    """`short_term_sigma` of each; series of one length are looked at together."""
    found = [0.0] * len(xs)
    by_length: dict[int, list[int]] = {}
    for index, x in enumerate(xs):
        by_length.setdefault(len(x), []).append(index)
    for n, indices in by_length.items():
        spreads = [0.0] * len(indices)
        if n >= 2 and len(indices) > 1:
            difference = np.diff(np.stack([xs[index] for index in indices]), axis=1)
            np.abs(difference, out=difference)
            half = (n - 1) // 2
            if (n - 1) % 2:
                spreads = np.partition(difference, half, axis=1)[:, half].tolist()
            else:
                pair = np.partition(difference, (half - 1, half), axis=1)
                spreads = ((pair[:, half - 1] + pair[:, half]) / 2.0).tolist()
        for index, spread in zip(indices, spreads, strict=True):
            # Where half of the values repeat, it is another measure that counts.
            large = spread > FLOOR
            found[index] = (
                max(_MAD_TO_SIGMA * spread / math.sqrt(2.0), FLOOR) if large else short_term_sigma(xs[index])
            )
    return found


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
