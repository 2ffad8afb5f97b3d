"""Runs two commits of an asv project in turn; a program of its own, started by `mlxcache.remeasure.rounds`.

Its one argument is a plan in JSON: {"config": "asv.conf.json", "base": "<hash>", ...}, see `measure`.

asv's own `run --interleave-rounds` alternates whole suites and installs anew at each turn, so minutes lie
between the two runs that are compared. Here each commit has an environment of its own, built once by asv's
own code, and one benchmark runs base, head, head, base, ... within seconds; every run is a new process, as
always with asv.

asv promises no API. What is used of it (Config, get_environments, Benchmarks.discover, run_benchmarks) is
what its own commands are made of; all of it is in this file.

Events go to standard output, one JSON object a line; what asv prints goes to standard error.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import time
from pathlib import Path
from typing import Any, TextIO

from asv import environment, util
from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.machine import Machine, MachineCollection
from asv.plugin_manager import plugin_manager
from asv.repo import get_repo
from asv.runner import run_benchmarks

from mlxcache.history.asv.facts import default_unit, stable_params

# Of four samples or more the lower quartile counts: machines have slow modes, and it repeats where the median
# wanders.
_QUARTILE_FROM = 4

Side = tuple[str, str, Any]  # ("base" or "head", commit, environment)


class DriverError(Exception):
    """Something that ends the measuring, with words for the user."""


def _lower_quartile(samples: list[float]) -> float:
    ordered = sorted(samples)
    place = (len(ordered) - 1) / 4.0
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _machine_name() -> str:
    name = Machine.get_unique_machine_name()
    try:
        return str(MachineCollection.load(name)["machine"])
    except util.UserError:
        return str(name)


def _environments(config: Path, folder: str, specs: list[str], variables: dict[str, str]) -> tuple[Any, list[Any]]:
    """The project's environments, below `folder`: base and head have folders of equally long names."""
    conf = Config.load(str(config))
    for plugin in getattr(conf, "plugins", []):
        plugin_manager.import_plugin(plugin)
    for name, value in variables.items():
        conf.matrix.setdefault("env_nobuild", {})[name] = [value]
    _recall(conf, specs)
    conf.env_dir = os.path.join(conf.env_dir, "compare", folder)  # noqa: PTH118, asv wants text
    found = list(environment.get_environments(conf, specs))
    if not found:
        raise DriverError(f"asv found no usable environment in {config}; `asv check` says more")
    if any(not env.can_install_project() for env in found):
        raise DriverError(
            f"{config} asks for an existing interpreter, into which asv cannot install two commits; "
            "set environment_type to virtualenv, uv, conda or rattler, or give --env"
        )
    return conf, found


def _recall(conf: Any, specs: list[str]) -> None:
    """Let the matrix have the variables' values that a stored environment's name ends in.

    A run may have set them to others than the configuration lists, as on a machine whose GPU is not to be used.
    """
    for group in ("env", "env_nobuild"):
        for name in dict(conf.matrix.get(group) or {}):
            told = {m[1] for spec in specs if (m := re.search(rf"(?:^|-){re.escape(name)}([^-]*)", spec))}
            if told:
                conf.matrix[group][name] = sorted(told)


def _install(env: Any, conf: Any, repo: Any, commit: str, side: str) -> None:
    try:
        env.create()
        env.install_project(conf, repo, commit)
    except util.ProcessError as error:
        said = (error.stderr or error.stdout or "").strip().splitlines()
        reason = " / ".join(said[-3:]) or f"exit status {error.retcode}"
        raise DriverError(f"{side} {commit[:10]} cannot be built in {env.name}: {reason}") from error


def _selected(suite: Benchmarks, names: list[str]) -> Benchmarks:
    chosen: Benchmarks = suite.filter_out(set(suite) - set(names))
    return chosen


def _values(result: Any, name: str, benchmark: dict[str, Any]) -> list[tuple[str, float | None, int]]:
    """For each parameter set its name, one value (None.

    Failed, NaN: skipped) and how many samples are behind it.
    """
    params = benchmark["params"]
    labels = [", ".join(choice) for choice in itertools.product(*stable_params(params))]
    values = result.get_result_value(name, params)
    samples = result.get_result_samples(name, params)
    out: list[tuple[str, float | None, int]] = []
    for label, value, taken in zip(labels, values, samples, strict=True):
        numbers = [float(s) for s in taken] if taken else []
        if len(numbers) >= _QUARTILE_FROM:
            out.append((label, _lower_quartile(numbers), len(numbers)))
        else:
            out.append((label, None if value is None else float(value), len(numbers)))
    return out


def _run_once(suite: Benchmarks, name: str, env: Any) -> Any:
    return run_benchmarks(
        _selected(suite, [name]), env, record_samples=True, extra_params={"rounds": 1}, run_rounds=[1]
    )


def measure(plan: dict[str, Any], say: TextIO) -> None:
    """Carry out a plan.

    Config, base, head, rounds, bench (regular expressions), controls (one), environments, variables of
    all of them, seconds (None: any).
    A plan whose seconds are over ends between two benchmarks and says which of them never ran on both commits.
    """
    limit = plan.get("seconds")
    ends = math.inf if limit is None else time.monotonic() + float(limit)

    def event(kind: str, **facts: Any) -> None:
        say.write(json.dumps({"event": kind, **facts}) + "\n")
        say.flush()

    config = Path(plan["config"]).resolve()
    os.chdir(config.parent)
    sides: dict[str, list[Any]] = {}
    for side in ("base", "head"):
        conf, sides[side] = _environments(config, side, plan["environments"], plan.get("variables", {}))
    repo = get_repo(conf)
    repo.pull()
    for base_env, head_env in zip(sides["base"], sides["head"], strict=True):
        event("build", env=head_env.name)
        _install(base_env, conf, repo, plan["base"], "base")
        _install(head_env, conf, repo, plan["head"], "head")
    wanted = list(plan["bench"])
    if wanted and plan["controls"]:
        wanted.append(plan["controls"])
    try:
        suite = Benchmarks.discover(conf, repo, sides["head"], [plan["head"]], regex=wanted)
    except util.UserError as error:
        raise DriverError(f"the benchmark suite cannot be imported: {error}") from error
    if plan["bench"] and not any(
        re.search(pattern, f"{name}({', '.join(choice)})" if benchmark["params"] else name)
        for name, benchmark in suite.items()
        for choice in itertools.product(*benchmark["params"])
        for pattern in plan["bench"]
    ):
        raise DriverError(f"no benchmark matches {' or '.join(plan['bench'])}")
    if not suite:
        raise DriverError(f"{config} has no benchmarks")
    machine = _machine_name()
    pairs = list(zip(sides["base"], sides["head"], strict=True))
    event("start", benchmarks=len(suite), environments=len(pairs), rounds=plan["rounds"])
    dead: set[tuple[str, str]] = set()
    never = dict.fromkeys(itertools.product((head.name for _, head in pairs), sorted(suite)))
    for number in range(plan["rounds"]):
        for (base_env, head_env), name in itertools.product(pairs, sorted(suite)):
            if (head_env.name, name) in dead:
                continue
            if time.monotonic() >= ends:
                event("cut", round=number, never=sorted({name for _, name in never}))
                return
            never.pop((head_env.name, name), None)
            benchmark = suite[name]
            order: list[Side] = [("base", plan["base"], base_env), ("head", plan["head"], head_env)]
            for side, _, env in order if number % 2 == 0 else order[::-1]:
                result = _run_once(suite, name, env)
                values = _values(result, name, benchmark)
                for params, value, samples in values:
                    event(
                        "value",
                        machine=machine,
                        env=env.name,
                        benchmark=name,
                        params=params,
                        version=str(benchmark.get("version") or ""),
                        unit=str(benchmark.get("unit") or default_unit(name)),
                        side=side,
                        round=number,
                        value=value,
                        samples=samples,
                    )
                if all(value is None for _, value, _ in values):
                    said = (result.stderr.get(name) or "").strip().splitlines()
                    event("failed", benchmark=name, env=env.name, side=side, reason=said[-1] if said else "")
                    dead.add((head_env.name, name))
        event("round", number=number)


def main(arguments: list[str]) -> int:
    """Exit status 0, or 2 after an "error" event."""
    # Whatever asv prints to standard output must not get between the events.
    say = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        measure(json.loads(arguments[0]), say)
    except (DriverError, util.UserError) as error:
        say.write(json.dumps({"event": "error", "message": str(error)}) + "\n")
        say.flush()
        return 2
    return 0
