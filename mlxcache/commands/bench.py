"""`mlxcache bench`: `asv run`, quietly. What is not listed below goes to asv unchanged.

mlxcache bench                      the newest commit
mlxcache bench main~5..main         a range
mlxcache bench HEAD^! --bench ring  one topic
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from mlxcache.runner.asv_machine import register
from mlxcache.runner.asv_main import CHANGES_VARIABLE
from mlxcache.runner.changes import Changes
from mlxcache.runner.facts import this_machine, this_state
from mlxcache.runner.record import append_record, run_record
from mlxcache.runner.settings import allowed_cpus, quiet_settings
from mlxcache.runner.summary import summarise

PASSES_ARGUMENTS = True


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments; the rest is asv's."""
    parser.add_argument("--config", default="asv.conf.json", help="asv's configuration (default: %(default)s)")
    parser.add_argument(
        "--device",
        choices=("default", "cpu", "gpu"),
        default="default",
        help="MLX's device; cpu on a GPU machine starts series of its own",
    )
    parser.add_argument(
        "--mlx",
        metavar="RELEASES",
        help="MLX releases to measure instead of the configured one, such as 0.28.0,0.30.6,0.32.4",
    )
    parser.add_argument("--cuda", choices=("12", "13"), help="measure MLX's CUDA build (Linux with an NVIDIA GPU)")
    parser.add_argument(
        "--rounds", type=int, help="rounds of every benchmark, interleaved (default: each its own)"
    )
    parser.add_argument("--results", help="keep the results in this folder instead of the configured one")
    parser.add_argument("--no-pin", action="store_true", help="do not pin to one CPU")
    parser.epilog = "All other arguments are handed to `asv run`, for example a range of commits or --bench REGEX."


def run(args: argparse.Namespace, rest: list[str]) -> int:
    """Measure, record the machine's state, print the summary; asv's exit status, or 2 if nothing was measured."""
    config = Path(args.config).resolve()
    if not config.is_file():
        print(
            f"mlxcache bench: --config: no file {config}; run it in a project with asv's configuration",
            file=sys.stderr,
        )
        return 2
    try:
        machine = this_machine(args.device)
        register(machine)
    except (ValueError, OSError) as error:
        print(f"mlxcache bench: {error}", file=sys.stderr)
        return 2
    results = Path(args.results).resolve() if args.results else results_folder(config)
    settings = quiet_settings(machine, rest, None if args.no_pin else allowed_cpus())
    arguments = [*rest, *(word for setting in settings for word in setting.arguments)]
    if args.rounds is not None:
        arguments += ["-a", f"rounds={args.rounds}"]
    device = args.device
    if device == "default":
        # A paravirtual GPU is kept out by name, so that nobody can take its CPU's series for the GPU's.
        device = "cpu" if machine.gpu and machine.device == "cpu" else ""
    changes = Changes(
        device,
        tuple(filter(None, (args.mlx or "").split(","))),
        args.cuda or "",
        str(results) if args.results else "",
    )
    before, known = this_state(), _written(results)
    status = _asv(config, ["run", *arguments], changes)
    after = this_state()
    files = sorted(path for path, stamp in _written(results).items() if known.get(path) != stamp)
    if not files:
        if status == 0 and {"--dry-run", "-n"} & set(rest):
            return 0
        print("mlxcache bench: asv wrote no result; its messages above say why", file=sys.stderr)
        return status or 2
    relative = [str(path.relative_to(results)) for path in files]
    append_record(results / machine.key, run_record(machine, before, after, arguments, status, relative))
    print(summarise(results, files, machine, (before, after)))
    if status:
        print(f"mlxcache bench: asv ended with status {status}; what had finished is kept", file=sys.stderr)
    return status


def results_folder(config: Path) -> Path:
    """Where this configuration keeps its results."""
    import asv.config

    loaded = asv.config.Config.load(str(config))
    return (config.parent / str(loaded.results_dir)).resolve()


def _written(results: Path) -> dict[Path, tuple[int, int]]:
    skip = {"machine.json", "benchmarks.json"}
    paths = (path for path in results.glob("*/*.json") if path.name not in skip)
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}


def _asv(config: Path, arguments: list[str], changes: Changes) -> int:
    environment = {**os.environ, CHANGES_VARIABLE: changes.as_json()}
    command = [sys.executable, "-m", "mlxcache.runner.asv_main", "--config", str(config), *arguments]
    # The child gets Ctrl-C from the terminal too: it saves and ends, and we still report what there is.
    with subprocess.Popen(command, env=environment) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue
