"""`mlxcache peers`: our cache beside mlx-lm's, bare MLX and the machine's limit, from stored results."""

from __future__ import annotations

import argparse
import sys

from mlxcache.history import load
from mlxcache.runner.peers_table import as_text, peers_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("--results", default="results", help="asv's results folder (default: %(default)s)")
    parser.add_argument("--repo", default=None, help="the repository that orders the commits")


def run(args: argparse.Namespace) -> int:
    """Print the table; 2 if there are no results of the peers."""
    try:
        table = load(args.results, args.repo, samples=True, benchmarks=r"^(peers|limits)\.")
        print(as_text(peers_table(table)))
    except (OSError, ValueError) as error:
        print(f"mlxcache peers: {error}", file=sys.stderr)
        return 2
    return 0
