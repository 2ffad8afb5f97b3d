"""Whether two groups of values differ by more than chance: tests that can be swapped for one another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mlxcache.history.statistics.noise import FloatArray


class SignificanceTest(Protocol):
    """Anything that turns two groups of values into a two-sided p-value."""

    def p_value(self, before: FloatArray, after: FloatArray) -> float:
        """Probability of a difference like this one, or a larger one, if both groups came from one source."""


def mean_ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1, equal values share the mean of theirs."""
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    starts = np.flatnonzero(np.concatenate([[True], in_order[1:] != in_order[:-1]]))
    stops = np.concatenate([starts[1:], [len(values)]])
    shared = np.repeat((starts + 1 + stops) / 2.0, stops - starts)
    ranks = np.empty(len(values))
    ranks[order] = shared
    return ranks


def rank_z(before: FloatArray, after: FloatArray) -> float:
    """Mann and Whitney's U as a standard score.

    Positive if `after` tends to be larger. 0 if all values are equal.
    """
    n, m = len(before), len(after)
    both = np.concatenate([before, after])
    ranks = mean_ranks(both)
    u = float(ranks[n:].sum()) - m * (m + 1) / 2.0
    # The variance of ranks that share places is smaller than that of 1..n+m; this covers ties exactly.
    variance = n * m * float(((ranks - (n + m + 1) / 2.0) ** 2).sum()) / ((n + m) * (n + m - 1))
    return (u - n * m / 2.0) / math.sqrt(variance) if variance > 0 else 0.0


@dataclass(frozen=True)
class RankTest:
    """Mann-Whitney U with the normal approximation (Annals of Mathematical Statistics, 1947).

    Outliers do no harm.
    """

    def p_value(self, before: FloatArray, after: FloatArray) -> float:
        """See `SignificanceTest`."""
        return math.erfc(abs(rank_z(before, after)) / math.sqrt(2.0))
