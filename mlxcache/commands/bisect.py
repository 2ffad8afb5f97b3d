"""`mlxcache bisect SERIES`: which commit between the last good and the first bad one made the change?

    mlxcache bisect 'decode.Decode.time_step'              the newest regression in its history
    mlxcache bisect 'ring.Ring.time_x(64)' --good v1 --bad main

What lies between is halved; each commit in question is measured in turn with the good one.
Exit status: 0 found, 3 the change did not show again or skipped commits hide it, 2 it could not be done.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from mlxcache.commands.selecting import add_results, chosen, control_of, excludes
from mlxcache.history.changes.change_table import change_points
from mlxcache.history.changes.confirmations import read_confirmations
from mlxcache.history.repository.full_history import require_full_history
from mlxcache.history.repository.revisions import resolve_commit, subject_of
from mlxcache.remeasure.bisect import Answer, Found, Question, answer, bisect, line_between, reproduce
from mlxcache.remeasure.driver_process import DriverProcess
from mlxcache.remeasure.project import repository, results_folder
from mlxcache.remeasure.rerun import Outcome, Rerun
from mlxcache.remeasure.rounds import (
    DEFAULT_ROUNDS,
    MeasureError,
    find_config,
    measure,
)
from mlxcache.reports.text import label
from mlxcache.reports.units import format_change
from mlxcache.support.names import series_pattern

INCONCLUSIVE = 3


@dataclasses.dataclass(frozen=True)
class _Task:
    """A series, the commits between which it changed, good first, and which sign is worse if that is known."""

    question: Question
    line: list[str]
    worse: float | None

    @property
    def bad(self) -> str:
        """The commit that is slow for sure."""
        return self.line[-1]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "series",
        metavar="SERIES",
        help="a benchmark, with its parameters in brackets if it has some: b.time_x(64)",
    )
    parser.add_argument("--good", metavar="REV", help="a commit before the change (default: from the results)")
    parser.add_argument("--bad", metavar="REV", help="a commit after it (default: from the results)")
    parser.add_argument(
        "--change", metavar="REV", help="the change whose first slow commit is this, not the newest one"
    )
    add_results(parser, without=("--bench", "--env"))
    parser.add_argument("--config", metavar="FILE", help="asv.conf.json (default: the one in --repo)")
    parser.add_argument(
        "--env", action="append", metavar="REGEX", help="whose history counts; with --good: the one to measure in"
    )
    parser.add_argument(
        "--rounds", type=int, default=DEFAULT_ROUNDS, metavar="N", help="pairs a batch (default: %(default)s)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(args: argparse.Namespace) -> int:
    """Bisect and say which commit it is."""
    found: Found
    try:
        args.config = str(find_config(args.config or args.repo or "."))
        args.results = results_folder(args.results, args.config)
        place = repository(args.repo, Path(args.config))
        args.repo = place.folder
        if place.notice:
            _say(place.notice)
        require_full_history(args.repo)
        task = _task(args)
        with DriverProcess() as driver:
            measure_rounds = functools.partial(measure, say=_say, driver=driver.run)
            _say(f"{task.question.benchmark}: {task.question.good[:10]} (good) against {task.bad[:10]} (bad)")
            rerun = reproduce(task.question, task.bad, task.worse, measure_rounds)
            if rerun.outcome is not Outcome.CONFIRMED:
                return _not_there(task, rerun)
            question = dataclasses.replace(task.question, border=math.log1p(rerun.result.change) / 2.0)

            def ask(commit: str) -> Answer:
                found, reason = answer(question, commit, measure_rounds)
                if reason:
                    _say(f"{commit[:10]} cannot be measured: {reason}")
                return found

            found = bisect(task.line, ask, _say)
    except (MeasureError, ValueError, OSError) as error:
        print(f"mlxcache bisect: {error}", file=sys.stderr)
        return 2
    return _tell(args, task, rerun, found)


def _task(args: argparse.Namespace) -> _Task:
    config = args.config
    if args.good and args.bad:
        excludes(args, "--good", "--change", "--branch", "--machine", "--machine-rule", "--control")
        benchmark, params = _parse(args.series)
        good, bad = resolve_commit(args.repo, args.good), resolve_commit(args.repo, args.bad)
        env = (args.env or [""])[-1]
        worse = None
    elif args.good or args.bad:
        raise MeasureError("give both --good and --bad, or none of them to take them from the results")
    else:
        row = _change(args)
        benchmark, params, env = row["benchmark"], row["params"], row["env"]
        good, bad = row["search_before"], row["search_after"]
        worse = 1.0 if row["magnitude"] > 0 else -1.0
    line = line_between(args.repo, good, bad)
    bench = series_pattern(benchmark, params)
    return _Task(Question(config, good, bench, benchmark, params, env, args.rounds, suite=bad), line, worse)


def _parse(series: str) -> tuple[str, str]:
    match = re.fullmatch(r"([^()]+)(?:\((.*)\))?", series, re.DOTALL)
    if match is None:
        raise MeasureError(f"SERIES: got {series!r}, expected a benchmark's name such as b.time_x or b.time_x(64)")
    return match[1], match[2] or ""


def _change(args: argparse.Namespace) -> dict[str, Any]:
    """The regression in the stored history that is meant."""
    history = chosen(args)
    confirmations, _ = read_confirmations(args.results)
    changes = change_points(history, control=control_of(args), repo=args.repo, confirmations=confirmations)
    changes = changes[changes["direction"] == "regression"]
    names = pd.Series([label(row) for row in changes.to_dict("records")], index=changes.index, dtype="str")
    fits = changes[(names == args.series) | (changes["benchmark"] == args.series)]
    if args.change:
        wanted = resolve_commit(args.repo, args.change)
        fits = fits[fits["after"] == wanted]
    if fits.empty:
        there = ", ".join(sorted(set(names))[:8]) or "none"
        raise MeasureError(
            f"SERIES: no regression of {args.series!r}{' at ' + args.change if args.change else ''} in "
            f"{args.results}; there are regressions of: {there}. Or give --good and --bad"
        )
    row: dict[str, Any] = {str(k): v for k, v in fits.iloc[0].to_dict().items()}
    if row["confirmed"]:  # a rerun placed it
        row["search_before"], row["search_after"] = row["before"], row["after"]
    return row


def _not_there(task: _Task, rerun: Rerun) -> int:
    result = rerun.result
    interval = f"{format_change(result.low)} to {format_change(result.high)}"
    what = "no slowdown" if rerun.outcome is Outcome.REFUTED else "nothing certain"
    _say(
        f"mlxcache bisect: {what} between {task.question.good[:10]} and {task.bad[:10]} on this machine: "
        f"{format_change(result.change)} ({interval}) in {result.pairs} pairs. More --rounds or a quieter machine "
        "may tell more; a change of another machine may not show on this one"
    )
    return INCONCLUSIVE


def _tell(args: argparse.Namespace, task: _Task, rerun: Rerun, found: Found) -> int:
    result = rerun.result
    facts = {
        "benchmark": task.question.benchmark,
        "params": task.question.params,
        "good": task.question.good,
        "bad": task.bad,
        "change": result.change,
        "low": result.low,
        "high": result.high,
        "first_bad": found.first_bad or None,
        "suspects": list(found.suspects),
    }
    if args.format == "json":
        print(json.dumps(facts, indent=2))
    else:
        size = f"{format_change(result.change)} ({format_change(result.low)} to {format_change(result.high)})"
        if found.first_bad:
            print(f"{found.first_bad} made {task.question.benchmark} worse by {size}")
            print(f"    {subject_of(args.repo, found.first_bad)}")
        else:
            print(f"one of {len(found.suspects)} commits made {task.question.benchmark} worse by {size};")
            print("the others in between cannot be measured:")
            print("".join(f"    {name} {subject_of(args.repo, name)}\n" for name in found.suspects), end="")
    return 0 if found.first_bad else INCONCLUSIVE


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
