"""Measures candidates again and turns the answers into confirmations.

The two commits that are measured are the change's `search_before` and `search_after`: far enough apart that
the change lies between them almost surely, where `before` and `after` may be a commit or two off.
"""

from __future__ import annotations

import datetime
import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mlxcache.history.changes.confirmations import Confirmation
from mlxcache.history.repository.commits import RepositoryError
from mlxcache.history.repository.revisions import first_parent_line
from mlxcache.history.statistics.noise import FloatArray
from mlxcache.remeasure.measure_progress import duration
from mlxcache.remeasure.rerun import Outcome, confirm, narrow
from mlxcache.remeasure.rounds import DEFAULT_ROUNDS, MeasureError, Rounds, measure
from mlxcache.support.git import run_git
from mlxcache.support.names import series_name, series_pattern

Say = Callable[[str], None]
# Commits and what to measure -> the rounds, as `measure` returns them: what tests replace.
MeasureRounds = Callable[..., Rounds]


@dataclass(frozen=True)
class NotMeasured:
    """A candidate that could not be measured again, and why."""

    change: Mapping[Any, Any]
    reason: str


def candidates(changes: pd.DataFrame, machines: Collection[str] | None) -> pd.DataFrame:
    """Regressions that wait for a rerun.

    With `machines` only those of these, the names of the machine where a rerun can tell.
    """
    waiting = changes[(changes["state"] == "candidate") & (changes["direction"] == "regression")]
    return waiting if machines is None else waiting[waiting["machine"].isin(machines)]


def commits_between(repo: str | os.PathLike[str], before: str, after: str) -> list[str]:
    """`before`, all commits after it on the first-parent line, and `after`, oldest first.

    Just the two where `before` is not on the line of `after`. Raises MeasureError if git knows one of them
    not.
    """
    try:
        line = first_parent_line(repo, f"{before}..{after}")
    except RepositoryError:
        raise MeasureError(
            f"the repository at {repo} lacks {before[:10]} or {after[:10]}; `git fetch` may bring it"
        ) from None
    if line:
        parent = run_git(repo, "rev-parse", "--verify", "--quiet", f"{line[0]}^1")
        if parent.text.strip() == before:
            return [before, *line]
    return [before, after]


def confirm_changes(
    changes: pd.DataFrame,
    *,
    config: str | os.PathLike[str],
    repo: str | os.PathLike[str],
    rounds: int = DEFAULT_ROUNDS,
    narrowing: bool = False,
    measure_rounds: MeasureRounds = measure,
    say: Say = lambda line: None,
) -> Iterator[Confirmation | NotMeasured]:
    """Measure each change again, one after the other, and yield what became of it as soon as it is known.

    Args:
        changes: rows of `change_points`, such as `candidates` picks.
        config: the project's asv.conf.json.
        repo: its repository.
        rounds: pairs a batch; up to three batches decide.
        narrowing: halve the range of a confirmed one until a single commit is left, unmeasured commits
        included.
        measure_rounds: runs asv.
        say: gets progress.
    """
    began = time.monotonic()
    for number, row in enumerate(changes.to_dict("records")):
        name = series_name(str(row["benchmark"]), str(row["params"]))
        left = (time.monotonic() - began) / number * (len(changes) - number) if number else None
        rest = f", about {duration(left)} left" if left is not None else ""
        ends = f"{row['search_before'][:8]} against {row['search_after'][:8]}"
        say(f"{number + 1} of {len(changes)}{rest}: {name}: {ends}")
        try:
            yield _confirm_one(row, config, repo, rounds, narrowing, measure_rounds)
        except (MeasureError, ValueError) as error:
            yield NotMeasured(row, str(error))


def _confirm_one(
    row: Mapping[Any, Any],
    config: str | os.PathLike[str],
    repo: str | os.PathLike[str],
    rounds: int,
    narrowing: bool,
    measure_rounds: MeasureRounds,
) -> Confirmation:
    line = commits_between(repo, row["search_before"], row["search_after"])

    def take(before: int, after: int) -> tuple[FloatArray, FloatArray]:
        rounds_of = measure_rounds(
            config,
            line[before],
            line[after],
            bench=[series_pattern(str(row["benchmark"]), str(row["params"]))],
            rounds=rounds,
            environments=[row["env"]],
            control=None,
            # The newest commit's benchmarks on all of them, so that all are asked the same.
            suite=line[-1],
        )
        values = rounds_of.series(str(row["benchmark"]), str(row["params"]))
        if values is None:
            why = "; ".join([*rounds_of.failures, *rounds_of.lost.values()])
            raise MeasureError(
                f"{row['benchmark']} gave values on one of the two commits only{': ' if why else ''}{why}"
            )
        return values

    shift = math.log1p(max(float(row["magnitude"]), -0.99))
    rerun = confirm(take, 0, len(line) - 1, shift)
    if narrowing and rerun.outcome is Outcome.CONFIRMED:
        rerun = narrow(take, rerun)
    return Confirmation(
        machine=str(row["machine"]),
        env=str(row["env"]),
        benchmark=str(row["benchmark"]),
        params=str(row["params"]),
        version=str(row["version"]),
        outcome=rerun.outcome.value,
        before=line[rerun.before],
        after=line[rerun.after],
        candidate_before=str(row["before"]),
        candidate_after=str(row["after"]),
        change=rerun.result.change,
        low=rerun.result.low,
        high=rerun.result.high,
        pairs=rerun.result.pairs,
        measured_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
