"""Which commits of a branch have results, machine by machine, and which still need measuring.

    line = first_parent_line(".", "main", newest=50)
    for machine in coverage(load("results", repo="."), line): print(machine.machine, len(machine.missing))

A commit is measured when the suite ran there, also where all of it skipped itself: an old commit that lacks
what is measured will lack it tomorrow too. One where everything failed is told apart, since a second try may
help; one whose neighbours both have a benchmark that it lacks was measured in part (a shard's runner died).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from mlxcache.history.statistics.control import is_control

_FAILED: Final = "failed"


@dataclass(frozen=True)
class Coverage:
    """One machine's commits, each list in the order of the line, oldest first.

    partial and failed ones are not in `measured`; `missing` are those without any result.
    """

    machine: str
    measured: tuple[str, ...]
    partial: tuple[str, ...]
    failed: tuple[str, ...]
    missing: tuple[str, ...]

    def to_measure(self, *, retry_failed: bool = False) -> tuple[str, ...]:
        """What a runner of this machine should measure."""
        return (*self.missing, *self.partial, *(self.failed if retry_failed else ()))


def coverage(df: pd.DataFrame, line: Sequence[str]) -> list[Coverage]:
    """What each machine of the table has of these commits, in the order of the machines' names."""
    suites = _suites(df[df["commit"].isin(set(line))])
    machines = sorted(set(df["machine"].astype("str")))
    return [_of_machine(machine, suites.get(machine, {}), line) for machine in machines]


def _suites(df: pd.DataFrame) -> dict[str, dict[str, dict[str, bool]]]:
    """By machine, commit and benchmark: whether it did anything else than fail."""
    found: dict[str, dict[str, dict[str, bool]]] = {}
    names = df["benchmark"].astype("category")
    controls = {name for name in names.cat.categories if is_control(str(name))}
    rows = df.assign(_fine=(df["status"] != _FAILED).to_numpy(np.bool_))
    rows = rows[~names.isin(controls).to_numpy()]
    grouped = rows.groupby(["machine", "commit", "benchmark"], observed=True)["_fine"].any().reset_index()
    for machine, commit, benchmark, fine in grouped.itertuples(index=False, name=None):
        found.setdefault(str(machine), {}).setdefault(str(commit), {})[str(benchmark)] = bool(fine)
    return found


def _of_machine(machine: str, suites: dict[str, dict[str, bool]], line: Sequence[str]) -> Coverage:
    there = [commit for commit in line if commit in suites]
    failed = [commit for commit in there if not any(suites[commit].values())]
    partial = []
    for place, commit in enumerate(there):
        before = set(suites[there[place - 1]]) if place else None
        after = set(suites[there[place + 1]]) if place + 1 < len(there) else before
        # At either end there is one neighbour only; a benchmark that was removed since is no gap.
        both = (before if before is not None else after or set()) & (after or set())
        if both - set(suites[commit]) and commit not in failed:
            partial.append(commit)
    aside = {*failed, *partial}
    return Coverage(
        machine,
        tuple(commit for commit in there if commit not in aside),
        tuple(partial),
        tuple(failed),
        tuple(commit for commit in line if commit not in suites),
    )
