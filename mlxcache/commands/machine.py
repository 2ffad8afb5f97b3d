"""`mlxcache machine`: what this machine is called in the results, and in what state it is."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from mlxcache.runner.asv_machine import machine_file, register
from mlxcache.runner.facts import GIB, this_machine, this_state


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--write", action="store_true", help="make asv use this machine's key (~/.asv-machine.json)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--device", choices=("default", "cpu", "gpu"), default="default")


def run(args: argparse.Namespace) -> int:
    """Print, and write if asked to."""
    try:
        machine, state = this_machine(args.device), this_state()
    except ValueError as error:
        print(f"mlxcache machine: {error}", file=sys.stderr)
        return 2
    if args.format == "json":
        print(json.dumps({**machine.as_dict(), "state": asdict(state)}, indent=2))
    else:
        told = {name: value for name, value in asdict(state).items() if value is not None}
        print(f"key      {machine.key}")
        print(
            f"system   {machine.os} {machine.os_version}, {machine.arch}"
            + (f", {machine.virtual}" * bool(machine.virtual))
        )
        print(f"chip     {machine.chip}, {machine.cores} cores, {machine.memory / GIB:.1f} GiB")
        print(f"MLX      {machine.mlx or 'not installed'}, device {machine.device} ({machine.why})")
        print("state    " + ", ".join(f"{name} {value}" for name, value in told.items()))
        for warning in state.warnings():
            print(f"warning  {warning}")
    if args.write:
        try:
            plain = register(machine)
        except (ValueError, OSError) as error:
            print(f"mlxcache machine: {error}", file=sys.stderr)
            return 2
        how = "asv run" if plain else f"asv run --machine {machine.key}"
        print(f"written  {machine_file()}; `{how}` uses it", file=sys.stderr)
    return 0
