"""`mlxcache machine`: what this machine is called in the results, and in what state it is.

Exit status: 0, with --check 1 if it is not fit to measure, 2 if it does not tell what its name is made of.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from mlxcache.runner.asv_machine import machine_file, register
from mlxcache.runner.facts import GIB, Machine, State, this_machine, this_state
from mlxcache.runner.fitness import complaints


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--write", action="store_true", help="make asv use this machine's key (~/.asv-machine.json)"
    )
    parser.add_argument("--check", action="store_true", help="end with 1 if it is not fit to measure now")
    parser.add_argument(
        "--format", choices=("text", "json", "key"), default="text", help="key prints the name alone"
    )
    parser.add_argument("--device", choices=("default", "cpu", "gpu"), default="default")


def run(args: argparse.Namespace) -> int:
    """Print, and write if asked to."""
    try:
        machine, state = this_machine(args.device), this_state()
    except ValueError as error:
        print(f"mlxcache machine: {error}", file=sys.stderr)
        return 2
    found = complaints(machine, state) if args.check else state.warnings()
    if args.format == "json":
        print(json.dumps({**machine.as_dict(), "state": asdict(state), "warnings": found}, indent=2))
    elif args.format == "key":
        print(machine.key)
    else:
        print("\n".join(_lines(machine, state)))
    if args.format != "json":
        for warning in found:
            print(f"warning  {warning}", file=sys.stderr if args.format == "key" else sys.stdout)
    if args.write:
        try:
            plain = register(machine)
        except (ValueError, OSError) as error:
            print(f"mlxcache machine: {error}", file=sys.stderr)
            return 2
        how = "asv run" if plain else f"asv run --machine {machine.key}"
        print(f"written  {machine_file()}; `{how}` uses it", file=sys.stderr)
    if args.check and found:
        print("mlxcache machine: this machine is not fit to measure now", file=sys.stderr)
        return 1
    return 0


def _lines(machine: Machine, state: State) -> list[str]:
    kinds = [(machine.performance_cores, "performance"), (machine.efficiency_cores, "efficiency")]
    cores = " and ".join(f"{count} {kind}" for count, kind in kinds if count)
    gpu = [machine.gpu] + [f"{machine.gpu_cores} cores"] * bool(machine.gpu_cores)
    gpu += [f"at most {machine.working_set / GIB:.1f} GiB"] * bool(machine.working_set)
    system = [f"{machine.os} {machine.os_version}", machine.os_build, machine.arch, machine.model, machine.virtual]
    wheel = f", built for {machine.wheel}" if machine.wheel else ""
    told = {name: value for name, value in asdict(state).items() if value is not None and name != "doubts"}
    return [
        f"key      {machine.key}",
        f"system   {', '.join(filter(None, system))}",
        f"chip     {machine.chip}, {machine.cores} cores{f' ({cores})' * bool(cores)}, "
        f"{machine.memory / GIB:.1f} GiB",
        *([f"GPU      {', '.join(gpu)}"] if machine.gpu else []),
        f"MLX      {machine.mlx or 'not installed'}{wheel}, device {machine.device} ({machine.why})",
        "state    " + ", ".join(f"{name} {value}" for name, value in told.items()),
        *(f"unknown  {doubt}" for doubt in state.doubts),
    ]
