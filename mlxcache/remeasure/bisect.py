"""Finds the commit between two measured ones that made the change, by halving what lies between.

Good and bad are measured in turn first, which says how large the change is; each commit in question is measured
in turn with the good one and goes to the side that it is nearer to. The suite is that of the bad commit
throughout, so that all are asked the same. Nothing is written to the repository: what lies between is a list,
which needs neither a worktree nor `git bisect`, so nothing can be left of them.
"""

from __future__ import annotations

import enum
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mlxcache.history.comparing.paired import paired_change
from mlxcache.history.repository.revisions import first_parent_line, merge_base
from mlxcache.history.statistics.noise import FloatArray
from mlxcache.remeasure.rerun import Rerun, confirm
from mlxcache.remeasure.rounds import MeasureError, Rounds, measure

MeasureRounds = Callable[..., Rounds]
Say = Callable[[str], None]
_BATCHES = 3


class Answer(enum.Enum):
    """Which side a commit is on."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skipped"


@dataclass(frozen=True)
class Question:
    """What is measured, and where the border between good and bad lies.

    `border` is half of the change as a log ratio, 0.0 before it is known. `env` may be empty: all environments of
    the configuration, of which the first that has the series counts. `suite` is the commit whose benchmarks run,
    "" for that of the commit in question.
    """

    config: str
    good: str
    bench: str
    benchmark: str
    params: str
    env: str
    rounds: int
    suite: str = ""
    border: float = 0.0


def _measured(question: Question, head: str, measure_rounds: MeasureRounds) -> Rounds:
    return measure_rounds(
        question.config,
        question.good,
        head,
        bench=[question.bench],
        rounds=question.rounds,
        environments=[question.env] if question.env else [],
        control=None,
        suite=question.suite,
    )


def _values(question: Question, head: str, rounds: Rounds) -> tuple[FloatArray, FloatArray]:
    values = rounds.series(question.benchmark, question.params)
    if values is None:
        why = "; ".join([*rounds.failures, *(f"{name}: {reason}" for name, reason in rounds.lost.items())])
        raise MeasureError(
            f"{question.benchmark} gave values on one of {question.good[:10]} and {head[:10]} only"
            + (f": {why}" if why else "")
        )
    return values


def pairs(question: Question, head: str, measure_rounds: MeasureRounds = measure) -> tuple[FloatArray, FloatArray]:
    """Values of the good commit and of `head`, round by round.

    Raises MeasureError if one of them gave none.
    """
    return _values(question, head, _measured(question, head, measure_rounds))


def reproduce(
    question: Question, bad: str, worse: float | None = None, measure_rounds: MeasureRounds = measure
) -> Rerun:
    """Whether good and bad differ at all.

    `worse` is the sign that a slowdown of this series has; None takes it from what the benchmark declares of
    itself, or its unit.
    """
    first = _measured(question, bad, measure_rounds)
    values = [_values(question, bad, first)]
    if worse is None:
        worse = -1.0 if first.higher_better.get(question.benchmark) else 1.0
    return confirm(lambda *_: values.pop() if values else pairs(question, bad, measure_rounds), 0, 1, worse)


def answer(question: Question, head: str, measure_rounds: MeasureRounds = measure) -> tuple[Answer, str]:
    """Which side `head` is on; SKIP and the reason where it cannot be measured."""
    sign = 1.0 if question.border >= 0 else -1.0
    base: list[FloatArray] = []
    other: list[FloatArray] = []
    distance = 0.0
    try:
        for _ in range(_BATCHES):
            one, two = pairs(question, head, measure_rounds)
            base.append(one)
            other.append(two)
            result = paired_change(np.concatenate(base), np.concatenate(other))
            distance = sign * (math.log1p(result.change) - question.border)
            if abs(distance) > 2.0 * result.error:
                break
    except (MeasureError, ValueError) as error:
        return Answer.SKIP, str(error)
    return (Answer.BAD if distance > 0 else Answer.GOOD), ""


@dataclass(frozen=True)
class Found:
    """`first_bad` is the commit, or "" where skipped ones leave `suspects`, oldest first."""

    first_bad: str
    suspects: tuple[str, ...]


def line_between(repo: str | os.PathLike[str], good: str, bad: str) -> list[str]:
    """`good`, and the first-parent commits of `bad` that `good` does not have, oldest first.

    Raises MeasureError if good is not in bad's history, or nothing lies between them.
    """
    if good == bad:
        raise MeasureError(f"there is nothing between {good[:10]} and {bad[:10]}")
    if merge_base(repo, good, bad) != good:
        raise MeasureError(
            f"{good[:10]} is not in the history of {bad[:10]}: the good commit has to come before the bad one"
        )
    return [good, *first_parent_line(repo, f"{good}..{bad}")]


def bisect(line: Sequence[str], ask: Callable[[str], Answer], say: Say = lambda line: None) -> Found:
    """Halve `line`, whose first commit is good and whose last one is bad, by what `ask` says of others."""
    low, high = 0, len(line) - 1
    skipped: set[int] = set()
    while True:
        left = [place for place in range(low + 1, high) if place not in skipped]
        if not left:
            break
        middle = (low + high) / 2.0
        place = min(left, key=lambda each: (abs(each - middle), each))
        steps = math.ceil(math.log2(len(left) + 1))
        say(f"{len(left)} commits may still be it: about {steps} more to measure, now {line[place][:10]}")
        found = ask(line[place])
        say(f"{line[place][:10]} is {found.value}")
        if found is Answer.SKIP:
            skipped.add(place)
        elif found is Answer.BAD:
            high = place
        else:
            low = place
    if high - low == 1:
        return Found(line[high], ())
    return Found("", tuple(line[low + 1 : high + 1]))
