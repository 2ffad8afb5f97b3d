"""Measures two commits of an asv project in turn: base, head, head, base, ..., each run a process of its own.

    rounds = measure("asv.conf.json", base="main", head="HEAD", bench=["pool"], rounds=20)
    compare_rounds(rounds.table, higher_better=rounds.higher_better)

The running is done by `mlxcache.remeasure.asv_driver` in a process of its own; results in the project's own
results folder are not touched.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

from mlxcache.history.comparing.rounds import Rounds
from mlxcache.history.loading.direction import higher_is_better
from mlxcache.history.statistics.control import CONTROL_NAME
from mlxcache.remeasure.driver_process import MeasureError, run_driver
from mlxcache.remeasure.measure_progress import MeasureProgress
from mlxcache.remeasure.project import find_config

__all__ = ["MeasureError", "OverBudgetError", "Rounds", "find_config", "measure", "run_driver"]

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

Say = Callable[[str], None]
# A plan in, events out: what tests put in place of asv.
Driver = Callable[[dict[str, Any]], Iterator[dict[str, Any]]]


class OverBudgetError(MeasureError):
    """The time that was given went by before anything was measured."""


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


def measure(
    config: str | os.PathLike[str],
    base: str,
    head: str,
    *,
    bench: Sequence[str] = (),
    rounds: int = DEFAULT_ROUNDS,
    environments: Sequence[str] = (),
    control: str | None = "auto",
    suite: str = "",
    seconds: float | None = None,
    seed: int = 0,
    variables: Mapping[str, str] | None = None,
    say: Say | None = None,
    driver: Driver = run_driver,
) -> Rounds:
    """Measure two commits in turn.

    Args:
        config: the project's asv.conf.json.
        base, head: full hashes, see `resolve_commit`.
        bench: regular expressions as asv's --bench takes them; none measures everything.
        rounds: how many pairs; each takes every benchmark once on both commits.
        environments: asv environment specifiers; none takes those of the configuration.
        control: "auto" or a regular expression also runs the benchmarks that are controls, None does not.
        suite: the commit whose benchmarks run; "" is head's, "here" what lies in the working tree.
        seconds: measuring ends after so many, between two benchmarks; the builds count, and are not cut short.
        seed: of Python's hashes (PYTHONHASHSEED); each round adds one, and both sides of a pair have the same.
        variables: what the benchmarks get in their environment, where the configuration's matrix has such a
            variable; it becomes part of the environments' names, and an environment that is named has its own.
        say: gets a line of progress now and then.
        driver: what runs the plan; `DriverProcess.run` keeps environments and caches for the next one.

    Raises:
        MeasureError: a commit cannot be built or imported, nothing matches, or there is neither a value nor a
            loss.
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
        "suite": suite,
        "seconds": seconds,
        "seed": seed,
        "variables": dict(variables or {}),
    }
    got = _Events()
    progress = MeasureProgress(say) if say is not None else None
    for event in driver(plan):
        if progress is not None:
            progress.hear(event)
        if event["event"] == "error":
            raise MeasureError(str(event["message"]))
        got.take(event)
    # What head lost is an answer, also where there is no other.
    nothing = not got.rows and not got.lost
    if nothing and got.cut is not None and not got.failures:
        raise OverBudgetError(f"the {(seconds or 0.0) / 60:.0f} minutes went by before anything was measured")
    if nothing:
        why = "; ".join(got.failures) or "every benchmark was skipped"
        raise MeasureError(f"not one value was measured: {why}")
    table = pd.DataFrame(got.rows, columns=list(COLUMNS))
    units = table.drop_duplicates("benchmark").set_index("benchmark")["unit"]
    return Rounds(
        table,
        tuple(got.failures),
        got.lost,
        tuple(dict.fromkeys(got.notices)),
        {
            str(name): higher_is_better(str(unit), got.facts.get(str(name)), str(name))
            for name, unit in units.items()
        },
        tuple({**each, "seed": seed} for each in got.proof),
        got.cut,
    )


class _Events:
    """Collects a driver's events."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.failures: list[str] = []
        self.lost: dict[str, str] = {}
        self.notices: list[str] = []
        self.facts: dict[str, Mapping[str, Any]] = {}
        self.proof: list[dict[str, Any]] = []
        self.cut: tuple[str, ...] | None = None

    def take(self, event: dict[str, Any]) -> None:
        """Keep what has to be kept of one."""
        kind = event["event"]
        if kind == "value":
            value = event["value"]
            if value is not None and math.isfinite(value):
                self.rows.append({name: event[name] for name in COLUMNS})
        elif kind == "failed":
            reason = f": {event['reason']}" if event["reason"] else ""
            name = f"{event['benchmark']}({event['params']})" if event.get("params") else event["benchmark"]
            self.failures.append(f"{name} failed on {event['side']} in {event['env']}{reason}")
        elif kind == "lost":
            self.lost[str(event["name"])] = str(event["reason"])
        elif kind == "notice":
            self.notices.append(str(event["text"]))
        elif kind == "benchmark":
            self.facts[str(event["name"])] = event["facts"]
        elif kind == "proof":
            self.proof.append({name: fact for name, fact in event.items() if name != "event"})
        elif kind == "cut":
            self.cut = tuple(map(str, event["never"]))
