"""`mlxcache coverage [RANGE]`: which commits have results, and with --missing which ones to measure.

    mlxcache coverage --missing --newest 20 main | mlxcache bench HASHFILE:-

Exit status: 0, or 2 if it could not be done.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from mlxcache.commands.selecting import add_results, check_patterns, chosen, excludes, matchable, needs
from mlxcache.history.comparing.protocol import matching
from mlxcache.history.repository.coverage import Coverage, coverage
from mlxcache.history.repository.full_history import require_full_history
from mlxcache.history.repository.revisions import first_parent_line
from mlxcache.remeasure.project import results_folder


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "range",
        nargs="?",
        default="HEAD",
        metavar="RANGE",
        help="a branch or range, first parents (default: HEAD)",
    )
    add_results(parser, repo=".", without=("--branch", "--control"))
    parser.add_argument("--newest", type=int, metavar="N", help="only the newest N commits of the range")
    parser.add_argument(
        "--missing",
        action="store_true",
        help="print the commits to measure, newest first: those that no machine has, wholly or at all",
    )
    parser.add_argument(
        "--groups",
        type=int,
        metavar="N",
        help="print the commits to measure as a JSON list of at most N groups, for the matrix of a CI: each is "
        "measured whole on one machine",
    )
    parser.add_argument("--retry-failed", action="store_true", help="commits where all failed are to measure too")
    parser.add_argument("--format", choices=("text", "json"))


def run(args: argparse.Namespace) -> int:
    """Print it."""
    try:
        if args.newest is not None and args.newest < 1:
            raise ValueError(f"--newest: got {args.newest}, expected 1 or more")
        if args.groups is not None and args.groups < 1:
            raise ValueError(f"--groups: got {args.groups}, expected 1 or more")
        if not (args.missing or args.groups or args.format == "json"):
            needs(args, "--missing", "--retry-failed")  # which text does not show
        excludes(args, "--groups", "--missing", "--format")
        excludes(args, "--missing", "--format")
        check_patterns(args)
        require_full_history(args.repo)
        line = first_parent_line(args.repo, args.range, args.newest)
        found = _coverage(args, line)
    except (ValueError, OSError) as error:
        print(f"mlxcache coverage: {error}", file=sys.stderr)
        return 2
    missing = to_measure(found, line, retry_failed=args.retry_failed)
    if args.groups is not None:
        print(json.dumps([" ".join(group) for group in in_groups(missing, args.groups)]))
    elif args.format == "json":
        print(json.dumps({"missing": missing, "machines": [asdict(machine) for machine in found]}, indent=2))
    elif args.missing:
        sys.stdout.write("".join(f"{commit}\n" for commit in missing))
    else:
        _print(found, line)
    return 0


def _coverage(args: argparse.Namespace, line: list[str]) -> list[Coverage]:
    # Before the first run there is no folder, and every commit is missing.
    args.results = results_folder(args.results, args.repo)
    if not line or not Path(args.results).is_dir():
        return []
    history = chosen(args, branch=line[-1], param_columns=False, absent=True)
    if args.bench:
        numbers = matching(matchable(history.frame), args.bench)["series"].tolist()
        return coverage(history.frame[history.frame["series"].isin(numbers)], line)
    return coverage(history.frame, line)


def to_measure(found: list[Coverage], line: list[str], *, retry_failed: bool = False) -> list[str]:
    """Commits that no machine has wholly, newest first."""
    if not found:
        return line[::-1]
    open_everywhere = set.intersection(*(set(each.to_measure(retry_failed=retry_failed)) for each in found))
    return [commit for commit in reversed(line) if commit in open_everywhere]


def in_groups(commits: list[str], count: int) -> list[list[str]]:
    """At most `count` groups of about equal size, none empty.

    Neighbours are dealt to different groups: a slow machine then shows as scatter, and not as a step in the
    history where its share begins.
    """
    return [commits[start::count] for start in range(min(count, len(commits)))]


def _print(found: list[Coverage], line: list[str]) -> None:
    if not found:
        print(f"no machine has results of these {len(line)} commits")
    for each in found:
        print(f"{each.machine}: {len(each.measured)} of {len(line)} commits measured")
        for what, commits in (("in part", each.partial), ("all failed", each.failed), ("missing", each.missing)):
            if commits:
                shown = " ".join(commit[:10] for commit in reversed(commits[-8:]))
                more = f" and {len(commits) - 8} older" if len(commits) > 8 else ""
                print(f"  {len(commits)} {what}: {shown}{more}")
