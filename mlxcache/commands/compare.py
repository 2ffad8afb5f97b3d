"""`mlxcache compare BASE HEAD`: is HEAD slower than BASE?

Exit status: 0 no regression, 1 regression, 3 inconclusive, 2 it could not be done.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mlxcache.history.changes.confirmations import read_confirmations
from mlxcache.history.comparing.protocol import (
    Comparison,
    Measured,
    NotDone,
    Protocol,
    compare_measured,
    compare_stored,
)
from mlxcache.history.comparing.verdicts import Limits, Verdict
from mlxcache.history.loading.history import History
from mlxcache.history.loading.table import read
from mlxcache.history.repository.revisions import resolve_commit, where_left
from mlxcache.remeasure.rounds import DEFAULT_ROUNDS, MeasureError, OverBudgetError, find_config, measure
from mlxcache.reports.comment import EXIT_STATUS, NOT_DONE, render
from mlxcache.reports.text import FORMATS
from mlxcache.runner.changes import DEVICE_VARIABLE, device_for
from mlxcache.runner.facts import this_machine


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("base", metavar="BASE", help="a revision; the comparison starts where HEAD left it")
    parser.add_argument("head", metavar="HEAD", help="a revision")
    parser.add_argument("--results", default="results", metavar="DIR", help="asv results (default: %(default)s)")
    parser.add_argument("--repo", default=".", metavar="DIR", help="the repository (default: %(default)s)")
    parser.add_argument("--measure", action="store_true", help="measure both commits now, in turn, through asv")
    parser.add_argument("--config", metavar="FILE", help="asv.conf.json (default: the one in --repo)")
    parser.add_argument("--bench", action="append", default=[], metavar="REGEX", help="only these benchmarks")
    parser.add_argument(
        "--rounds",
        type=int,
        default=DEFAULT_ROUNDS,
        metavar="N",
        help="pairs to measure (default: %(default)s); what stays open gets up to "
        f"{Protocol().looks} times as many",
    )
    parser.add_argument(
        "--budget",
        type=float,
        metavar="MINUTES",
        help="with --measure: end after so many minutes, with a verdict of what there is by then",
    )
    parser.add_argument("--env", action="append", default=[], metavar="SPEC", help="asv environment to measure in")
    parser.add_argument(
        "--exact-base", action="store_true", help="compare with BASE itself, not with where HEAD left it"
    )
    parser.add_argument(
        "--control",
        default="auto",
        type=lambda given: None if given == "none" else given,
        metavar="REGEX",
        help="the control benchmark (default: by name), or none",
    )
    parser.add_argument("--relevant", type=float, default=2.5, metavar="%%", help="smallest change that matters")
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument("--plots", metavar="DIR", help="write one figure for each regression that has a history")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    began = time.monotonic()
    try:
        comparison, history = _compare(args, began)
    except (MeasureError, ValueError, OSError) as error:
        print(f"mlxcache compare: {error}", file=sys.stderr)
        if args.format != "text":  # whoever reads the output reads that there is no verdict
            sys.stdout.write(render(NotDone(str(error)), args.format))
        return NOT_DONE
    sys.stdout.write(render(comparison, args.format))
    if args.plots and history is not None:
        from mlxcache.dashboard.figures.plots import plot_series

        worse = comparison.rows[comparison.rows["verdict"] == Verdict.REGRESSION]
        written = plot_series(history.frame, worse, comparison.base, comparison.head, Path(args.plots))
        print(f"{len(written)} figures in {args.plots}", file=sys.stderr)
    return EXIT_STATUS[comparison.verdict]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _compare(args: argparse.Namespace, began: float) -> tuple[Comparison, History | None]:
    if args.budget is not None and not (args.measure and args.budget > 0):
        raise ValueError(f"--budget: got {args.budget:g}, expected minutes above 0, together with --measure")
    protocol = Protocol(
        limits=Limits(relevant=args.relevant / 100.0, tolerated=max(0.05, 2 * args.relevant / 100.0)),
        control=args.control,
        bench=tuple(args.bench),
        environments=tuple(args.env),
        rounds=args.rounds,
    )
    head, base = resolve_commit(args.repo, args.head), resolve_commit(args.repo, args.base)
    notices = []
    if not args.exact_base:
        left = where_left(args.repo, args.base, args.head)
        if left != base:
            notices.append(f"compared with {left[:10]}, where {args.head} left {args.base} ({base[:10]})")
            base = left
    history = _history(args, base)
    confirmations, _ = read_confirmations(args.results)
    if args.measure:
        measuring = _Measuring(args, base, head, None if args.budget is None else began + 60.0 * args.budget)
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
        comparison = compare_stored(history, base, head, protocol, confirmations=confirmations, repo=args.repo)
    return dataclasses.replace(comparison, notices=[*notices, *comparison.notices]), history


def _history(args: argparse.Namespace, base: str) -> History | None:
    """Stored results in the order of base's history, or None where there are none."""
    if not Path(args.results).is_dir():
        return None
    history = read(args.results, repo=args.repo, samples=not args.measure, branch=base)
    return None if history.frame.empty else history


class _Measuring:
    """Measures both commits in turn through asv, until the time is up (`ends`, of the monotonic clock)."""

    def __init__(self, args: argparse.Namespace, base: str, head: str, ends: float | None) -> None:
        self._args, self._base, self._head, self._ends = args, base, head, ends
        self._config = find_config(args.config or args.repo)
        device = device_for(this_machine())
        self._variables = {DEVICE_VARIABLE: device} if device else {}
        self._measured = False
        self.was_cut = False

    def __call__(self, bench: Sequence[str]) -> Measured | None:
        left = None if self._ends is None else self._ends - time.monotonic()
        try:
            if self._measured and left is not None and left <= 0:
                raise OverBudgetError("the time is up")
            frame = measure(
                self._config,
                self._base,
                self._head,
                bench=bench,
                rounds=self._args.rounds,
                environments=self._args.env,
                control=self._args.control,
                seconds=left,
                variables=self._variables,
                say=_say,
            )
        except OverBudgetError:
            if not self._measured:
                raise
            self.was_cut = True
            return None
        self._measured = True
        cut = frame.attrs.get("cut")
        self.was_cut = cut is not None
        return Measured(
            frame, tuple(frame.attrs["failures"].values()), None if cut is None else tuple(cut.values())
        )
