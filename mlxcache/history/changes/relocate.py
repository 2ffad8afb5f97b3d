"""Moves a boundary by a few commits to where the values themselves put it.

Least squares places a step well for bell-shaped noise only. Here each value near the boundary votes with its
likelihood on either side (`mlxcache.history.statistics.density`); two-mode noise gains most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlxcache.history.changes.confidence import WINDOW
from mlxcache.history.statistics.density import profile
from mlxcache.history.statistics.noise import FloatArray


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
        edges[k] = first + int(np.argmax(profile(before, after, x[first:last])))
    return edges[1:-1]
