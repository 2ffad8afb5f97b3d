"""`mlxcache merge SHARD... --into DIR`: one results tree out of several."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mlxcache.history.merging.merge import merge
from mlxcache.history.statistics.control import is_control
from mlxcache.support.folder_lock import FolderBusyError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Add asv results to a tree: shards of one commit from several runners, or whole trees. Values that"
        " are there are never changed. Exit status: 0 all merged, 1 conflicts (listed, left as they were),"
        " 2 it could not be done."
    )
    parser.add_argument("shards", nargs="+", type=Path, metavar="SHARD", help="a results folder to add")
    parser.add_argument("--into", required=True, type=Path, metavar="DIR", help="the tree that they are added to")
    parser.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS", help="for another merge to end (default: 60)"
    )


def run(args: argparse.Namespace) -> int:
    """Merge and say what was done."""
    try:
        report = merge(args.shards, args.into, wait_s=args.wait)
    except (ValueError, FolderBusyError, OSError) as error:
        print(f"mlxcache merge: {error}", file=sys.stderr)
        return 2
    for note in report.notes:
        print(f"note: {note}", file=sys.stderr)
    # Every shard runs the controls, so each has values of its own for the same commit: no mistake of anybody's.
    controls = [conflict for conflict in report.conflicts if is_control(conflict.row)]
    conflicts = [conflict for conflict in report.conflicts if not is_control(conflict.row)]
    for control in controls:
        print(f"note: control measured twice: {control}", file=sys.stderr)
    for conflict in conflicts:
        print(f"conflict: {conflict}", file=sys.stderr)
    print(
        f"{args.into}: {report.added} files added, {report.joined} joined, {report.unchanged} already there, "
        f"{report.records} records added, {len(conflicts)} conflicts"
    )
    return 1 if conflicts else 0
