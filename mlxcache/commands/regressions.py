"""`mlxcache regressions`: the changes in a history of asv results.

Exit status: 0 nothing slower, 1 something is, 2 it could not be done, 3 cannot tell (too few values on a machine),
4 nothing slower but something gives no value any more.
"""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

from mlxcache.commands.selecting import add_results, chosen, control_of, needs, only
from mlxcache.history.answering.account import account_of
from mlxcache.history.answering.assumed import assumed_directions
from mlxcache.history.changes.change_table import ChangesFrame, change_points
from mlxcache.history.changes.confirmations import Confirmation, read_confirmations, write_confirmations
from mlxcache.history.changes.detector_registry import DETECTORS
from mlxcache.history.changes.segments import Method
from mlxcache.history.loading.history import History
from mlxcache.history.repository.commits import RepositoryError
from mlxcache.remeasure.confirming import NotMeasured, candidates, confirm_changes
from mlxcache.remeasure.driver_process import DriverProcess
from mlxcache.remeasure.project import results_folder
from mlxcache.remeasure.rounds import DEFAULT_ROUNDS, MeasureError, find_config, measure, this_machine
from mlxcache.reports.changes import render
from mlxcache.reports.text import FORMATS
from mlxcache.runner import facts
from mlxcache.support.folder_lock import FolderBusyError

_ABOUT_CANDIDATES = (
    "a candidate is what the history shows; --confirm measures its two commits again, on the same machine"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_results(parser)
    parser.add_argument(
        "--detector", choices=DETECTORS, default=next(iter(DETECTORS)), help="what proposes changes (%(default)s)"
    )
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument("--plots", metavar="DIR", help="write one figure for each change")
    parser.add_argument(
        "--confirm", action="store_true", help="measure each candidate's commits again, through asv"
    )
    parser.add_argument("--narrow", action="store_true", help="with --confirm: go on to the single commit")
    parser.add_argument(
        "--rounds", type=int, metavar="N", help=f"pairs a batch of a rerun (default: {DEFAULT_ROUNDS})"
    )
    parser.add_argument(
        "--any-machine", action="store_true", help="confirm other machines' candidates here as well"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="asv.conf.json for --confirm (default: the one in --repo)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    try:
        needs(args, "--confirm", "--narrow", "--rounds", "--any-machine", "--config")
        if args.config:
            args.results = results_folder(args.results, args.config)
        history = chosen(args)
        df = history.frame
        if not (df["status"] == "ok").any():
            raise MeasureError(f"no values in {args.results}; `mlxcache doctor {args.results}` says why")
        notices = [*history.notices]
        if history.problems:
            notices.append(f"{history.problems.summary()}; `mlxcache doctor {args.results}` lists them")
        if args.confirm:
            notices += _confirm(history, args)
        history, changes = only(args, history, _changes(history, args, notices))
        account = account_of(history, changes)
        notices += assumed_directions(
            ((key.benchmark, key.unit) for key in history.series.keys), history.benchmarks
        )
        waiting = candidates(changes, None)
        if len(waiting) and not args.confirm:
            notices.append(_ABOUT_CANDIDATES)
    except (MeasureError, RepositoryError, FolderBusyError, ValueError, OSError) as error:
        print(f"mlxcache regressions: {error}", file=sys.stderr)
        return 2
    sys.stdout.write(render(changes, account, args.format, notices))
    if args.plots:
        from mlxcache.dashboard.figures.plots import plot_changes

        written = plot_changes(history.frame, changes, Path(args.plots))
        print(f"{len(written)} figures in {args.plots}", file=sys.stderr)
    return int(account.status)


def _changes(
    history: History, args: argparse.Namespace, notices: list[str], *, rerun: bool = False
) -> ChangesFrame:
    confirmations, problems = read_confirmations(args.results)
    notices += problems
    method = Method(detector=DETECTORS[args.detector]())
    method = method.for_rerun() if rerun else method
    return change_points(
        history, method=method, control=control_of(args), repo=args.repo, confirmations=confirmations
    )


def _confirm(history: History, args: argparse.Namespace) -> list[str]:
    """Measure the candidates again; every answer is on disk before the next one is asked for."""
    if args.repo is None:
        raise MeasureError("--confirm needs the repository: give --repo")
    config = find_config(args.config or args.repo)
    _, changes = only(args, history, _changes(history, args, [], rerun=True))
    machines = None if args.any_machine else names_of_this_machine()
    waiting = candidates(changes, machines)
    elsewhere = len(candidates(changes, None)) - len(waiting)
    notices = []
    if machines and elsewhere:
        here = " or ".join(machines)
        notices.append(f"{elsewhere} candidates are of other machines than {here}: not measured here")
    with DriverProcess() as driver:
        answers = confirm_changes(
            waiting,
            config=config,
            repo=args.repo,
            rounds=args.rounds or DEFAULT_ROUNDS,
            narrowing=args.narrow,
            measure_rounds=functools.partial(measure, say=_say, driver=driver.run),
            say=_say,
        )
        for answer in answers:
            if isinstance(answer, Confirmation):
                write_confirmations(args.results, [answer])
                _say(f"  {answer.outcome}: {answer.change:+.1%} ({answer.low:+.1%} to {answer.high:+.1%})")
            else:
                notices.append(_why(answer))
                _say(f"  not measured: {answer.reason}")
    return notices


def names_of_this_machine() -> list[str]:
    """What this machine is called in results: by asv, and by `mlxcache bench` on either device."""
    names = [this_machine(), *(facts.this_machine(device).key for device in ("default", "cpu"))]
    return list(dict.fromkeys(names))


def _why(answer: NotMeasured) -> str:
    row = answer.change
    where = f"{row['before'][:8]}..{row['after'][:8]}"
    return f"{row['benchmark']} at {where} was not measured: {answer.reason}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
