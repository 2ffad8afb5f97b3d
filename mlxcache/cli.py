"""The `mlxcache` command: finds the command's module and hands it the arguments.

Commands are imported when they are asked for, so that `mlxcache machine` needs neither pandas nor mlx.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

# name -> one line of help; the code is mlxcache.commands.<name>
COMMANDS: dict[str, str] = {
    "bench": "run the asv suite quietly and sum up what came out",
    "bisect": "find the commit that made a series worse, between two measured ones",
    "compare": "judge one commit against another: regression, no regression or inconclusive",
    "coverage": "list which commits have results, and which need measuring",
    "dashboard": "write a static site of asv results: what got slower, since when, by how much",
    "doctor": "list what could not be used of a results tree, and why",
    "export": "write results in the formats of other systems",
    "machine": "name this machine by its hardware, and show the state it is in",
    "merge": "join shards of results, or whole trees, into one",
    "peers": "print our cache beside mlx-lm's, bare MLX and the machine's limit",
    "notify": "open, update and close the issues of confirmed regressions",
    "publish": "merge shards into a branch of results and push it, also while others do",
    "regressions": "list the changes in a history of asv results",
    "verdict": "turn a comparison's JSON into the comment for a pull request",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status (2: it could not be done)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="mlxcache",
        description="Measures mlxcache with asv and judges any project's asv results.",
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    wanted = next((word for word in arguments if word in COMMANDS), None)
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=summary)
        if name == wanted:
            command = importlib.import_module(f"mlxcache.commands.{name}")
            command.configure(subparser)
            subparser.set_defaults(run=command.run, passes=getattr(command, "PASSES_ARGUMENTS", False))
    args, rest = parser.parse_known_args(arguments)
    if rest and not args.passes:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        return int(args.run(args, rest) if args.passes else args.run(args))
    except BrokenPipeError:  # `mlxcache doctor | head`
        sys.stderr.close()
        return 141
    except KeyboardInterrupt:
        print("mlxcache: interrupted; what was finished is kept", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
