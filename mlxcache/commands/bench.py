"""`mlxcache bench`: `asv run`, quietly. What is not listed below goes to asv unchanged.

mlxcache bench                      the newest commit
mlxcache bench main~5..main         a range
mlxcache bench HEAD^! --bench ring  one topic
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from mlxcache.commands.selecting import needs
from mlxcache.counters.choosing import COUNTERS, NoCounterError, choose, series_name
from mlxcache.history.repository.full_history import require_full_history
from mlxcache.history.repository.revisions import first_parent_line
from mlxcache.runner.asv_machine import register
from mlxcache.runner.asv_main import CHANGES_VARIABLE, SAID_VARIABLE, SHARD_VARIABLE
from mlxcache.runner.changes import Changes, device_for
from mlxcache.runner.collect import collect
from mlxcache.runner.facts import this_machine, this_state
from mlxcache.runner.missing import in_order, with_results
from mlxcache.runner.outcome import Outcome, judge_run, nothing_written
from mlxcache.runner.project import Project
from mlxcache.runner.record import append_record, run_record
from mlxcache.runner.settings import allowed_cpus, quiet_settings
from mlxcache.runner.shards import Shard, Took, known_durations
from mlxcache.runner.summary import summarise
from mlxcache.runner.system.watch import Watch

PASSES_ARGUMENTS = True
# 1 is a regression everywhere, 2 is "it could not be done".
NOT_DONE = 2


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
    parser.add_argument(
        "--shard", metavar="I/N", help="only part I of N of the suite, split by how long benchmarks took before"
    )
    parser.add_argument(
        "--collect", type=Path, metavar="DIR", help="copy what this run wrote to DIR as well, for `mlxcache merge`"
    )
    parser.add_argument(
        "--count",
        action="append",
        metavar="REGEX",
        help="count the instructions of the time_ benchmarks in which this is found, instead of timing anything",
    )
    parser.add_argument(
        "--counter",
        choices=[counter.name for counter in COUNTERS],
        help="what counts them (default: the first that can be used here; `mlxcache doctor` lists them)",
    )
    parser.add_argument(
        "--missing",
        nargs="?",
        const="HEAD",
        metavar="RANGE",
        help="measure, one by one, the first-parent commits that have no results here yet: the ends first, then "
        "the middle of the longest gap; stop it at any time, and the next run goes on",
    )
    parser.add_argument(
        "--touching",
        action="append",
        default=[],
        metavar="PATH",
        help="with --missing: commits that change it only",
    )
    parser.add_argument("--shallow", action="store_true", help="measure in a shallow clone all the same")
    parser.epilog = "All other arguments are handed to `asv run`, for example a range of commits or --bench REGEX."


def run(args: argparse.Namespace, rest: list[str]) -> int:
    """Measure, record the machine's state, print the summary; 2 if nothing was measured or a benchmark failed."""
    try:
        needs(args, "--missing", "--touching")
        needs(args, "--count", "--counter")
        shard = Shard.parse(args.shard) if args.shard else None
        project = Project.load(args.config, args.results)
        if not args.shallow:
            require_full_history(project.repo)
        counter = choose(args.counter) if args.count else None
        machine = this_machine(args.device)
        register(machine)
        if args.missing is not None:
            return _missing(args, rest, project, machine.key, series_name(counter) if counter else "")
    except NoCounterError as error:
        print(f"mlxcache bench: skipped, nothing was counted: {error}", file=sys.stderr)
        return NOT_DONE
    except (ValueError, OSError) as error:
        print(f"mlxcache bench: {error}", file=sys.stderr)
        return NOT_DONE
    results = project.results
    settings = quiet_settings(machine, rest, None if args.no_pin else allowed_cpus())
    arguments = [*rest, *(word for setting in settings for word in setting.arguments)]
    if args.rounds is not None:
        arguments += ["-a", f"rounds={args.rounds}"]
    changes = Changes(
        device_for(machine, args.device),
        tuple(filter(None, (args.mlx or "").split(","))),
        args.cuda or "",
        str(results) if args.results else "",
        counter.name if counter else "",
        tuple(args.count or ()),
    )
    durations = known_durations(results, machine.key) if shard else []
    before, known, since = this_state(), _written(results), time.time() * 1000
    with Watch(machine.os, machine.virtual) as watch:
        status, said = _asv(project.config, ["run", *arguments], changes, shard, durations)
    after = this_state()
    for doubt in dict.fromkeys([*before.doubts, *watch.doubts, *after.doubts]):
        print(f"mlxcache bench: {doubt}", file=sys.stderr)
    files = sorted(path for path, stamp in _written(results).items() if known.get(path) != stamp)
    if not files:
        if status == 0 and {"--dry-run", "-n"} & set(rest):
            return 0
        if status == 0 and any(word.startswith("--skip-existing") for word in rest):
            print("mlxcache bench: everything was measured already", file=sys.stderr)
            return 0
        return _told(nothing_written(said, shard), status)
    try:
        relative = [str(path.relative_to(results)) for path in files]
        append_record(
            results / machine.key, run_record(machine, before, after, watch.worst, arguments, status, relative)
        )
        if args.collect:
            collect(results, files, args.collect)
        print(summarise(results, files, machine, before, watch.worst))
    except OSError as error:  # such as a full disk: what asv wrote is whole
        print(f"mlxcache bench: {error}; the results of this run are complete in {results}", file=sys.stderr)
        return NOT_DONE
    if status:
        print(f"mlxcache bench: asv ended with status {status}; what had finished is kept", file=sys.stderr)
    return _told(judge_run(results, files, since), status)


def _missing(args: argparse.Namespace, rest: list[str], project: Project, machine: str, counter: str) -> int:
    """One run a commit, complete on disk when it ends; a commit that fails does not stop the next."""
    line = first_parent_line(project.repo, args.missing, touching=args.touching)
    wanted = in_order(line, with_results(project.results / machine, counter))
    each = argparse.Namespace(**{**vars(args), "missing": None, "touching": []})
    worst = 0
    for number, commit in enumerate(wanted, 1):
        print(f"mlxcache bench: missing commit {number} of {len(wanted)}: {commit[:10]}", file=sys.stderr)
        status = run(each, [f"{commit}^!", *rest])
        if status > 2 or status < 0:  # stopped
            return status
        worst = max(worst, status)
    if not wanted:
        print(f"mlxcache bench: nothing is missing of {len(line)} commits", file=sys.stderr)
    return worst


def _told(outcome: Outcome, status: int) -> int:
    """Say what was wrong; 0 only if something was measured and nothing failed."""
    for line in outcome.problems:
        print(f"mlxcache bench: {line}", file=sys.stderr)
    for line in outcome.notes:
        print(f"mlxcache bench: note: {line}", file=sys.stderr)
    if status > 2 or status < 0:  # a signal or an interruption is worth telling from a failure
        return status
    # asv's 1 means "could not", which is 2 here: 1 is a regression.
    return NOT_DONE if outcome.problems or status else 0


def _written(results: Path) -> dict[Path, tuple[int, int]]:
    skip = {"machine.json", "benchmarks.json"}
    paths = (path for path in results.glob("*/*.json") if path.name not in skip)
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}


def _asv(
    config: Path, arguments: list[str], changes: Changes, shard: Shard | None, durations: list[Took]
) -> tuple[int, list[str]]:
    """Run asv; its exit status and its warnings and errors."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        environment = {
            **os.environ,
            CHANGES_VARIABLE: changes.as_json(),
            SAID_VARIABLE: str(said),
        }
        if shard is not None:
            plan = Path(folder) / "shard.json"
            took = [(each.benchmark, each.commit, each.seconds, each.own) for each in durations]
            facts = {"shard": f"{shard.index}/{shard.count}", "durations": took}
            plan.write_text(json.dumps(facts), encoding="utf-8")
            environment[SHARD_VARIABLE] = str(plan)
        command = [sys.executable, "-m", "mlxcache.runner.asv_main", "--config", str(config), *arguments]
        # In a session of its own the child hears of signals from us alone, once each: it saves and ends, and we
        # still report what there is.
        with subprocess.Popen(command, env=environment, start_new_session=True) as process:
            stopped: list[int] = []

            def stop(number: int, frame: FrameType | None) -> None:
                stopped.append(number)
                process.send_signal(number)

            before = {
                number: signal.signal(number, stop)
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
                if signal.getsignal(number) is not signal.SIG_IGN
            }
            try:
                status = process.wait()
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)
        lines = said.read_text(encoding="utf-8").splitlines() if said.exists() else []
    # asv does not always tell that it was stopped, and who measures many commits must know.
    return 128 + stopped[0] if stopped else status, [json.loads(line) for line in lines]
