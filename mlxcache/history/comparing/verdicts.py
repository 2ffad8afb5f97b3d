"""From estimates to verdicts: what is significant, what is relevant, and what is still open.

The two words mean different things. *Significant*: more than chance, with all the series looked at taken into
account. *Relevant*: large enough for somebody to care. A regression is both. "No regression" is a statement
too, and needs evidence: the interval has to exclude a slowdown that would matter. Everything else is inconclusive.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from scipy.stats import false_discovery_control

from mlxcache.history.statistics.noise import FloatArray


class Verdict(enum.StrEnum):
    """The three answers, of one series and of a whole comparison."""

    REGRESSION = "regression"
    NO_REGRESSION = "no regression"
    INCONCLUSIVE = "inconclusive"


def _limit(default: float, option: str = "", about: str = "") -> Any:
    """A limit; with an `option` `mlxcache compare` has it, in per cent, and comments repeat it."""
    return field(default=default, metadata={"option": option, "about": about})


@dataclass(frozen=True)
class Limits:
    """What counts; a new limit is a line here and its use below.

    relevant: smallest relative change worth reporting. tolerated: a slowdown that must be excluded before
    there is "no regression". false_share: expected share of false ones among the significant changes
    (Benjamini and Hochberg, 1995); if nothing changed at all, it is the chance of any false alarm.
    open_share: how many series of a large comparison may stay open without making all of it inconclusive,
    because so many intervals miss by chance.
    """

    relevant: float = _limit(0.025, "--relevant", "smallest change that matters")
    tolerated: float = _limit(0.05)
    false_share: float = _limit(0.01)
    open_share: float = _limit(0.05)

    def __post_init__(self) -> None:
        if not 0 < self.relevant <= self.tolerated:
            raise ValueError(
                f"relevant is {self.relevant} and tolerated {self.tolerated}; expected 0 < relevant <= tolerated"
            )

    @classmethod
    def options(cls) -> list[tuple[str, str, float, str]]:
        """Limits that users may set: field, option, default in per cent, and what it is."""
        return [
            (each.name, each.metadata["option"], 100.0 * getattr(cls, each.name), each.metadata["about"])
            for each in fields(cls)
            if each.metadata["option"]
        ]

    @classmethod
    def of(cls, percents: Mapping[str, float]) -> Limits:
        """Limits from what users set, by field; twice what is relevant is tolerated, and 5 % at least."""
        given = {name: percents[name] / 100.0 for name, *_ in cls.options()}
        return cls(**{"tolerated": max(cls.tolerated, 2 * given["relevant"]), **given})


@dataclass(frozen=True)
class Estimate:
    """How much worse head is (0.05: 5 % worse, negative: better), its interval, p-value and number of rounds."""

    worse: float
    low: float
    high: float
    p_value: float
    rounds: int


def adjusted_p_values(p_values: Sequence[float]) -> FloatArray:
    """Benjamini and Hochberg's adjusted p-values, in the order given."""
    if not len(p_values):
        return np.empty(0)
    found: FloatArray = false_discovery_control(np.asarray(p_values, dtype=np.float64))
    return found


def verdict_of(estimate: Estimate, adjusted_p: float, limits: Limits) -> Verdict:
    """One series' verdict."""
    significant = adjusted_p <= limits.false_share
    if significant and estimate.worse >= limits.relevant:
        return Verdict.REGRESSION
    if estimate.high < limits.tolerated or (significant and estimate.worse <= -limits.relevant):
        return Verdict.NO_REGRESSION
    return Verdict.INCONCLUSIVE


def further_rounds(estimate: Estimate, limits: Limits) -> int:
    """About how many more rounds would decide.

    Assumes that the estimate stays where it is and that the interval shrinks with the root of the rounds.
    Whichever answer is nearer counts: the interval off zero, or below what is tolerated.
    """
    half = (estimate.high - estimate.low) / 2.0
    gap = max(limits.tolerated - estimate.worse, estimate.worse if estimate.worse >= limits.relevant else 0.0)
    if gap <= 0 or not math.isfinite(half):
        return estimate.rounds
    # A quarter more than the bare minimum: the estimate moves as well.
    needed = 1.25 * estimate.rounds * (half / gap) ** 2
    return max(math.ceil(needed) - estimate.rounds, max(1, estimate.rounds // 4))


def overall(verdicts: Sequence[str], limits: Limits | None = None) -> Verdict:
    """The verdict of a comparison: a regression if there is one, inconclusive if too much is open.

    Raises ValueError if there is nothing to judge.
    """
    if not len(verdicts):
        raise ValueError("no series was measured on both commits; there is nothing to judge")
    if Verdict.REGRESSION in verdicts:
        return Verdict.REGRESSION
    still_open = sum(verdict == Verdict.INCONCLUSIVE for verdict in verdicts)
    if still_open > math.floor((limits or Limits()).open_share * len(verdicts)):
        return Verdict.INCONCLUSIVE
    return Verdict.NO_REGRESSION
