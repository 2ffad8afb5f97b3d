"""`mlxcache publish SHARD... --branch BRANCH`: merge shards of results into a branch and push it.

Where another runner pushes at the same time, both results get there: whoever is second merges again.
Exit status: 0 pushed or nothing new, 1 conflicts (listed, left as they were), 2 it could not be done.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mlxcache.history.merging.publish import PublishError, publish
from mlxcache.history.statistics.control import is_control
from mlxcache.support.folder_lock import FolderBusyError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("shards", nargs="+", type=Path, metavar="SHARD", help="a results folder to add")
    parser.add_argument("--branch", default="benchmark-results", help="the branch (default: %(default)s)")
    parser.add_argument("--remote", default="origin", help="where it is pushed to (default: %(default)s)")
    parser.add_argument("--repo", default=".", metavar="DIR", help="a clone (default: %(default)s)")
    parser.add_argument("--folder", default="results", help="where on the branch (default: %(default)s)")
    parser.add_argument("--message", default="Add benchmark results", help="the commit's message")


def run(args: argparse.Namespace) -> int:
    """Publish and say what was done."""
    try:
        done = publish(
            args.shards,
            args.repo,
            branch=args.branch,
            remote=args.remote,
            folder=args.folder,
            message=args.message,
        )
    except (PublishError, FolderBusyError, ValueError, OSError) as error:
        print(f"mlxcache publish: {error}", file=sys.stderr)
        return 2
    conflicts = [conflict for conflict in done.report.conflicts if not is_control(conflict.row)]
    for conflict in conflicts:
        print(f"conflict: {conflict}", file=sys.stderr)
    what = f"pushed {done.commit[:10]}" if done.commit else "nothing new"
    print(
        f"{args.branch}: {what} in {done.tries} tr{'y' if done.tries == 1 else 'ies'}; "
        f"{done.report.added} files added, {done.report.joined} joined, {len(conflicts)} conflicts"
    )
    return 1 if conflicts else 0
