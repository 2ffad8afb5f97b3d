"""How a count of instructions is judged: by what counts of one commit differ by, not by a search for levels.

Two counts of one commit lie within 0.3 % of each other (docs/counts.md), whatever else the machine does. So one
value is a level, and the smallest change that matters is a fifth of what it is for seconds.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlxcache.history.statistics.noise import FloatArray

UNIT: Final = "instructions"
# The smallest change of a count that matters.
SMALLEST: Final = 0.005
# The standard deviation of the logarithms of counts of one commit, each in a process of its own.
SPREAD: Final = 0.0006
# Pairs that `compare --measure` takes: the first two could decide, the third says how well they repeat.
COUNT_ROUNDS: Final = 2
# Commits on each side that a level's value is taken from.
_WINDOW: Final = 12


def is_count(unit: str) -> bool:
    """Whether a series of this unit is judged by the rules of this module."""
    return unit == UNIT


def smallest_change(unit: str, otherwise: float) -> float:
    """The smallest relative change of a series that matters: a count's own, but never more than `otherwise`."""
    return min(SMALLEST, otherwise) if is_count(unit) else otherwise


def count_levels(x: FloatArray, smallest: float = SMALLEST) -> list[int]:
    """The first index of every new level of the log values `x`.

    A value that lies off the median of its level by `smallest` begins a new one, unless the next value is back:
    that was one bad count. Many small steps add up until they are as large, and that commit is named.
    """
    far = math.log1p(smallest)
    starts, start = [], 0
    for place in range(1, len(x)):
        level = float(np.median(x[start:place][-_WINDOW:]))
        if abs(float(x[place]) - level) < far:
            continue
        if place + 1 < len(x) and abs(float(x[place + 1]) - level) < far:
            continue  # and back again
        starts.append(place)
        start = place
    return starts


def standard_error(before: int, after: int, seen: float = 0.0) -> float:
    """Of the difference of the medians of so many counts; `seen` is their own spread where it is larger."""
    spread = max(SPREAD, seen)
    return spread * math.sqrt(sum((1.0 if n < 3 else math.pi / 2.0) / n for n in (before, after)))


def two_sided_p(shift: float, error: float) -> float:
    """How probable a difference this large is where nothing changed."""
    return math.erfc(abs(shift) / error / math.sqrt(2.0))
