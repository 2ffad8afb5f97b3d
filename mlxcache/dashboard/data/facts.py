"""All that the pages of one site tell of: the table, its series and events, the repository, names.

Made once for a build and handed to every page; nothing else of the site reads the table's additions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from mlxcache.dashboard.data.names import Names
from mlxcache.dashboard.data.quality import Coverage, Noise, coverage, machine_noise
from mlxcache.dashboard.data.repository import Repository
from mlxcache.history.answering.account import Account, account_of
from mlxcache.history.asv.facts import Benchmark
from mlxcache.history.asv.problems import Problems
from mlxcache.history.loading.history import History
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.history.repository.commits import Commit
from mlxcache.reports.events import Event, group_changes


@dataclass(frozen=True, eq=False)
class SiteFacts:
    """What the pages show. `packages` are versions by package and environment, `commits` in their order."""

    df: pd.DataFrame
    changes: pd.DataFrame
    store: SeriesStore
    repository: Repository
    commits: Sequence[Commit]
    benchmarks: Mapping[str, Benchmark]
    packages: Mapping[str, Mapping[str, str]]
    problems: Problems
    notices: Sequence[str]
    names: Names
    account: Account
    retired: frozenset[int]
    events: list[Event]
    title: str
    address: str

    @cached_property
    def noise(self) -> dict[str, Noise]:
        """The noise of each machine."""
        return {machine: machine_noise(self.store, own) for machine, own in self.store.by_machine.items()}

    @cached_property
    def covered(self) -> list[Coverage]:
        """What each machine and environment measured, the most recent first."""
        return coverage(self.df, self.store, self.repository)

    @cached_property
    def by_name(self) -> dict[str, Commit]:
        """The commits by their names."""
        return {commit.name: commit for commit in self.commits}

    @cached_property
    def events_of_series(self) -> dict[int, list[tuple[Event, Any]]]:
        """Events and their rows by the number of the series."""
        found: dict[int, list[tuple[Event, Any]]] = {}
        for event in self.events:
            for row in event.rows:
                found.setdefault(int(row["series"]), []).append((event, row))
        return found


def gather(
    table: History | pd.DataFrame,
    changes: pd.DataFrame,
    *,
    repo: Path | None = None,
    branch: str = "HEAD",
    title: str = "",
    address: str = "",
    notices: Iterable[str] = (),
    machine_names: Mapping[str, str] | None = None,
) -> SiteFacts:
    """The facts of a history and its changes; see `build_site` for the arguments."""
    history = History.of(table)
    df, store, commits, benchmarks = history.frame, history.series, history.commits, history.benchmarks
    repository = Repository(repo, branch, commits)
    account = account_of(history, changes)
    retired = account.retired
    measured = {key.env for key in store.keys}
    packages = {env: own for env, own in _packages(history).items() if env in measured}
    packages |= {env: {} for env in measured - packages.keys()}
    parameters = {name: tuple(getattr(known, "param_names", ())) for name, known in benchmarks.items()}
    chosen = {**_aliases(history), **(machine_names or {})}
    return SiteFacts(
        df=df,
        changes=changes,
        store=store,
        repository=repository,
        commits=sorted(set(commits.values()), key=lambda commit: commit.index),
        benchmarks=benchmarks,
        packages=dict(sorted(packages.items())),
        problems=history.problems,
        notices=[*history.notices, *notices],
        names=Names(store.by_machine, packages, parameters, chosen),
        retired=retired,
        account=account,
        events=group_changes(changes, retired),
        title=title or repository.name or "Benchmarks",
        address=address,
    )


def _packages(history: History) -> dict[str, dict[str, str]]:
    """Packages and their versions by environment, as its results say."""
    found: dict[str, dict[str, str]] = {}
    for source in history.sources.values():
        if source.head.env not in found:
            versions = {
                str(name).removeprefix("pip+"): str(version)
                for name, version in source.head.requirements.items()
                if isinstance(version, str) and version
            }
            if source.head.python:
                versions["python"] = str(source.head.python)
            found[source.head.env] = versions
    return found


def _aliases(history: History) -> dict[str, str]:
    """Names that machines' own machine.json files give as "alias"; one that cannot be read gives none."""
    found: dict[str, str] = {}
    for source in history.sources.values():
        if source.machine in found:
            continue
        found[source.machine] = ""
        try:
            content = json.loads((Path(source.file).parent / "machine.json").read_bytes())
            alias = content.get("alias", "")
        except (OSError, ValueError, AttributeError, RecursionError):
            continue
        if isinstance(alias, str):
            found[source.machine] = alias.strip()[:60]
    return {name: alias for name, alias in found.items() if alias}
