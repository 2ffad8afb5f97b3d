"""`mlxcache peers`: our cache beside mlx-lm's, bare MLX and the machine's limit, from stored results.

With `--rings`, what is promised of a ring beside what was measured.
"""

from __future__ import annotations

import argparse
import sys

from mlxcache.commands.selecting import add_results, chosen
from mlxcache.reports.ring_goals import BENCHMARKS, as_markdown, ring_goals
from mlxcache.runner.peers_table import as_text, peers_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_results(parser, without=("--bench", "--control"))
    parser.add_argument(
        "--rings", action="store_true", help="what is promised of a ring and what was measured, in Markdown"
    )


def run(args: argparse.Namespace) -> int:
    """Print the table; 2 if there are no results of the peers."""
    try:
        if args.rings:
            print(as_markdown(ring_goals(chosen(args, benchmarks=BENCHMARKS).frame)))
            return 0
        table = chosen(args, samples=True, benchmarks=r"^(peers|limits)\.").frame
        print(as_text(peers_table(table)))
    except (OSError, ValueError) as error:
        print(f"mlxcache peers: {error}", file=sys.stderr)
        return 2
    return 0
