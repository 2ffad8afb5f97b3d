"""`mlxcache compare BASE HEAD`: is HEAD slower than BASE?

Exit status: 0 no regression, 1 regression, 3 inconclusive, 2 it could not be done.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

import pandas as pd

from mlxcache.history.changes.change_table import change_points
from mlxcache.history.changes.confirmations import read_confirmations
from mlxcache.history.comparing.comparison import compare, compare_rounds
from mlxcache.history.comparing.lost import Lost, lost_in_rounds, lost_in_table
from mlxcache.history.comparing.runner_noise import noise_lines
from mlxcache.history.comparing.verdicts import Limits, Verdict, overall
from mlxcache.history.loading.commits import RepositoryError
from mlxcache.history.loading.full_history import require_full_history
from mlxcache.history.loading.history import facts_of
from mlxcache.history.loading.table import load
from mlxcache.remeasure.rounds import (
    DEFAULT_ROUNDS,
    MeasureError,
    find_config,
    measure,
    merge_base,
    resolve_commit,
)
from mlxcache.reports.comment import EXIT_STATUS, NOT_DONE, Comparison, NotDone, render
from mlxcache.reports.text import FORMATS

# What is still open is measured again, so many times at most.
_LOOKS = 3


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
        help=f"pairs to measure (default: %(default)s); what stays open gets up to {_LOOKS} times as many",
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
    try:
        comparison, history = _compare(args)
    except (MeasureError, RepositoryError, ValueError, OSError) as error:
        print(f"mlxcache compare: {error}", file=sys.stderr)
        if args.format != "text":  # whoever reads the output reads that there is no verdict
            sys.stdout.write(render(NotDone(str(error)), args.format))
        return NOT_DONE
    sys.stdout.write(render(comparison, args.format))
    if args.plots and history is not None:
        from mlxcache.dashboard.figures.plots import plot_series

        worse = comparison.rows[comparison.rows["verdict"] == Verdict.REGRESSION]
        written = plot_series(history, worse, comparison.base, comparison.head, Path(args.plots))
        print(f"{len(written)} figures in {args.plots}", file=sys.stderr)
    return EXIT_STATUS[comparison.verdict]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _compare(args: argparse.Namespace) -> tuple[Comparison, pd.DataFrame | None]:
    limits = Limits(relevant=args.relevant / 100.0, tolerated=max(0.05, 2 * args.relevant / 100.0))
    head = resolve_commit(args.repo, args.head)
    base = resolve_commit(args.repo, args.base)
    notices = []
    if not args.exact_base:
        require_full_history(args.repo)
        left = merge_base(args.repo, base, head)
        if left is None:
            raise MeasureError(
                f"{args.base} and {args.head} have no common history; in a shallow clone "
                "`git fetch --unshallow` brings it, or compare with --exact-base"
            )
        if left != base:
            notices.append(f"compared with {left[:10]}, where {args.head} left {args.base} ({base[:10]})")
            base = left
    history = _history(args, base)
    if not args.measure and history is None:
        raise MeasureError(f"no results in {args.results}; give --results, or --measure to measure both commits")
    known = _on_base(history, args, base)
    if args.measure:
        rows, more, lost, noise = _measured(args, base, head, limits, known)
        notices += more
    else:
        assert history is not None
        measured_base, more = _nearest_measured(history, base)
        notices += more
        if measured_base == head:
            raise MeasureError(
                f"{args.head} and the base are the same commit {head[:10]}; there is nothing to compare"
            )
        rows = compare(history, measured_base, head, limits=limits, control=args.control, base_changes=known)
        notices += rows.attrs["notices"]
        rows = _matching(rows, args.bench)
        base = measured_base
        lost, noise = lost_in_table(_matching(history, args.bench), base, head), noise_lines(rows)
    verdict = overall(rows["verdict"].tolist(), limits)
    if lost.missing and verdict is Verdict.NO_REGRESSION:
        verdict = Verdict.INCONCLUSIVE  # what did not run cannot have passed
    notices = [*lost.notices(), *notices]
    return Comparison(rows, verdict, base, head, notices, noise, lost.missing, args.measure), history


def _matching(rows: pd.DataFrame, patterns: list[str]) -> pd.DataFrame:
    if not patterns:
        return rows
    params = rows["params"].astype("str")
    names = rows["benchmark"].astype("str") + params.map(lambda text: f"({text})" if text else "")
    mask = names.map(lambda name: False)
    for pattern in patterns:
        mask |= names.str.contains(pattern, regex=True)
    return rows[mask].reset_index(drop=True)


def _history(args: argparse.Namespace, base: str) -> pd.DataFrame | None:
    """Stored results in the order of base's history, or None where there are none."""
    if not Path(args.results).is_dir():
        return None
    df = load(args.results, repo=args.repo, samples=not args.measure, branch=base)
    return None if df.empty else df


def _on_base(history: pd.DataFrame | None, args: argparse.Namespace, base: str) -> pd.DataFrame | None:
    """Changes in base's own history: what was there before head."""
    if history is None:
        return None
    commits = facts_of(history).commits
    own = {name for name, commit in commits.items() if commit.place == "line"}
    before = history[history["commit"].isin(own)]
    confirmations, _ = read_confirmations(args.results)
    return change_points(before, control=args.control, repo=args.repo, confirmations=confirmations)


def _nearest_measured(history: pd.DataFrame, base: str) -> tuple[str, list[str]]:
    """`base`, or the newest commit of its history that has results."""
    commits = facts_of(history).commits
    if base in commits:
        return base, []
    line = [c for c in commits.values() if c.place == "line" and c.position is not None]
    if not line:
        raise MeasureError(f"no commit of the history of {base[:10]} has results; measure it, or use --measure")
    newest = max(line, key=lambda commit: commit.position or 0)
    return str(newest.name), [
        f"{base[:10]} has no results; compared with {newest.name[:10]}, the newest before it"
    ]


def _measured(
    args: argparse.Namespace, base: str, head: str, limits: Limits, known: pd.DataFrame | None
) -> tuple[pd.DataFrame, list[str], Lost, list[str]]:
    """Measure until nothing is open, at most _LOOKS times; each look gets its share of the false alarms."""
    config = find_config(args.config or args.repo)
    if base == head:
        raise MeasureError(f"both revisions are {base[:10]}; there is nothing to compare")
    share = dataclasses.replace(limits, false_share=limits.false_share / _LOOKS)
    frames: list[pd.DataFrame] = []
    failures: dict[str, None] = {}
    bench = list(args.bench)
    for look in range(_LOOKS):
        frame = measure(
            config,
            base,
            head,
            bench=bench,
            rounds=args.rounds,
            environments=args.env,
            control=args.control,
            say=_say,
        )
        failures.update(dict.fromkeys(frame.attrs["failures"].values()))
        frames.append(frame.assign(round=frame["round"] + look * args.rounds))
        rounds = pd.concat(frames, ignore_index=True)
        rows = compare_rounds(rounds, base=base, head=head, limits=share, control=args.control, base_changes=known)
        still_open = rows[rows["verdict"] == Verdict.INCONCLUSIVE]
        if overall(rows["verdict"].tolist(), share) is not Verdict.INCONCLUSIVE:
            break
        from mlxcache.remeasure.confirming import selector

        bench = sorted({selector(row) for row in still_open.to_dict("records")})
        if look + 1 < _LOOKS:
            _say(f"{len(still_open)} series are still open: measuring them again")
    notices = [*failures, *rows.attrs["notices"]]
    if overall(rows["verdict"].tolist(), share) is Verdict.INCONCLUSIVE:
        notices.append("what is inconclusive is not fine: a quieter machine or more --rounds would tell")
    return rows, notices, lost_in_rounds(rounds), noise_lines(rows, rounds, args.control)
