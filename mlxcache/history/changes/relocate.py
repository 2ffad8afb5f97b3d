"""Moves a boundary by a few commits to where the values themselves put it.

Least squares places a step well for bell-shaped noise only. Here the residuals of both sides give a density
of their own, and each value near the boundary votes with its likelihood on either side; two-mode noise gains
most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlxcache.history.changes.confidence import WINDOW
from mlxcache.history.statistics.noise import FLOOR, FloatArray, median

# A residual of any size stays possible: one wild value must not decide.
_SURPRISE = 0.05


def _log_density(sample: FloatArray, points: FloatArray) -> FloatArray:
    """Kernel density of `sample` at `points` (Silverman's bandwidth, narrowed), over a Cauchy floor."""
    n = len(sample)
    sigma = max(float(sample.std()), FLOOR)
    quarters = float(np.subtract(*np.quantile(sample, [0.75, 0.25]))) / 1.349
    width = max(0.74 * min(sigma, max(quarters, 0.2 * sigma)) * n**-0.2, FLOOR)
    distance = (points[:, None] - sample[None, :]) / width
    density = np.exp(-0.5 * distance**2).sum(axis=1) / (n * width * math.sqrt(2.0 * math.pi))
    floor = _SURPRISE / (math.pi * 3.0 * sigma * (1.0 + (points / (3.0 * sigma)) ** 2))
    result: FloatArray = np.log((1.0 - _SURPRISE) * density + floor)
    return result


def relocate(x: FloatArray, boundaries: Sequence[int], *, reach: int = 4, min_size: int = 3) -> list[int]:
    """`boundaries` of the log values `x`, each moved by at most `reach` to its most likely place.

    No segment becomes shorter than `min_size`.
    """
    edges = [0, *boundaries, len(x)]
    for k in range(1, len(edges) - 1):
        start, here, stop = edges[k - 1], edges[k], edges[k + 1]
        first, last = max(start + min_size, here - reach), min(stop - min_size, here + reach)
        if last <= first:
            continue
        before, after = x[max(start, here - WINDOW) : here], x[here : min(stop, here + WINDOW)]
        low, high = median(before), median(after)
        sample = np.concatenate([before - low, after - high])
        near = x[first:last]
        vote = _log_density(sample, near - low) - _log_density(sample, near - high)
        edges[k] = first + int(np.argmax(np.concatenate([[0.0], np.cumsum(vote)])))
    return edges[1:-1]
