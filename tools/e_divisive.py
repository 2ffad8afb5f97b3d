"""E-divisive with means (Matteson and James, JASA 2014), to compare with; not what mlxcache uses.

Bisection: the split with the largest energy distance between its sides is a change if at most one in twenty of the
same values in another order would have a larger one. MongoDB's package does the same, but pins numpy below 2.
"""

from __future__ import annotations

import numpy as np

from mlxcache.history.statistics.noise import FloatArray

_LEAST = 2


def best_split(values: FloatArray) -> tuple[float, int]:
    """The largest energy distance between two sides, weighed by their lengths, and where the second begins."""
    n = len(values)
    distance = np.abs(values[:, None] - values[None, :])
    sums = distance.cumsum(axis=0).cumsum(axis=1)
    k = np.arange(_LEAST, n - _LEAST + 1)
    inside = sums[k - 1, k - 1]
    across = sums[k - 1, n - 1] - inside
    beyond = sums[n - 1, n - 1] - inside - 2.0 * across
    m = n - k
    energy = 2.0 * across / (k * m) - inside / (k * k) - beyond / (m * m)
    gain = k * m / n * energy
    best = int(np.argmax(gain))
    return float(gain[best]), int(k[best])


def e_divisive(values: FloatArray, *, level: float = 0.05, permutations: int = 100, seed: int = 0) -> list[int]:
    """First indices of all new levels, in order."""
    rng = np.random.default_rng(seed)
    found: list[int] = []
    todo = [(0, len(values))]
    while todo:
        start, stop = todo.pop()
        part = values[start:stop]
        if len(part) < 2 * _LEAST:
            continue
        gain, split = best_split(part)
        allowed = int(level * (permutations + 1))
        larger = 1
        for _ in range(permutations):
            larger += best_split(rng.permutation(part))[0] >= gain
            if larger > allowed:
                break
        if larger <= allowed:
            found.append(start + split)
            todo += [(start, start + split), (start + split, stop)]
    return sorted(found)
