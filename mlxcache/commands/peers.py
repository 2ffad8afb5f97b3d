"""`mlxcache peers`: our cache beside mlx-lm's, bare MLX and the machine's limit, from stored results.

With `--rings`, what is promised of a ring beside what was measured.
"""

from __future__ import annotations

import argparse
import sys

from mlxcache.history import load
from mlxcache.reports.ring_goals import BENCHMARKS, as_markdown, ring_goals
from mlxcache.runner.peers_table import as_text, peers_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--results", default="results", help="asv's results folder (default: %(default)s)")
    parser.add_argument(
        "--rings", action="store_true", help="what is promised of a ring and what was measured, in Markdown"
    )
    parser.add_argument("--repo", default=None, help="the repository that orders the commits")


def run(args: argparse.Namespace) -> int:
    """Print the table; 2 if there are no results of the peers."""
    try:
        if args.rings:
            print(as_markdown(ring_goals(load(args.results, args.repo, benchmarks=BENCHMARKS))))
            return 0
        table = load(args.results, args.repo, samples=True, benchmarks=r"^(peers|limits)\.")
        print(as_text(peers_table(table)))
    except (OSError, ValueError) as error:
        print(f"mlxcache peers: {error}", file=sys.stderr)
        return 2
    return 0
