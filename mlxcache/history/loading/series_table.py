"""The history table as the detector needs it: one array a series, with its control beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlxcache.history.loading.by_series import BySeries, by_series, first_places
from mlxcache.history.statistics.control import Control, is_control
from mlxcache.history.statistics.noise import FloatArray

KEY_COLUMNS: Final = ("machine", "env", "benchmark", "params", "version", "unit")
_NEEDED: Final = frozenset({*KEY_COLUMNS, "commit", "value", "status"})
_USED: Final = (*KEY_COLUMNS, "commit", "commit_index", "value", "series")

_ENOUGH_FOR_MEDIAN: Final = 5

ControlTest = Callable[[str], bool]


class Key(NamedTuple):
    """What a series is a series of."""

    machine: str
    env: str
    benchmark: str
    params: str
    version: str
    unit: str


@dataclass(frozen=True, slots=True)
class Task:
    """One series: a value a commit, in commit order.

    `commits` are commit_index; `controls` have their log values at these commits, NaN where they did not run.
    """

    number: int
    key: Key
    commits: npt.NDArray[np.integer[Any]]
    values: FloatArray
    controls: tuple[Control, ...]


def measured(df: pd.DataFrame, also: Collection[str] = ()) -> pd.DataFrame:
    """The rows that hold a number; series numbers and commit order are filled in where the frame has none.

    Of the columns those that a series needs, and of `also` those that are there. Raises ValueError naming the
    columns that are missing.
    """
    _require(df, _NEEDED)
    # Only the columns that are used: the table may have ten million rows.
    columns = [name for name in (*_USED, *also) if name in df.columns]
    if "commit_index" not in columns:
        columns.append("commit_date")
    usable = has_number(df)
    # Column by column, because a frame's own selection makes an index as large as two columns.
    table = pd.DataFrame({name: df[name].array[usable] for name in columns}, copy=False)
    if "series" not in table.columns:
        table = table.assign(series=table.groupby(list(KEY_COLUMNS), observed=True, sort=True).ngroup())
    if "commit_index" not in table.columns:
        dates = pd.to_datetime(table["commit_date"])
        oldest = table.assign(_date=dates).groupby("commit", observed=True)["_date"].min()
        rank = {commit: i for i, commit in enumerate(oldest.sort_values(kind="stable").index)}
        table = table.assign(commit_index=[rank[commit] for commit in table["commit"]])
    return table


def _require(df: pd.DataFrame, columns: Collection[str]) -> None:
    missing = sorted(set(columns) - set(df.columns))
    if missing:
        raise ValueError(f"the table lacks {', '.join(missing)}; expected what mlxcache.history.load returns")


def has_number(df: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which rows hold a number."""
    status = df["status"].array
    if isinstance(status, pd.Categorical):
        fine = np.asarray(status.codes) == (status.categories.get_loc("ok") if "ok" in status.categories else -2)
    else:
        fine = (df["status"] == "ok").to_numpy()
    found: npt.NDArray[np.bool_] = fine & np.isfinite(df["value"].to_numpy(np.float64))
    return found


def lay_out(df: pd.DataFrame) -> BySeries:
    """Where a table that `load` returned has each series; `data` are rows, and those without a number series -1.

    Raises:
        ValueError: a column is missing.
    """
    _require(df, ("series", "commit_index", "value", "status"))
    # Nothing is left out, since each selection of ten million rows costs as much as laying them out.
    return by_series(df["series"].to_numpy(), df["commit_index"].to_numpy(), usable=has_number(df))


def keys_of(df: pd.DataFrame, laid_out: BySeries) -> dict[int, Key]:
    """Series number to key, for the series that have a number."""
    measured_ones = laid_out.numbers >= 0
    first = laid_out.data[laid_out.starts[measured_ones]]
    columns = [df[name].take(first).astype("str").tolist() for name in KEY_COLUMNS]
    numbers = laid_out.numbers[measured_ones].tolist()
    return {number: Key(*values) for number, *values in zip(numbers, *columns, strict=True)}


def commit_names(df: pd.DataFrame) -> dict[int, str]:
    """commit_index to name."""
    indices, first = first_places(df["commit_index"].to_numpy())
    return dict(zip(indices.tolist(), df["commit"].take(first).astype("str"), strict=True))


def series_keys(table: pd.DataFrame) -> dict[int, Key]:
    """Series number to key."""
    numbers, first = first_places(table["series"].to_numpy())
    columns = [table[name].take(first).astype("str").tolist() for name in KEY_COLUMNS]
    return {int(number): Key(*values) for number, *values in zip(numbers, *columns, strict=True)}


def control_test(control: str | None) -> ControlTest:
    """What tells a control, which is no code of the project and never judged, by its benchmark's name.

    A regular expression replaces the rule of `is_control`; "auto", "median" and None leave it, where others are
    divided by what is called so, by the middle of all, or by nothing.

    Raises ValueError for something that is no regular expression.
    """
    if control in (None, "auto", "median"):
        return is_control
    assert control is not None
    try:
        pattern = re.compile(control)
    except re.error as error:
        raise ValueError(f"control: {control!r} is no regular expression: {error}") from None
    return lambda benchmark: pattern.search(benchmark) is not None


@dataclass(frozen=True)
class Controls:
    """For each machine and environment the controls: their names and log values by commit_index."""

    values: Mapping[tuple[str, str], Mapping[str, Mapping[int, float]]]

    def beside(self, key: Key, commits: npt.NDArray[np.integer[Any]]) -> tuple[Control, ...]:
        """What ran beside a series, at its commits; a control has none beside itself."""
        known = self.values.get((key.machine, key.env), {})
        if key.benchmark in known:
            return ()
        return tuple(
            Control(name, np.array([values.get(commit, math.nan) for commit in commits.tolist()]))
            for name, values in known.items()
        )


def find_controls(table: pd.DataFrame, keys: Mapping[int, Key], test: ControlTest) -> Controls:
    """The controls of each machine and environment; of several versions or parameter sets the longest."""
    chosen: dict[tuple[str, str], dict[str, Mapping[int, float]]] = {}
    wanted = [number for number, key in keys.items() if test(key.benchmark)]
    if not wanted:
        return Controls(chosen)
    rows = table.loc[np.isin(table["series"].to_numpy(), wanted) & (table["value"].to_numpy() > 0)]
    for number, group in rows.groupby("series", sort=True):
        medians = group.groupby("commit_index")["value"].median()
        values = {int(c): math.log(v) for c, v in zip(medians.index.tolist(), medians.to_numpy(), strict=True)}
        key = keys[int(str(number))]
        known = chosen.setdefault((key.machine, key.env), {})
        if len(values) > len(known.get(key.benchmark, {})):
            known[key.benchmark] = values
    return Controls(chosen)


def median_controls(table: pd.DataFrame, keys: Mapping[int, Key]) -> Controls:
    """A stand-in where no control ran: what the middle one of a machine's timings did at each commit.

    Each series counts relative to its own median, and a commit needs five of them. A change of the code that
    slows most benchmarks alike disappears in it, so nobody gets it without asking.
    """
    chosen: dict[tuple[str, str], dict[str, Mapping[int, float]]] = {}
    timings = [number for number, key in keys.items() if key.unit == "seconds"]
    rows = table.loc[np.isin(table["series"].to_numpy(), timings) & (table["value"].to_numpy() > 0)]
    logs = pd.DataFrame(
        {
            "series": rows["series"].to_numpy(),
            "commit": rows["commit_index"].to_numpy(np.int64),
            "machine": rows["machine"].astype("str").to_numpy(),
            "env": rows["env"].astype("str").to_numpy(),
            "x": np.log(rows["value"].to_numpy(np.float64)),
        }
    )
    logs["x"] -= logs.groupby("series")["x"].transform("median")
    for (machine, env), group in logs.groupby(["machine", "env"]):
        by_commit = group.groupby("commit")["x"].agg(["median", "size"])
        known = by_commit.loc[by_commit["size"] >= _ENOUGH_FOR_MEDIAN, "median"]
        if len(known):
            name = f"the median of {group['series'].nunique()} benchmarks"
            values = dict(zip(known.index.tolist(), known.tolist(), strict=True))
            chosen[str(machine), str(env)] = {name: values}
    return Controls(chosen)


def as_tasks(table: pd.DataFrame, keys: Mapping[int, Key], controls: Controls) -> list[Task]:
    """Every series of a table that `measured` returned, in the order of their numbers."""
    series, commits = table["series"].to_numpy(), table["commit_index"].to_numpy()
    return tasks_of(by_series(series, commits, table["value"].to_numpy(np.float64)), keys, controls)


def tasks_of(laid_out: BySeries, keys: Mapping[int, Key], controls: Controls) -> list[Task]:
    """Every series that has a key, in the order of their numbers; `data` are values."""
    columns = (laid_out.numbers, laid_out.starts, laid_out.stops, laid_out.repeats)
    tasks = []
    for number, start, stop, repeats in zip(*(column.tolist() for column in columns), strict=True):
        if number not in keys:
            continue
        where, what = laid_out.commits[start:stop], laid_out.data[start:stop]
        if repeats:
            where, what = _one_a_commit(where, what)
        key = keys[number]
        tasks.append(Task(number, key, where, what, controls.beside(key, where)))
    return tasks


def _one_a_commit(
    commits: npt.NDArray[np.integer[Any]], values: FloatArray
) -> tuple[npt.NDArray[np.integer[Any]], FloatArray]:
    """The median where a commit was measured more than once."""
    names, starts = np.unique(commits, return_index=True)
    pieces = np.split(values, starts[1:])
    return names, np.array([float(np.median(piece)) for piece in pieces])
