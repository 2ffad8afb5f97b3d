"""`mlxcache doctor DIR`: everything in a results tree that could not be used, and why."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from mlxcache.history import load
from mlxcache.history.merge import STAGE_NAME


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Read asv results and list every file and row that could not be used, wholly or in part. Exit status:"
        " 0 no problem, 1 problems, 2 it could not be done or no results are there."
    )
    parser.add_argument(
        "results", nargs="+", type=Path, metavar="DIR", help="a results folder, or one above several"
    )
    parser.add_argument("--repo", type=Path, metavar="DIR", help="the repository, to check the commits as well")
    parser.add_argument("--branch", default="HEAD", help="whose history orders the commits (default: HEAD)")


def run(args: argparse.Namespace) -> int:
    """Read everything and print what is wrong with it."""
    try:
        df = load(args.results, args.repo, branch=args.branch)
    except (ValueError, OSError) as error:
        print(f"mlxcache doctor: {error}", file=sys.stderr)
        return 2
    problems = df.attrs["problems"]
    for problem in problems:
        print(problem)
    interrupted = [path for path in args.results if (path / STAGE_NAME).exists()]
    for path in interrupted:
        print(f"{path}: a merge was interrupted; the next `mlxcache merge` into it finishes or forgets it")
    for notice in df.attrs["notices"]:
        print(f"note: {notice}")
    status = Counter(df["status"].astype(str))
    print(
        f"{len(df.attrs['sources']):,} files, {len(df.attrs['commits']):,} commits, "
        f"{len(df.attrs['machines']):,} machines, {df['series'].nunique():,} series, {len(df):,} values "
        f"({status['ok']:,} ok, {status['failed']:,} failed, {status['skipped']:,} skipped)"
    )
    print(problems.summary())
    if not df.attrs["sources"] and not problems:
        return 2  # nothing was there to be looked at
    return 1 if problems or interrupted else 0
