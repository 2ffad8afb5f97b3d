"""`mlxcache dashboard`: a static site of any asv results, that needs no server and no network."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mlxcache.commands.selecting import add_results, chosen, control_of, only
from mlxcache.dashboard.output import SiteError
from mlxcache.dashboard.site import Built, build_site
from mlxcache.history.answering.assumed import assumed_directions
from mlxcache.history.asv.machines import RuleError
from mlxcache.history.changes.change_table import change_points
from mlxcache.history.changes.confirmations import read_confirmations
from mlxcache.history.loading.history import History
from mlxcache.history.repository.commits import RepositoryError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Write a static site that says what got slower, since when, by how much and at which commit. It opens "
        "from disk. A second build into the same folder writes only what changed. Exit status: 0 written, 2 it "
        "could not be done."
    )
    add_results(parser)
    parser.add_argument("--out", required=True, metavar="DIR", help="where to, new or of an earlier build")
    parser.add_argument("--title", default="", help="the project's name (default: the repository's folder)")
    parser.add_argument(
        "--address", default="", metavar="URL", help="where the site will be served, for links in the feed"
    )
    parser.add_argument(
        "--machine-name",
        action="append",
        default=[],
        metavar="NAME=SHORT",
        help="what pages call a machine (default: `alias` of its machine.json, else what its name differs in)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    try:
        history = chosen(args)
        names = _machine_names(args.machine_name, history)
        confirmations, notices = read_confirmations(args.results)
        notices += assumed_directions(
            ((key.benchmark, key.unit) for key in history.series.keys), history.benchmarks
        )
        changes = change_points(history, control=control_of(args), repo=args.repo, confirmations=confirmations)
        history, changes = only(args, history, changes)
        built = build_site(
            history,
            changes,
            Path(args.out),
            repo=Path(args.repo) if args.repo else None,
            branch=args.branch or "HEAD",
            title=args.title,
            address=args.address,
            notices=notices,
            machine_names=names,
        )
    except (SiteError, RepositoryError, RuleError, ValueError, OSError) as error:
        print(f"mlxcache dashboard: {error}", file=sys.stderr)
        return 2
    print(_summary(built, Path(args.out)))
    return 0


def _summary(built: Built, folder: Path) -> str:
    return (
        f"{folder / 'index.html'}: {built.n_standing} standing regressions, {built.n_changes} changes in all; "
        f"{built.n_written:,} of {built.n_files:,} files written, {built.n_bytes / 1e6:.1f} MB, "
        f"{built.seconds:.1f} s"
    )


def _machine_names(texts: list[str], history: History) -> dict[str, str]:
    """NAME=SHORT as given on the command line.

    Raises:
        ValueError: one has no "=", or nothing on one of its sides, or there is no such machine.
    """
    there = sorted(set(history.frame["machine"].astype("str")))
    found = {}
    for text in texts:
        name, sign, short_name = text.rpartition("=")
        if not (sign and name and short_name):
            raise ValueError(f"--machine-name: got {text!r}, expected NAME=SHORT, as in runner-7f3a=M4")
        if name not in there:
            raise ValueError(f"--machine-name: no machine {name!r} has results; there are: {', '.join(there)}")
        found[name] = short_name
    return found
