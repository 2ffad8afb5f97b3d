"""All series of a table as arrays that lie one behind the other, which is how pages want them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlxcache.history.loading.by_series import BySeries, in_order_of
from mlxcache.history.loading.series_table import KEY_COLUMNS, lay_out
from mlxcache.support.names import digest, series_name

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Key:
    """What a series is a series of, its number in the table and its permanent name."""

    number: int
    id: str
    machine: str
    env: str
    benchmark: str
    params: str
    version: str
    unit: str

    @property
    def label(self) -> str:
        """Benchmark and parameters as a call."""
        return series_name(self.benchmark, self.params)


@dataclass(frozen=True, slots=True)
class Series:
    """One series' measured values in commit order, one a commit."""

    key: Key
    commits: Indices
    values: Floats
    low: Floats
    high: Floats


class SeriesStore:
    """Every series of a table that has a value.

    Series i has the rows from starts[i] to stops[i] of `commits` (commit_index, ascending in each series);
    repeats[i] says that a commit is among them more than once. `laid_out` is `series_table.lay_out(df)`, where
    somebody has it already.
    """

    def __init__(self, df: pd.DataFrame, laid_out: BySeries | None = None) -> None:
        self._value = df["value"].to_numpy(np.float64)
        self._low = df["ci99_low"].to_numpy(np.float64)
        self._high = df["ci99_high"].to_numpy(np.float64)
        rows = lay_out(df) if laid_out is None else laid_out
        measured = rows.numbers >= 0
        self.commits, self._rows = rows.commits, rows.data
        self.starts, self.stops, self.repeats = rows.starts[measured], rows.stops[measured], rows.repeats[measured]
        self.keys = _keys(df, self._rows[self.starts], rows.numbers[measured])
        self.n_commits = int(df["commit_index"].max()) + 1 if len(df) else 0
        self._at = {key.number: i for i, key in enumerate(self.keys)}

    def __len__(self) -> int:
        return len(self.keys)

    def position(self, number: int) -> int:
        """The place of the series with this number of the table."""
        return self._at[number]

    def series(self, position: int) -> Series:
        """One series; where a commit was measured more than once, its median."""
        part = slice(int(self.starts[position]), int(self.stops[position]))
        commits, rows = self.commits[part].astype(np.int64), self._rows[part]
        values, low, high = self._value[rows], self._low[rows], self._high[rows]
        if self.repeats[position]:
            names, first = np.unique(commits, return_index=True)
            values = np.array([np.median(piece) for piece in np.split(values, first[1:])])
            commits, low, high = names, low[first], high[first]
        return Series(self.keys[position], commits, values, low, high)

    def longest(self, positions: Sequence[int]) -> int:
        """The first of those of these series that have the most rows."""
        return max(positions, key=lambda p: (int(self.stops[p] - self.starts[p]), -p))

    def newest_value(self, position: int) -> float:
        """The last of a series' values."""
        return float(self._value[self._rows[self.stops[position] - 1]])

    def lay_out(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A column of the table as `commits` lies: series i from starts[i] to stops[i]."""
        return in_order_of(self._rows, column)

    def newest_rows(self, df: pd.DataFrame, most: int) -> pd.DataFrame:
        """The rows of the table that hold each series' newest values, `most` of each at most."""
        firsts = np.maximum(self.starts, self.stops - most)
        return self._take(df, [self._rows[a:b] for a, b in zip(firsts, self.stops, strict=True)])

    def rows(self, df: pd.DataFrame, positions: Sequence[int]) -> pd.DataFrame:
        """The rows of the table that hold these series."""
        return self._take(df, [self._rows[self.starts[p] : self.stops[p]] for p in positions])

    def _take(self, df: pd.DataFrame, parts: list[Indices]) -> pd.DataFrame:
        return df.take(np.sort(np.concatenate(parts)).astype(np.int64) if parts else np.zeros(0, np.int64))

    @cached_property
    def by_benchmark(self) -> dict[str, list[int]]:
        """Positions of the series of each benchmark, by name."""
        return self._positions_by(lambda key: key.benchmark)

    @cached_property
    def by_machine(self) -> dict[str, list[int]]:
        """Positions of the series of each machine, by name."""
        return self._positions_by(lambda key: key.machine)

    def _positions_by(self, name: Callable[[Key], str]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for position, key in enumerate(self.keys):
            found.setdefault(name(key), []).append(position)
        return dict(sorted(found.items()))


def _keys(df: pd.DataFrame, rows: Indices, numbers: npt.NDArray[np.integer]) -> list[Key]:
    columns = [df[name].take(rows).astype("str").tolist() for name in KEY_COLUMNS]
    keys = []
    for number, *texts in zip(numbers.tolist(), *columns, strict=True):
        machine, env, benchmark, params, version, unit = texts
        name = digest(machine, env, benchmark, params, version)
        keys.append(Key(number, name, machine, env, benchmark, params, version, unit))
    return keys
