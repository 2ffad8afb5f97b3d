"""Measures a candidate again and says what became of it; the measuring itself is handed in.

Two commits are measured in turn, one safely before the candidate and one safely after it, until the answer is
clear or the budget is spent. `narrow` then halves the range of commits until one commit is left.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mlxcache.history.changes.segments import MIN_CHANGE
from mlxcache.history.comparing.paired import PairedChange, paired_change
from mlxcache.history.statistics.noise import FloatArray

# Positions of two commits -> one value a round for each, pair by pair. Called again, it measures anew.
Measure = Callable[[int, int], tuple[FloatArray, FloatArray]]

_BATCHES = 3
# One-sided, for each of the looks: a candidate is a question with a sign.
_ALPHA = 0.01


class Outcome(enum.Enum):
    """What a rerun said about a candidate."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Rerun:
    """What a rerun found.

    `before` and `after` are the positions that hold the change, `comparisons` counts batches of pairs.
    """

    outcome: Outcome
    before: int
    after: int
    result: PairedChange
    comparisons: int


class _Pairs:
    """Collects batches of one pair of commits, so that asking again adds rounds instead of starting over."""

    def __init__(self, measure: Measure, before: int, after: int) -> None:
        self._measure = measure
        self._where = (before, after)
        self._base: list[FloatArray] = []
        self._head: list[FloatArray] = []

    def more(self) -> PairedChange:
        base, head = self._measure(*self._where)
        self._base.append(base)
        self._head.append(head)
        return paired_change(np.concatenate(self._base), np.concatenate(self._head))


def confirm(measure: Measure, before: int, after: int, shift: float, *, min_change: float = MIN_CHANGE) -> Rerun:
    """Measure positions `before` and `after` in turn, in up to three batches.

    Confirmed: significant with that sign, and at least `min_change` large. Refuted: surely smaller than
    `min_change`, or surely of the other sign.
    """
    pairs = _Pairs(measure, before, after)
    sign = 1.0 if shift >= 0 else -1.0
    outcome, cost = Outcome.UNDECIDED, 0
    while outcome is Outcome.UNDECIDED and cost < _BATCHES:
        result = pairs.more()
        cost += 1
        change, most = sign * result.change, max(sign * result.low, sign * result.high)
        if change >= min_change and result.p_value / 2.0 < _ALPHA:
            outcome = Outcome.CONFIRMED
        elif most < min_change:
            outcome = Outcome.REFUTED
    return Rerun(outcome, before, after, result, cost)


def narrow(measure: Measure, confirmed: Rerun) -> Rerun:
    """Halve the range of a confirmed rerun until `before` and `after` are neighbours.

    Each middle commit is measured against the low end and goes to the side that it resembles; where it lies
    within two standard errors of the border it is measured once more.
    """
    if confirmed.outcome is not Outcome.CONFIRMED:
        return confirmed
    low, high, cost = confirmed.before, confirmed.after, confirmed.comparisons
    border = math.log1p(confirmed.result.change) / 2.0
    sign = 1.0 if border >= 0 else -1.0
    while high - low > 1:
        middle = (low + high) // 2
        pairs = _Pairs(measure, confirmed.before, middle)
        for _ in range(_BATCHES):
            result = pairs.more()
            cost += 1
            distance = sign * (math.log1p(result.change) - border)
            if abs(distance) > 2.0 * result.error:
                break
        if distance > 0:
            high = middle
        else:
            low = middle
    return replace(confirmed, before=low, after=high, comparisons=cost)
