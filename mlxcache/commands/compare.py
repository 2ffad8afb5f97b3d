"""`mlxcache compare BASE HEAD`: is HEAD slower than BASE?

Exit status: 0 nothing slower, 1 something is slower, 2 it could not be done, 3 cannot tell, 4 a benchmark broke
or is gone.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mlxcache.commands.selecting import add_results, check_patterns, chosen, control_of, excludes, needs
from mlxcache.counters.asv_suite import VARIABLE as COUNTER_VARIABLE
from mlxcache.counters.asv_suite import count_pattern
from mlxcache.counters.choosing import NoCounterError, choose
from mlxcache.counters.choosing import series_name as counter_name
from mlxcache.history.answering.assumed import assumed_directions
from mlxcache.history.changes.confirmations import read_confirmations
from mlxcache.history.comparing.protocol import (
    Comparison,
    NotDone,
    Protocol,
    compare_measured,
    compare_stored,
)
from mlxcache.history.comparing.rounds import Rounds
from mlxcache.history.comparing.verdicts import Limits, Verdict
from mlxcache.history.loading.history import History
from mlxcache.history.loading.table import read
from mlxcache.history.repository.revisions import resolve_commit, where_left
from mlxcache.history.statistics.counted import COUNT_ROUNDS, SMALLEST
from mlxcache.remeasure.driver_process import DriverProcess
from mlxcache.remeasure.project import Place, repository, results_folder
from mlxcache.remeasure.rounds import DEFAULT_ROUNDS, MeasureError, OverBudgetError, find_config, measure
from mlxcache.reports.comment import NOT_DONE, render
from mlxcache.reports.text import FORMATS
from mlxcache.runner.changes import DEVICE_VARIABLE, device_for
from mlxcache.runner.facts import this_machine


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("base", metavar="BASE", help="a revision; the comparison starts where HEAD left it")
    parser.add_argument("head", metavar="HEAD", help="a revision")
    add_results(parser, without=("--branch",))
    parser.add_argument("--measure", action="store_true", help="measure both commits now, in turn, through asv")
    parser.add_argument("--config", metavar="FILE", help="asv.conf.json (default: the one in --repo)")
    parser.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help=f"with --measure: pairs to measure (default: {DEFAULT_ROUNDS}); what stays open gets up to "
        f"{Protocol().looks} times as many",
    )
    parser.add_argument(
        "--budget",
        type=float,
        metavar="MINUTES",
        help="with --measure: end after so many minutes, with a verdict of what there is by then",
    )
    parser.add_argument(
        "--count",
        action="append",
        metavar="REGEX",
        help="with --measure: count the instructions of the time_ benchmarks in which this is found; "
        f"{COUNT_ROUNDS} rounds, and {SMALLEST:.1%}% matters",
    )
    parser.add_argument(
        "--exact-base", action="store_true", help="compare with BASE itself, not with where HEAD left it"
    )
    for name, option, default, about in Limits.options():
        parser.add_argument(option, dest=name, type=float, default=default, metavar="PERCENT", help=about)
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument("--plots", metavar="DIR", help="write one figure for each regression that has a history")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    began = time.monotonic()
    try:
        args.start = args.repo or "."
        args.results = results_folder(args.results, args.config or args.start)
        comparison, history = _compare(args, began)
    except (MeasureError, NoCounterError, ValueError, OSError) as error:
        print(f"mlxcache compare: {error}", file=sys.stderr)
        if args.format != "text":  # whoever reads the output reads that there is no verdict
            sys.stdout.write(render(NotDone(str(error)), args.format))
        return NOT_DONE
    sys.stdout.write(render(comparison, args.format))
    if args.plots and history is None:
        print(f"no figures in {args.plots}: {args.results} has no history to show", file=sys.stderr)
    elif args.plots and history is not None:
        from mlxcache.dashboard.figures.plots import plot_series

        worse = comparison.rows[comparison.rows["verdict"] == Verdict.REGRESSION]
        written = plot_series(history.frame, worse, comparison.base, comparison.head, Path(args.plots))
        print(f"{len(written)} figures in {args.plots}", file=sys.stderr)
    return comparison.exit_status


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _compare(args: argparse.Namespace, began: float) -> tuple[Comparison, History | None]:
    check_patterns(args)
    needs(args, "--measure", "--budget", "--rounds", "--count")
    excludes(args, "--measure", "--machine", "--machine-rule")  # it is this one
    if args.measure and args.control == "median":
        raise ValueError("--control median has no effect with --measure; expected a benchmark, or none")
    if args.budget is not None and args.budget <= 0:
        raise ValueError(f"--budget: got {args.budget:g}, expected minutes above 0")
    if args.rounds is None:
        args.rounds = COUNT_ROUNDS if args.count else DEFAULT_ROUNDS
    args.bench = [*(args.bench or ()), *(count_pattern(pattern) for pattern in args.count or ())]
    protocol = Protocol(
        limits=Limits.of(vars(args)),
        control=control_of(args),
        bench=tuple(args.bench),
        environments=tuple(args.env or ()),
        rounds=args.rounds,
    )
    notices = []
    if args.repo is None:
        place = repository(None, find_config(args.config or ".")) if args.measure or args.config else Place(".")
        args.repo = place.folder
        notices += [place.notice] if place.notice else []
    head, base = resolve_commit(args.repo, args.head), resolve_commit(args.repo, args.base)
    named = base
    if not args.exact_base:
        left = where_left(args.repo, args.base, args.head)
        if left != base:
            notices.append(f"compared with {left[:10]}, where {args.head} left {args.base} ({base[:10]})")
            base = left
    history = _history(args, base)
    confirmations, _ = read_confirmations(args.results)
    if args.measure:
        ends = None if args.budget is None else began + 60.0 * args.budget
        with DriverProcess() as driver:
            measuring = _Measuring(args, base, head, ends, driver)
            comparison = compare_measured(
                measuring,
                base,
                head,
                protocol,
                history=history,
                confirmations=confirmations,
                repo=args.repo,
                say=_say,
            )
        if measuring.was_cut:
            notices.append(f"the budget of {args.budget:g} minutes ended the measuring early")
    elif history is None:
        raise MeasureError(f"no results in {args.results}; give --results, or --measure to measure both commits")
    else:
        comparison = compare_stored(
            history, base, head, protocol, named=named, confirmations=confirmations, repo=args.repo
        )
    series = zip(comparison.rows["benchmark"].astype(str), comparison.rows["unit"].astype(str), strict=True)
    notices += assumed_directions(series, {} if history is None else history.benchmarks)
    return dataclasses.replace(comparison, notices=[*notices, *comparison.notices]), history


def _history(args: argparse.Namespace, base: str) -> History | None:
    """Stored results in the order of base's history, or None where there are none."""
    if not Path(args.results).is_dir():
        return None
    if args.measure:  # what --env, --bench and --control say is of what will be measured
        history = read(args.results, repo=args.repo, branch=base)
    else:
        history = chosen(args, samples=True, branch=base)
    return None if history.frame.empty else history


class _Measuring:
    """Measures both commits in turn through asv, until the time is up (`ends`, of the monotonic clock)."""

    def __init__(
        self, args: argparse.Namespace, base: str, head: str, ends: float | None, driver: DriverProcess
    ) -> None:
        self._driver = driver
        self._args, self._base, self._head, self._ends = args, base, head, ends
        self._config = find_config(args.config or args.start)
        device = device_for(this_machine())
        self._variables = {DEVICE_VARIABLE: device} if device else {}
        if args.count:
            self._variables[COUNTER_VARIABLE] = counter_name(choose())
        self._measured = False
        self.was_cut = False

    def __call__(self, bench: Sequence[str]) -> Rounds | None:
        left = None if self._ends is None else self._ends - time.monotonic()
        try:
            if self._measured and left is not None and left <= 0:
                raise OverBudgetError("the time is up")
            got = measure(
                self._config,
                self._base,
                self._head,
                bench=bench,
                rounds=self._args.rounds,
                environments=self._args.env or (),
                control=control_of(self._args),
                seconds=left,
                variables=self._variables,
                say=_say,
                driver=self._driver.run,
            )
        except OverBudgetError:
            if not self._measured:
                raise
            self.was_cut = True
            return None
        self._measured = True
        self.was_cut = got.cut is not None
        return got
