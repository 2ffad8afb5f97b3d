"""Releases of a package against each other, at one commit of ours: what differs between them is not our doing.

A package counts as having releases where several versions of it were measured. For each machine the commit is the
newest one that was measured on most of them; a release without a value there is left out, never filled from
another commit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.ratios import run_to_run
from mlxcache.support.releases import release_key

_LEAST: Final = 2
_FIRST: Final = "mlx"  # the package that is asked about most
_MOST_PACKAGES: Final = 3


@dataclass(frozen=True, slots=True)
class Mean:
    """A geometric mean over the oldest release's values; the ends hold 99 % of what another run would find."""

    ratio: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Releases:
    """One package on one machine. `rows` are benchmarks with a mean for each release (None: not measured).

    `others` are packages that differ between the environments as well, with their versions by release.
    """

    package: str
    machine: str
    commit: int
    versions: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Mean | None, ...]], ...]
    overall: tuple[Mean, ...]
    others: Mapping[str, Sequence[str]]
    missing: tuple[str, ...]


def released(facts: SiteFacts) -> list[str]:
    """Packages of which several versions were measured, the one that is asked about first."""
    versions: dict[str, set[str]] = {}
    for own in facts.packages.values():
        for package, version in own.items():
            versions.setdefault(package, set()).add(version)
    found = [package for package, own in versions.items() if len(own) >= _LEAST]
    return sorted(found, key=lambda p: (p != _FIRST, p == "python", -len(versions[p]), p))


def compare_releases(facts: SiteFacts) -> list[Releases]:
    """All packages and machines that have releases to compare."""
    found = []
    seen: set[tuple[str, int, frozenset[str]]] = set()
    for package in released(facts)[:_MOST_PACKAGES]:
        for machine in facts.store.by_machine:
            one = _of_machine(facts, package, machine)
            if one is None:
                continue
            # mlx-lm that came with one release of mlx is the same comparison under another name.
            envs = frozenset(env for env, own in facts.packages.items() if own.get(package) in one.versions)
            if (machine, one.commit, envs) not in seen:
                seen.add((machine, one.commit, envs))
                found.append(one)
    return found


def _of_machine(facts: SiteFacts, package: str, machine: str) -> Releases | None:
    store = facts.store
    by_commit: dict[int, dict[str, list[int]]] = {}
    for position in store.by_machine[machine]:
        version = facts.packages.get(store.keys[position].env, {}).get(package)
        if version:
            for commit in store.series(position).commits.tolist():
                by_commit.setdefault(commit, {}).setdefault(version, []).append(position)
    if not by_commit:
        return None
    # The newest commit among those with the most releases.
    commit = max(by_commit, key=lambda index: (len(by_commit[index]), index))
    here = by_commit[commit]
    every = {version for own in by_commit.values() for version in own}
    if len(here) < _LEAST:
        return None
    versions = tuple(sorted(here, key=release_key))
    values: dict[str, dict[tuple[str, str], float]] = {version: {} for version in versions}
    environments: dict[str, str] = {}
    for version in versions:
        # Of several environments with this version, the one with the most series.
        sizes: dict[str, int] = {}
        for position in here[version]:
            sizes[store.keys[position].env] = sizes.get(store.keys[position].env, 0) + 1
        env = max(sizes, key=lambda name: (sizes[name], name))
        environments[version] = env
        for position in here[version]:
            key = store.keys[position]
            series = store.series(position)
            value = float(series.values[int(np.searchsorted(series.commits, commit))])
            if key.env == env and value > 0 and key.unit != "ratio":
                values[version][key.benchmark, key.params] = math.log(value)
    base = versions[0]
    spread = _spread(facts, machine)
    rows = []
    benchmarks = sorted({name for name, _ in values[base]})
    for benchmark in benchmarks:
        own = max(spread, _spread(facts, machine, benchmark))
        means = [
            _mean([values[v][k] - values[base][k] for k in values[base] if k[0] == benchmark and k in values[v]],
                  own if v != base else math.nan)
            for v in versions
        ]  # fmt: skip
        if sum(mean is not None for mean in means) > 1:
            rows.append((benchmark, tuple(means)))
    if not rows:
        return None
    shared = [k for k in values[base] if all(k in values[v] for v in versions)]
    overall = [
        _mean([values[v][k] - values[base][k] for k in shared], spread if v != base else math.nan)
        for v in versions
    ]
    if any(mean is None for mean in overall):
        return None
    return Releases(
        package, machine, commit, versions, tuple(rows), tuple(mean for mean in overall if mean is not None),
        _others(facts, package, [environments[v] for v in versions]),
        tuple(sorted(every - set(versions), key=release_key)),
    )  # fmt: skip


def _mean(logs: Sequence[float], spread: float) -> Mean | None:
    """Of so many ratios; runs differ in common, so that more benchmarks make the interval no narrower."""
    if not logs:
        return None
    middle = float(np.mean(logs))
    return Mean(math.exp(middle), math.exp(middle - spread), math.exp(middle + spread), len(logs))


def _spread(facts: SiteFacts, machine: str, benchmark: str = "") -> float:
    """Half of the interval by which geometric means of whole runs, or of one benchmark, differ on this machine."""
    sums: dict[str, dict[int, list[tuple[int, float]]]] = {}
    store = facts.store
    for position in store.by_machine[machine]:
        key = store.keys[position]
        if benchmark and key.benchmark != benchmark:
            continue
        series = store.series(position)
        if key.unit == "ratio" or len(series.values) < 2 or not bool((series.values > 0).all()):
            continue
        for commit, value in zip(series.commits.tolist(), np.log(series.values).tolist(), strict=True):
            sums.setdefault(key.env, {}).setdefault(commit, []).append((position, value))
    histories = []
    for by_commit in sums.values():
        commits = sorted(by_commit)
        level = 0.0
        history = {commits[0]: 0.0}
        for before, after in itertools.pairwise(commits):
            old = dict(by_commit[before])
            steps = [value - old[position] for position, value in by_commit[after] if position in old]
            if steps:
                level += float(np.median(steps))  # what we changed ourselves moves few of them
                history[after] = level
        histories.append(history)
    return run_to_run(histories)


def _others(facts: SiteFacts, package: str, envs: Sequence[str]) -> dict[str, list[str]]:
    names = sorted({name for env in envs for name in facts.packages.get(env, {})} - {package})
    found = {name: [facts.packages[env].get(name, "none") for env in envs] for name in names}
    return {name: versions for name, versions in found.items() if len(set(versions)) > 1}
