"""A history of results: the table, and all that is known of it beside the values.

    history = read("results", repo=".")
    history.frame                     # the table, as `load` returns it
    history.commits["4f2c..."].subject
    change_points(history)

`load` returns the table alone, which carries the facts along through selections, copies and pickle
(`ResultsFrame.facts`), so that `History.of(table)` is a history again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final

import pandas as pd

from mlxcache.history.asv.columns import Head
from mlxcache.history.asv.facts import Benchmark
from mlxcache.history.asv.problems import Problems
from mlxcache.history.loading.by_series import BySeries
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.history.loading.series_table import lay_out
from mlxcache.history.repository.commits import Commit


@dataclass(frozen=True, slots=True)
class Source:
    """One results file of the table, by the path that the column `file` has."""

    file: str
    machine: str  # as the table has it, rules applied
    host: str  # as the results have it
    head: Head  # environment, python, requirements, env_vars, durations, what the file says of the machine


@dataclass(frozen=True)
class Facts:
    """What results say beside the values, each by its name in the table.

    `machines` have "hosts" and the fields of machine.json; `problems` are what could not be used, `notices`
    what to know of the table as a whole, such as how commits are ordered; `repo` is where the project's
    repository is, as it was given.
    """

    commits: Mapping[str, Commit] = field(default_factory=dict)
    machines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    benchmarks: Mapping[str, Benchmark] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    problems: Problems = field(default_factory=Problems)
    notices: tuple[str, ...] = ()
    repo: str | None = None


# What a narrow terminal shows of a table; all else is often the same in every row.
_SHOWN: Final = ("benchmark", "params", "value", "unit", "commit")


class ResultsFrame(pd.DataFrame):
    """A results table; pandas hands `facts` on to every selection and copy."""

    _metadata: ClassVar[list[str]] = ["facts"]
    facts: Facts | None

    @property
    def _constructor(self) -> type[ResultsFrame]:
        return ResultsFrame

    def __repr__(self) -> str:
        if not set(_SHOWN) <= set(self.columns) or self.empty:
            return super().__repr__()
        plain = pd.DataFrame(self)[list(_SHOWN)].assign(commit=self["commit"].astype("str").str[:8])
        rows = {name: pd.get_option(f"display.{name}") for name in ("max_rows", "min_rows")}
        told = f"[{len(self)} rows x {len(self.columns)} columns; `.columns` has the others' names]"
        return f"{plain.to_string(**rows, max_colwidth=26)}\n\n{told}"

    def groupby(self, *args: Any, dropna: bool = False, **kwargs: Any) -> Any:
        """pandas' groupby, which here keeps the rows of benchmarks that lack a parameter (`dropna=False`)."""
        return super().groupby(*args, dropna=dropna, **kwargs)


def facts_of(table: pd.DataFrame) -> Facts:
    """What is known of a table; of one that somebody made by hand nothing."""
    facts = getattr(table, "facts", None)
    return facts if isinstance(facts, Facts) else Facts()


class History:
    """A table of results, what is known of it, and what is worked out from it once."""

    def __init__(self, frame: pd.DataFrame, facts: Facts) -> None:
        self.frame = frame
        self.facts = facts

    @classmethod
    def of(cls, table: History | pd.DataFrame) -> History:
        """The history of a table that `load` returned, or of a part of one; a history is its own."""
        return table if isinstance(table, History) else cls(table, facts_of(table))

    @property
    def commits(self) -> Mapping[str, Commit]:
        """Name to commit, oldest first."""
        return self.facts.commits

    @property
    def machines(self) -> Mapping[str, Mapping[str, Any]]:
        """Name to the fields of machine.json and "hosts"."""
        return self.facts.machines

    @property
    def benchmarks(self) -> Mapping[str, Benchmark]:
        """Name to what benchmarks.json says."""
        return self.facts.benchmarks

    @property
    def sources(self) -> Mapping[str, Source]:
        """Path to what a results file says of itself."""
        return self.facts.sources

    @property
    def problems(self) -> Problems:
        """What could not be used, and why."""
        return self.facts.problems

    @property
    def notices(self) -> tuple[str, ...]:
        """What to know of the table as a whole."""
        return self.facts.notices

    @cached_property
    def layout(self) -> BySeries:
        """Which rows each series has."""
        return lay_out(self.frame)

    @cached_property
    def series(self) -> SeriesStore:
        """All series as arrays that lie one behind the other."""
        return SeriesStore(self.frame, self.layout)
