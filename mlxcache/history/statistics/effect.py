"""How large a change is, in per cent a reader understands or in the unit, and with an interval.

One meaning for all values, whatever their sign, in the history, in a comparison, in reports and on the pages:

- Where what was there is above zero and what came is not below it, a change is *relative* to what was there:
  from 10 to 20 is +100 %, from 10 to 0 is -100 %.
- Elsewhere there is no per cent: the number is infinite, its sign says which way, and the *difference* in the unit
  stands for it. From 0 to 5 seconds is +5 s.
- Thresholds ask for the *size*: the difference by the smaller of the two magnitudes, both ways alike. It is the
  relative change upwards (from 10 to 11, and from 11 to 10: 10 %), and infinite from or to zero, or across it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mlxcache.history.statistics.noise import FloatArray


@dataclass(frozen=True)
class Shift:
    """A difference on the scale on which a series is judged (see `Scale`), with its 95 % interval."""

    shift: float
    low: float
    high: float


@dataclass(frozen=True)
class Effect:
    """A change as readers see it, each number with its 95 % interval.

    difference: in the unit of the values. relative: a share of what was there (0.05: 5 % more), infinite where
    that makes no sense; see the module's head.
    """

    difference: float
    difference_low: float
    difference_high: float
    relative: float
    relative_low: float
    relative_high: float


_LEAST_UNIT = 1e-12


def relative_change(before: float, after: float) -> float:
    """`after` relative to `before` (0.05: 5 % more); infinite, with its sign, where there is no such share."""
    if before == after:
        return 0.0
    return (after - before) / before if before > 0 and after >= 0 else math.copysign(math.inf, after - before)


def size_between(before: float, after: float) -> float:
    """What thresholds ask for: the difference by the smaller magnitude; infinite where there is no ratio."""
    if before == after:
        return 0.0
    smaller = min(abs(before), abs(after))
    return abs(after - before) / smaller if before * after > 0 else math.inf


@dataclass(frozen=True)
class Scale:
    """On which scale a series is judged: logarithms, or multiples of `unit` where some value is not above zero."""

    logs: bool = True
    unit: float = 1.0

    def size(self, before: float, shift: float) -> float:
        """`size_between` of a level (as judged) and one that lies `shift` from it."""
        return math.expm1(min(abs(shift), 700.0)) if self.logs else size_between(before, before + shift)

    def effect(self, found: Shift, before: float) -> Effect:
        """What readers see of a shift from the level `before`, which is in the unit of the values."""
        shifts = (found.shift, found.low, found.high)
        if self.logs:
            relative = [math.expm1(min(shift, 700.0)) for shift in shifts]
            difference = [before * share for share in relative]
        else:
            difference = [shift * self.unit for shift in shifts]
            there = math.isfinite(relative_change(before, before + difference[0]))
            relative = [one / before if there and before else math.copysign(math.inf, one) for one in difference]
            if not difference[0]:
                relative[0] = 0.0
        return Effect(*difference, *relative)


LOGS = Scale()


def on_scale(values: FloatArray) -> tuple[FloatArray, Scale]:
    """The values as they are judged, and the scale: logarithms where all are above zero.

    Else multiples of the middle magnitude of those that are not zero, so that one zero in a series changes neither
    what is found nor how large it is said to be.
    """
    if bool((values > 0).all()):
        return np.log(values), LOGS
    magnitude = np.abs(values[values != 0])
    if not len(magnitude):
        return values, Scale(logs=False)
    # Not below what squares of the largest can bear.
    scale = Scale(False, max(float(np.median(magnitude)), float(magnitude.max()) * _LEAST_UNIT))
    return values / scale.unit, scale


class EffectSize(Protocol):
    """Anything that measures the shift between two groups of values as they are judged."""

    def measure(self, before: FloatArray, after: FloatArray, inflate: float) -> Shift:
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

    def measure(self, before: FloatArray, after: FloatArray, inflate: float = 1.0) -> Shift:
        """See `EffectSize`."""
        n, m = len(before), len(after)
        differences = np.sort((after[:, None] - before[None, :]).ravel())
        margin = self.z * math.sqrt(inflate * n * m * (n + m + 1) / 12.0)
        rank = max(0, math.floor(n * m / 2.0 - margin))
        return Shift(float(np.median(differences)), float(differences[rank]), float(differences[-1 - rank]))
