"""Measures two commits of an asv project in turn: base, head, head, base, ..., each run a process of its own.

    rounds = measure("asv.conf.json", base="main", head="HEAD", bench=["pool"], rounds=20)
    compare_rounds(rounds)

The running is done by `mlxcache.remeasure.asv_driver` in a process of its own; results in the project's own
results folder are not touched.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pandas as pd

from mlxcache.history.statistics.control import CONTROL_NAME
from mlxcache.history.statistics.noise import FloatArray

COLUMNS: Final = (
    "machine",
    "env",
    "benchmark",
    "params",
    "version",
    "unit",
    "round",
    "side",
    "value",
    "samples",
)
DEFAULT_ROUNDS: Final = 20

# The driver has to find this very package, also from the project's folder, and what it starts must not: those
# environments hold the commit that is measured. So no PYTHONPATH, which they would inherit.
_START: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from mlxcache.remeasure.asv_driver import main; sys.exit(main(sys.argv[2:]))"
)

Say = Callable[[str], None]
# A plan in, events out: what tests put in place of asv.
Driver = Callable[[dict[str, Any]], Iterator[dict[str, Any]]]


class MeasureError(RuntimeError):
    """Nothing could be measured; the message says why."""


class OverBudgetError(MeasureError):
    """The time that was given went by before anything was measured."""


def find_config(start: str | os.PathLike[str] = ".") -> Path:
    """The asv configuration in `start` or `start`/benchmarks, or `start` itself if it is a file.

    Raises MeasureError if there is none.
    """
    root = Path(start)
    for path in (
        root,
        root / "asv.conf.json",
        root / "asv.conf.jsonc",
        root / "benchmarks" / "asv.conf.json",
    ):
        if path.is_file():
            return path.resolve()
    raise MeasureError(f"no asv.conf.json in {root.resolve()}; go to the project or give --config")


def both_sides(rows: pd.DataFrame) -> tuple[FloatArray, FloatArray] | None:
    """Base and head of one series' rounds, pair by pair; None where one of the two gave no value at all."""
    wide = rows.pivot_table(index="round", columns="side", values="value", aggfunc="median")
    if not {"base", "head"} <= set(wide.columns):
        return None
    complete = wide[["base", "head"]].dropna()
    return complete["base"].to_numpy(np.float64), complete["head"].to_numpy(np.float64)


def this_machine() -> str:
    """This machine's name as asv would record it: from ~/.asv-machine.json, else the host's."""
    host = platform.node()
    try:
        known = json.loads((Path.home() / ".asv-machine.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return host
    names = [name for name, facts in known.items() if isinstance(facts, dict)]
    name = host if host in names or len(names) != 1 else names[0]
    return str(known[name].get("machine", name)) if name in names else host


def run_driver(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Run the driver and yield its events. Raises MeasureError if it dies without a word."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, str(Path(__file__).resolve().parents[2]), json.dumps(plan)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                yield json.loads(line)
        except BaseException:
            process.terminate()
            raise
        finally:
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if process.returncode not in (0, 2):
            raise MeasureError(f"measuring ended with status {process.returncode}: {_tail(log)}")


def _tail(log: IO[str]) -> str:
    log.seek(0)
    lines = [line.strip() for line in log.read().splitlines() if line.strip()]
    return " / ".join(lines[-3:]) or "no message"


def measure(
    config: str | os.PathLike[str],
    base: str,
    head: str,
    *,
    bench: Sequence[str] = (),
    rounds: int = DEFAULT_ROUNDS,
    environments: Sequence[str] = (),
    control: str | None = "auto",
    seconds: float | None = None,
    variables: Mapping[str, str] | None = None,
    say: Say | None = None,
    driver: Driver = run_driver,
) -> pd.DataFrame:
    """Measure two commits in turn.

    Args:
        config: the project's asv.conf.json.
        base, head: full hashes, see `resolve_commit`.
        bench: regular expressions as asv's --bench takes them; none measures everything.
        rounds: how many pairs; each takes every benchmark once on both commits.
        environments: asv environment specifiers; none takes those of the configuration.
        control: "auto" or a regular expression also runs the benchmarks that are controls, None does not.
        seconds: measuring ends after so many, between two benchmarks; the builds count, and are not cut short.
        variables: what the benchmarks get in their environment, as a run of the suite on this machine sets them;
        they
            become part of the environments' names, and an environment that is named has its own.
        say: gets a line of progress now and then.
        driver: what runs the plan.

    Returns:
        One row for each value: machine, env, benchmark, params, version, unit, round, side ("base" or
        "head"), value (in `unit`; the lower quartile of four samples or more, else asv's own value; one
        process each) and samples (their number). Failed and skipped ones are left out; `attrs["failures"]`
        says which benchmark failed, where and why; `attrs["cut"]` is None, or what `seconds` left out: the names
        of the benchmarks that never ran.

    Raises:
        MeasureError: a commit cannot be built, nothing matches, or not one value came out.
        OverBudgetError: nothing came out within `seconds`.
        ValueError: fewer than one round.
    """
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}; expected 1 or more")
    plan = {
        "config": str(Path(config).resolve()),
        "base": base,
        "head": head,
        "bench": list(bench),
        "rounds": rounds,
        "environments": list(environments),
        "controls": CONTROL_NAME.pattern if control == "auto" else control,
        "seconds": seconds,
        "variables": dict(variables or {}),
    }
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    cut: tuple[str, ...] | None = None
    started = time.monotonic()
    for event in driver(plan):
        kind = event.get("event")
        if kind == "error":
            raise MeasureError(str(event["message"]))
        if kind == "value":
            value = event["value"]
            if value is not None and math.isfinite(value):
                rows.append({name: event[name] for name in COLUMNS})
        elif kind == "failed":
            reason = f": {event['reason']}" if event["reason"] else ""
            failures.append(f"{event['benchmark']} failed on {event['side']} in {event['env']}{reason}")
        elif kind == "cut":
            cut = tuple(map(str, event["never"]))
        elif say is not None:
            _report(say, event, rounds, started)
    if not rows and cut is not None and not failures:
        raise OverBudgetError(f"the {(seconds or 0.0) / 60:.0f} minutes went by before anything was measured")
    if not rows:
        why = "; ".join(failures) or "every benchmark was skipped"
        raise MeasureError(f"not one value was measured: {why}")
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame.attrs["failures"] = dict(enumerate(failures))
    frame.attrs["cut"] = None if cut is None else dict(enumerate(cut))
    return frame


def _report(say: Say, event: dict[str, Any], rounds: int, started: float) -> None:
    kind = event.get("event")
    if kind == "build":
        say(f"building both commits for {event['env']}")
    elif kind == "start":
        say(f"measuring {event['benchmarks']} benchmarks in {rounds} rounds, base and head in turn")
    elif kind == "round":
        done = event["number"] + 1
        left = (time.monotonic() - started) / done * (rounds - done)
        say(
            f"round {done} of {rounds} done, about {left / 60:.0f} min left"
            if left > 90
            else f"round {done} of {rounds} done"
        )
