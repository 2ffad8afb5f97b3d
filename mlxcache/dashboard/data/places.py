"""Where and when a question was answered last: the newest commits of each machine and environment.

A run of a part of the suite leaves the rest as new as it is, so one place may show parts of several commits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pandas as pd

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.suite import KEEP_COMMITS, Rows, newest_commits

_MOST_PLACES: Final = 12
_MOST_BENCHMARKS: Final = 2000


@dataclass(frozen=True)
class Shown:
    """Parts of one machine, environment and commit; `is_newest` says that no newer environment of it has any."""

    machine: str
    env: str
    commit: str
    is_newest: bool
    parts: list[Any]


class Make(Protocol):
    """Makes parts; those among the names `known` may be left out."""

    def __call__(self, machine: str, env: str, commit_index: int, /, *, known: Collection[str]) -> list[Any]:
        """The parts of one place and commit."""
        ...


def recent_rows(facts: SiteFacts) -> Rows:
    """The few newest rows of each series, which is all that these pages need."""
    return Rows(facts.store.newest_rows(facts.df, KEEP_COMMITS))


def collect(
    df: pd.DataFrame, facts: SiteFacts, benchmarks: Sequence[str], make: Make, name: Callable[[Any], str]
) -> list[Shown]:
    """What each of the newest places has to show, the most recent first.

    `make` makes the parts of one place and commit; a part is shown from the newest commit that has it.
    """
    if not benchmarks or len(benchmarks) > _MOST_BENCHMARKS:
        return []
    table = df.loc[df["benchmark"].isin(benchmarks).to_numpy() & (df["status"] == "ok").to_numpy()]
    seen = table[["machine", "env", "commit_index"]].drop_duplicates()
    places = newest_commits(seen.astype({"machine": "str", "env": "str"}))
    # Of equally new environments the one with the longest history is what a reader means.
    sizes: dict[str, int] = {}
    for key in facts.store.keys:
        sizes[key.env] = sizes.get(key.env, 0) + 1
    newest = sorted(places.items(), key=lambda item: (-item[1][0], -sizes.get(item[0][1], 0), item[0]))[
        :_MOST_PLACES
    ]
    shown: list[Shown] = []
    machines: set[str] = set()
    for (machine, env), commits in newest:
        seen_here: set[str] = set()
        first = machine not in machines
        for commit in commits:
            parts = {name(part): part for part in make(machine, env, commit, known=frozenset(seen_here))}
            fresh = [part for key, part in parts.items() if key not in seen_here]
            seen_here |= parts.keys()
            if fresh:
                shown.append(Shown(machine, env, facts.commits[commit].name, first, fresh))
                machines.add(machine)
    return shown
