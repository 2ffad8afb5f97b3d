"""How likely each value is on the old level and on the new one, by the residuals' own density.

Noise is rarely bell-shaped: in two modes a value half-way between two levels may belong to neither.
"""

from __future__ import annotations

import math

import numpy as np

from mlxcache.history.statistics.noise import FLOOR, FloatArray, median

# A residual of any size stays possible: one wild value must not decide.
_SURPRISE = 0.05


def log_density(sample: FloatArray, points: FloatArray) -> FloatArray:
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


def profile(before: FloatArray, after: FloatArray, near: FloatArray) -> FloatArray:
    """Log-likelihood that the old level ends after 0, 1, ... len(near) of the values `near`.

    `before` and `after` are values of the two levels; 0 is "all are new".
    """
    low, high = median(before), median(after)
    sample = np.concatenate([before - low, after - high])
    votes = log_density(sample, near - low) - log_density(sample, near - high)
    return np.concatenate([[0.0], np.cumsum(votes)])
