"""What a control benchmark knows: how fast the machine was when a value was taken.

A control is a benchmark of code that never changes. Where the machine moves (a pool of runners, a new kernel,
a neighbour), it moves the control too, and dividing takes that out. Where the control's own noise is larger
than what it removes, dividing would only add it: so both are looked at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mlxcache.history.statistics.noise import FloatArray, short_term_sigma
from mlxcache.history.statistics.significance import RankTest

# `control.time_spin`, `bench_control.Suite.time_x`, `time_control`, `common.Control.time_loop`.
# Not `decode.track_over_control`, which is measured against one.
CONTROL_NAME = re.compile(r"(^|\.)(bench_|benchmark_|test_|time_|track_)?controls?([._(]|$)", re.IGNORECASE)
# A control that ran beside fewer than this share of the commits cannot stand in for them.
_MIN_SHARE = 0.8
_MIN_COMMITS = 4
# A control that moves by more, in one run or from round to round, hides a regression of 5 %.
LOUD = 0.10
_QUIETER = 0.9
_MOVED = 0.001


@dataclass(frozen=True)
class Control:
    """A control's log values, aligned with the series beside it: NaN where it did not run."""

    name: str
    x: FloatArray


def is_control(benchmark: str) -> bool:
    """Whether a benchmark's name says that it is a control."""
    return CONTROL_NAME.search(benchmark) is not None


def ran_beside(control: Control) -> bool:
    """Whether it ran at enough of the series' commits to speak for them."""
    return float(np.isfinite(control.x).mean()) >= _MIN_SHARE


def divide_best(x: FloatArray, controls: Iterable[Control]) -> tuple[FloatArray, str]:
    """`x` less the control that makes neighbouring commits agree best, and its name.

    `x` as it is and "" if none helps clearly: the quietest by a hair is quiet by chance. Both are log values of
    the same commits. Commits without a control keep the median of the others, and a control that covers fewer than
    80 % of them is left alone.
    """
    best, name, least, own = x, "", math.inf, math.inf
    for k, control in enumerate(controls):
        if k == 0:
            own = least = short_term_sigma(x)
        if len(x) < _MIN_COMMITS or not ran_beside(control):
            continue
        known = np.isfinite(control.x)
        filled = np.where(known, control.x, np.median(control.x[known]))
        divided = x - (filled - np.median(filled))
        sigma = short_term_sigma(divided)
        if sigma < min(least, _QUIETER * own):
            best, name, least = divided, control.name, sigma
    return best, name


def moved_with_control(control: FloatArray, start: int, index: int, stop: int, shift: float) -> bool:
    """Whether the control made at least half of the same move at `index`: then it was the machine.

    Meant for series that were judged undivided.
    """
    before, after = control[start:index], control[index:stop]
    before, after = before[np.isfinite(before)], after[np.isfinite(after)]
    if len(before) < 3 or len(after) < 3:
        return False
    move = float(np.median(after) - np.median(before))
    if move * shift <= 0 or abs(move) < abs(shift) / 2.0:
        return False
    return RankTest().p_value(before, after) < _MOVED or min(len(before), len(after)) < 8
