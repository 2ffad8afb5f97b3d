"""Finds the commit between two measured ones that made the change: git's own bisect asks, measuring answers.

Good and bad are measured in turn first, which says how large the change is; each commit that git then asks for
is measured in turn with the good one and goes to the side that it is nearer to. All of that is in a worktree of
its own, so the user's files and a bisect of theirs stay as they are.
"""

from __future__ import annotations

import enum
import json
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from mlxcache.history.comparing.paired import paired_change
from mlxcache.history.statistics.noise import FloatArray
from mlxcache.remeasure.rerun import Rerun, confirm
from mlxcache.remeasure.rounds import MeasureError, both_sides, measure
from mlxcache.support.git import GitReply, run_git

MeasureRounds = Callable[..., pd.DataFrame]
_BATCHES = 3


class Answer(enum.IntEnum):
    """What `git bisect run` wants to hear; ABORT ends it."""

    GOOD = 0
    BAD = 1
    SKIP = 125
    ABORT = 128


@dataclass(frozen=True)
class Question:
    """What is measured, and where the border between good and bad lies.

    `border` is half of the change as a log ratio, 0.0 before it is known. `env` may be empty: all environments of
    the configuration, of which the first that has the series counts.
    """

    config: str
    good: str
    bench: str
    benchmark: str
    params: str
    env: str
    rounds: int
    border: float = 0.0

    def to_json(self) -> str:
        """For the process that git starts."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Question:
        """What `to_json` wrote."""
        return cls(**json.loads(text))


def pairs(question: Question, head: str, measure_rounds: MeasureRounds = measure) -> tuple[FloatArray, FloatArray]:
    """Values of the good commit and of `head`, round by round.

    Raises MeasureError if one of them gave none.
    """
    frame = measure_rounds(
        question.config,
        question.good,
        head,
        bench=[question.bench],
        rounds=question.rounds,
        environments=[question.env] if question.env else [],
        control=None,
    )
    fits = frame[(frame["benchmark"] == question.benchmark) & (frame["params"] == question.params)]
    if not fits.empty:
        fits = fits[fits["env"] == fits["env"].iloc[0]]
    values = both_sides(fits)
    if values is None:
        raise MeasureError(f"{question.benchmark} gave values on one of {question.good[:10]} and {head[:10]} only")
    return values


def reproduce(question: Question, bad: str, worse: float, measure_rounds: MeasureRounds = measure) -> Rerun:
    """Whether good and bad differ at all; `worse` is the sign that a slowdown of this series has."""
    return confirm(lambda _, __: pairs(question, bad, measure_rounds), 0, 1, worse)


def answer(question: Question, head: str, measure_rounds: MeasureRounds = measure) -> Answer:
    """Which side `head` is on; SKIP where it cannot be measured."""
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
    except (MeasureError, ValueError):
        return Answer.SKIP
    return Answer.BAD if distance > 0 else Answer.GOOD


@dataclass(frozen=True)
class Found:
    """`first_bad` is the commit, or "" where skipped ones leave `suspects`; `log` is what git has to say."""

    first_bad: str
    suspects: tuple[str, ...]
    log: str


def bisect(repo: str | os.PathLike[str], good: str, bad: str, command: Sequence[str]) -> Found:
    """Let git ask `command` about commits on the first-parent line between good and bad.

    It runs in a folder where BISECT_HEAD names the commit in question, and answers by its exit status.

    Raises MeasureError if git cannot do it.
    """
    with tempfile.TemporaryDirectory(prefix="mlxcache-bisect-") as folder:
        place = Path(folder) / "worktree"
        _git(repo, "worktree", "add", "--quiet", "--no-checkout", "--detach", str(place), bad)
        try:
            _git(place, "bisect", "start", "--first-parent", "--no-checkout", bad, good)
            done = _run(place, "bisect", "run", *command)
            log = _git(place, "bisect", "log")
        finally:
            _run(place, "bisect", "reset")
            _run(repo, "worktree", "remove", "--force", str(place))
    found = [line for line in log.splitlines() if line.startswith("# first bad commit: [")]
    if found:
        return Found(found[-1].partition("[")[2].partition("]")[0], (), log)
    left = tuple(
        line.partition("[")[2].partition("]")[0]
        for line in log.splitlines()
        if line.startswith("# possible first bad commit: [")
    )
    if left:
        return Found("", left, log)
    said = (done.complaint or done.text).strip().splitlines()
    raise MeasureError(f"git bisect ended without an answer: {' / '.join(said[-3:]) or 'no message'}")


def _run(folder: str | os.PathLike[str], *arguments: str) -> GitReply:
    # A hook or a pager of the user's has no business here.
    return run_git(folder, "-c", "core.hooksPath=/dev/null", *arguments, environment={"GIT_PAGER": "cat"})


def _git(folder: str | os.PathLike[str], *arguments: str) -> str:
    done = _run(folder, *arguments)
    if not done.ok:
        raise MeasureError(f"git {' '.join(arguments[:2])} failed: {done.reason}")
    return done.text
