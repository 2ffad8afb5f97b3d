"""`mlxcache doctor DIR`: everything in a results tree that could not be used, and why."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from mlxcache.commands.selecting import needs
from mlxcache.counters.choosing import COUNTERS, series_name
from mlxcache.history import load
from mlxcache.history.asv.problems import Problems
from mlxcache.history.loading.history import facts_of
from mlxcache.history.merging.merge import STAGE_NAME
from mlxcache.history.merging.records import damaged_lines, find_records


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Read asv results and list every file and row that could not be used, wholly or in part. Exit status:"
        " 0 no problem, 1 problems, 2 it could not be done or no results are there."
    )
    parser.add_argument(
        "results",
        nargs="*",
        type=Path,
        metavar="DIR",
        help="a results folder, or one above several; none: only the counters",
    )
    parser.add_argument("--repo", type=Path, metavar="DIR", help="the repository, to check the commits as well")
    parser.add_argument("--branch", metavar="REV", help="whose history orders the commits (default: HEAD)")


def run(args: argparse.Namespace) -> int:
    """Read everything and print what is wrong with it; then what can count instructions here."""
    try:
        needs(args, "--results", "--repo", "--branch")
    except ValueError as error:
        print(f"mlxcache doctor: {str(error).replace('--results', 'DIR')}", file=sys.stderr)
        return 2
    status = _doctor(args) if args.results else 0
    if status != 2:
        _counters()
    return status


def _counters() -> None:
    """Which counters of instructions can be used here, and why not the others."""
    print("counters of instructions (`mlxcache bench --count REGEX`):")
    for counter in COUNTERS:
        problem = counter.problem()
        told = f"cannot be used: {problem}" if problem else f"{series_name(counter)}: {counter.counts}"
        print(f"  {counter.name:8} {told}")


def _doctor(args: argparse.Namespace) -> int:
    try:
        needs(args, "--repo", "--branch")
        df = load(args.results, args.repo, branch=args.branch or "HEAD")
    except (ValueError, OSError) as error:
        print(f"mlxcache doctor: {error}", file=sys.stderr)
        return 2
    folders = {(Path(source.file)).parent for source in facts_of(df).sources.values()}
    problems = Problems([*facts_of(df).problems, *damaged_lines(find_records(args.results, sorted(folders)))])
    for problem in problems:
        print(problem)
    interrupted = [path for path in args.results if (path / STAGE_NAME).exists()]
    for path in interrupted:
        print(f"{path}: a merge was interrupted; the next `mlxcache merge` into it finishes or forgets it")
    for notice in facts_of(df).notices:
        print(f"note: {notice}")
    status = Counter(df["status"].astype(str))
    print(
        f"{_many(len(facts_of(df).sources), 'file')}, {_many(len(facts_of(df).commits), 'commit')}, "
        f"{_many(len(facts_of(df).machines), 'machine')}, {df['series'].nunique():,} series, "
        f"{_many(len(df), 'value')} "
        f"({status['ok']:,} ok, {status['failed']:,} failed, {status['skipped']:,} skipped)"
    )
    print(problems.summary())
    if not facts_of(df).sources and not problems:
        return 2  # nothing was there to be looked at
    return 1 if problems or interrupted else 0


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"
