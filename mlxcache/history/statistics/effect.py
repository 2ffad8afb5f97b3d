"""How large a change is, in per cent a reader understands, and with an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mlxcache.history.statistics.noise import FloatArray


@dataclass(frozen=True)
class Effect:
    """A difference of logarithms with its 95 % interval.

    `relative` turns each into a share (0.05: 5 % more).
    """

    shift: float
    low: float
    high: float

    def relative(self) -> tuple[float, float, float]:
        """`shift`, `low` and `high` as relative changes of the value."""
        return math.expm1(self.shift), math.expm1(self.low), math.expm1(self.high)


class EffectSize(Protocol):
    """Anything that measures the shift between two groups of log values."""

    def measure(self, before: FloatArray, after: FloatArray, inflate: float) -> Effect:
        """The shift from `before` to `after`.

        `inflate` is the variance factor that autocorrelation asks for.
        """


@dataclass(frozen=True)
class ShiftOfPairs:
    """Median of all pairwise differences, with the interval that inverts the rank test.

    Hodges and Lehmann (1963) for the estimate, Moses (1965) for the interval: both hold for skewed values and
    for values in two modes, where a difference of medians jumps.
    """

    z: float = 1.96

    def measure(self, before: FloatArray, after: FloatArray, inflate: float = 1.0) -> Effect:
        """See `EffectSize`."""
        n, m = len(before), len(after)
        differences = np.sort((after[:, None] - before[None, :]).ravel())
        margin = self.z * math.sqrt(inflate * n * m * (n + m + 1) / 12.0)
        rank = max(0, math.floor(n * m / 2.0 - margin))
        return Effect(float(np.median(differences)), float(differences[rank]), float(differences[-1 - rank]))


@dataclass(frozen=True)
class ShiftOfMedians:
    """Difference of the two medians; the interval is normal, from the median absolute deviations."""

    z: float = 1.96

    def measure(self, before: FloatArray, after: FloatArray, inflate: float = 1.0) -> Effect:
        """See `EffectSize`."""
        shift = float(np.median(after) - np.median(before))
        variance = 0.0
        for group in (before, after):
            sigma = 1.4826 * float(np.median(np.abs(group - np.median(group))))
            variance += sigma**2 * math.pi / 2.0 / len(group)
        margin = self.z * math.sqrt(inflate * variance)
        return Effect(shift, shift - margin, shift + margin)
