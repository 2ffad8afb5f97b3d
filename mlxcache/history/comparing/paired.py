"""Statistics of two commits that were measured in turn: base, head, head, base, ...

What slows the machine for a minute slows both runs of a pair, so the *ratios* of pairs are quiet where the
values are not. The estimate is the 20 % trimmed mean of the log ratios (one wild process in ten does no
harm); its interval and its p-value are both Yuen's t (Biometrika 61, 1974), so that neither contradicts the other:
the interval holds 0 exactly where p is above what its level leaves.

    >>> paired_change(np.array([1.0, 1.1, 1.0, 1.2]), np.array([1.1, 1.2, 1.1, 1.3])).change   # doctest:
    +SKIP 0.095
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from mlxcache.history.statistics.effect import Shift
from mlxcache.history.statistics.noise import FLOOR, FloatArray

TRIM = 0.2
# With fewer pairs neither an interval nor a p-value means anything.
MIN_PAIRS = 4
# Where others use the machine, delays of any length come on top of a floor, and the floor repeats. It is
# compared where that is much quieter than the pairs: much, so that the choice itself finds no differences.
_FLOOR_FROM = 12
_MUCH_QUIETER = 0.7
_DRAWS = 2000
_SEED = 20_240_229


@dataclass(frozen=True)
class PairedChange:
    """Head against base as relative changes of the value (0.05: head is 5 % larger).

    p_value is two-sided. `error` is the standard error of the log ratio. `divided` says that the ratios were
    divided by the controls', `floor` that the lower quartiles were compared instead of the pairs.
    """

    change: float
    low: float
    high: float
    p_value: float
    pairs: int
    error: float
    divided: bool = False
    floor: bool = False


def trimmed_mean(values: FloatArray) -> float:
    """Mean without the lowest and the highest fifth."""
    cut = int(TRIM * len(values))
    return float(np.sort(values)[cut : len(values) - cut].mean())


def _standard_error(values: FloatArray) -> tuple[float, int]:
    """Yuen's standard error of the trimmed mean, and its degrees of freedom."""
    n = len(values)
    cut = int(TRIM * n)
    ordered = np.sort(values)
    winsorised = np.clip(values, ordered[cut], ordered[n - 1 - cut])
    kept = n - 2 * cut
    spread = float(np.sqrt(((winsorised - winsorised.mean()) ** 2).sum() / (n - 1)))
    return max(spread * math.sqrt((n - 1) / (kept * (kept - 1))), FLOOR), kept - 1


def log_ratios(
    base: FloatArray, head: FloatArray, controls: Sequence[tuple[FloatArray, FloatArray]] = ()
) -> tuple[FloatArray, bool]:
    """Log ratios of the pairs, divided by the controls' middle one where that makes them agree much better.

    Of several controls the quietest is not picked: in ten quiet pairs that alone finds differences. `controls`
    hold base's and head's values of each control in the same rounds. Returns as well whether the ratios were
    divided.
    Raises ValueError for arrays of unequal length, fewer than MIN_PAIRS pairs or a value that is not above zero.
    """
    for name, array in (("base", base), ("head", head)):
        if len(array) and not bool((array > 0).all()):
            raise ValueError(f"{name} holds {float(array.min())}; ratios need values above zero")
    if len(base) != len(head):
        raise ValueError(f"base has {len(base)} values and head {len(head)}; pairs need as many of both")
    if len(base) < MIN_PAIRS:
        raise ValueError(f"{len(base)} pairs are too few to judge; measure {MIN_PAIRS} rounds or more")
    ratios = np.log(head / base)
    if not controls:
        return ratios, False
    divided = ratios - np.median([np.log(theirs / ours) for ours, theirs in controls], axis=0)
    if _standard_error(divided)[0] < _MUCH_QUIETER * _standard_error(ratios)[0]:
        return divided, True
    return ratios, False


def _floor_change(base: FloatArray, head: FloatArray, level: float) -> PairedChange:
    """Lower quartile of head's log values against base's; the bootstrap draws whole pairs."""
    n = len(base)
    picks = np.random.default_rng(_SEED).integers(0, n, (_DRAWS, n))
    both = [np.quantile(values[picks], 0.25, axis=1) for values in (base, head)]
    error = max(float((both[1] - both[0]).std(ddof=1)), FLOOR)
    shift = float(np.quantile(head, 0.25) - np.quantile(base, 0.25))
    margin = float(stdtrit(n - 1, (1.0 + level) / 2.0)) * error
    p_value = 2.0 * float(stdtr(n - 1, -abs(shift) / error))
    low, high = math.expm1(shift - margin), math.expm1(shift + margin)
    return PairedChange(math.expm1(shift), low, high, p_value, n, error, floor=True)


def paired_change(
    base: FloatArray,
    head: FloatArray,
    controls: Sequence[tuple[FloatArray, FloatArray]] = (),
    *,
    level: float = 0.95,
) -> PairedChange:
    """How much head differs from base; arrays hold one value a round, in the unit of the benchmark.

    Raises ValueError as `log_ratios` does.
    """
    ratios, divided = log_ratios(base, head, controls)
    error, freedom = _standard_error(ratios)
    if len(ratios) >= _FLOOR_FROM:
        floor = _floor_change(np.log(base), np.log(head), level)
        if floor.error < _MUCH_QUIETER * error:
            return floor
    centre = trimmed_mean(ratios)
    looks = 2 if divided else 1  # both ways to look at the pairs were tried
    p_value = min(1.0, looks * 2.0 * float(stdtr(freedom, -abs(centre) / error)))
    margin = float(stdtrit(freedom, 1.0 - (1.0 - level) / (2.0 * looks))) * error
    low, high = math.expm1(centre - margin), math.expm1(centre + margin)
    return PairedChange(math.expm1(centre), low, high, p_value, len(ratios), error, divided)


def paired_difference(base: FloatArray, head: FloatArray, *, level: float = 0.95) -> tuple[Shift, float]:
    """By how much head differs from base, pair by pair, with its interval, and the two-sided p-value.

    For values at or below zero, which have no ratio; in units in which the largest value is about 1.
    """
    differences = head - base
    error, freedom = _standard_error(differences)
    centre = trimmed_mean(differences)
    margin = float(stdtrit(freedom, (1.0 + level) / 2.0)) * error
    p_value = 2.0 * float(stdtr(freedom, -abs(centre) / error))
    return Shift(centre, centre - margin, centre + margin), p_value
