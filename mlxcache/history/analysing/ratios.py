"""Ratios of two sets of series that are alike but for one thing, with intervals from run to run.

    ratio(df, "param_path", "int64", "int32")                        # each pair
    ratio(df, "param_path", "int64", "int32", by=["machine"])         # geometric means
    ratio(df, "benchmark", "peers.Ours.time_step", "peers.Theirs.time_step")

What two values of one run say of the next run is only known from other runs, so the interval is made from how
much the ratio itself moved from one commit to the next (the median of successive differences, which one change
of the code does not move). Where there is one run, there is no interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from mlxcache.history.loading.history import History
from mlxcache.history.loading.series_table import has_number
from mlxcache.history.statistics.noise import FloatArray

_PLACE: Final = ("machine", "env", "benchmark", "version")
# Differences behind an interval below which it would say more than it knows.
_LEAST_DIFFERENCES: Final = 2
COLUMNS: Final = ("commit", "ratio", "ci95_low", "ci95_high", "runs", "pairs", "spread", "note")


def ratio(
    table: History | pd.DataFrame,
    column: str,
    of: object,
    over: object,
    *,
    by: Sequence[str] | None = None,
    commit: str | None = None,
) -> pd.DataFrame:
    """The value where `column` is `of` over the value where it is `over`, all else being equal.

    Args:
        table: what `read` or `load` returned, or a selection of it.
        column: what the two sets differ in: a parameter ("param_path"), "benchmark", "env", "machine" or a
            package ("req_mlx"; the environments then differ with it).
        of, over: values of the column, as the table has them.
        by: columns to group by: a row is then the geometric mean of a group's ratios, over the pairs that its
            newest commit has. None: a row for each pair of series.
        commit: the commit to report (full hash); None takes each row's newest.

    Returns:
        One row a pair, or a group: the columns that tell them apart, then

        commit                 whose ratio it is
        ratio                  of over over; 1.05: 5 % more
        ci95_low, ci95_high    where the next run's ratio lies with 95 %, from the spread from run to run of this
                               row's ratio; NaN where too few commits have it
        runs                   commits that have it
        pairs                  pairs of series behind it
        spread                 standard deviation of the logarithm from run to run; NaN if unknown
        note                   why there is no interval, or ""

    Raises:
        ValueError: a column is missing, a value does not occur, or nothing can be paired.
    """
    history = History.of(table)
    frame = history.frame
    names = [name for name in frame.columns if name.startswith("param_")]
    alike = [name for name in (*_PLACE, *names) if name in frame.columns and name != column]
    if column == "benchmark":
        alike.remove("version")
    if column.startswith("req_"):
        alike.remove("env")
    _check(frame, column, of, over, by or ())
    rows = frame[has_number(frame) & (frame["value"].to_numpy(np.float64) > 0)]
    sides = [_one_side(rows, column, value, alike) for value in (of, over)]
    logs = sides[0].to_frame("of").join(sides[1].rename("over"), how="inner")
    if logs.empty:
        raise ValueError(
            f"no series with {column} = {of!r} has one with {over!r} that is alike in {', '.join(alike)}; "
            "they were not measured on the same commits, or differ in a parameter more"
        )
    pairs = logs.assign(x=np.log(logs["of"] / logs["over"])).reset_index()
    if by is not None:
        pairs = _means(pairs, list(by), alike)
    keys = list(by) if by is not None else alike
    names_of = dict(zip(frame["commit_index"], frame["commit"].astype("str"), strict=True))
    wanted = _index_of(names_of, commit)
    found = []
    groups: Any = [((), pairs)] if not keys else pairs.groupby(keys, observed=True, dropna=False, sort=True)
    for key, group in groups:
        row = _row(group, wanted, names_of)
        if row is not None:
            found.append([*(key if isinstance(key, tuple) else (key,)), *row])
    made = pd.DataFrame(found, columns=[*keys, *COLUMNS])
    # Parameters that none of these have tell nothing apart.
    empty = [name for name in names if name in made and (made[name].isna() | (made[name] == "")).all()]
    return made.drop(columns=empty)


def _check(frame: pd.DataFrame, column: str, of: object, over: object, by: Sequence[str]) -> None:
    for name in (column, *by, "value", "status", "commit", "commit_index"):
        if name not in frame.columns:
            there = ", ".join(c for c in frame.columns if c.startswith(("param_", "req_"))) or "none"
            raise ValueError(f"the table has no column {name!r}; its parameters and packages are: {there}")
    if column in by:
        raise ValueError(f"by: got {column!r}, which is what the two sets differ in")
    if of == over:
        raise ValueError(f"of and over are both {of!r}; expected two values of {column}")
    for role, value in (("of", of), ("over", over)):
        if not (frame[column] == value).fillna(False).any():
            there = ", ".join(map(repr, sorted(map(str, frame[column].dropna().unique()))[:12]))
            raise ValueError(f"{role}: no row has {column} = {value!r}; there are: {there}")


def _one_side(rows: pd.DataFrame, column: str, value: object, alike: list[str]) -> pd.Series[float]:
    """The median value by what tells pairs apart and commit."""
    side = rows[(rows[column] == value).fillna(False).to_numpy(bool)]
    grouped = side.groupby([*alike, "commit_index"], observed=True, dropna=False)
    medians: pd.Series[float] = grouped["value"].median()
    return medians


def _means(pairs: pd.DataFrame, by: list[str], alike: list[str]) -> pd.DataFrame:
    """By group and commit the mean of the pairs that the group's newest commit has too."""
    newest = pairs.groupby(by, observed=True, dropna=False)["commit_index"].transform("max") if by else None
    last = pairs["commit_index"].max() if newest is None else newest
    whole = pairs[pairs["commit_index"] == last][alike].drop_duplicates()
    same = pairs.merge(whole, on=alike, how="inner")
    means = same.groupby([*by, "commit_index"], observed=True, dropna=False)["x"].agg(["mean", "size"])
    means = means.rename(columns={"mean": "x", "size": "n"}).reset_index()
    # A commit that lacks some of the pairs has the mean of others, which is another thing.
    full = means.groupby(by, observed=True, dropna=False)["n"].transform("max") if by else means["n"].max()
    kept: pd.DataFrame = means[means["n"] == full]
    return kept


def _row(group: pd.DataFrame, wanted: int | None, names: dict[int, str]) -> list[Any] | None:
    ordered = group.sort_values("commit_index")
    indices = ordered["commit_index"].tolist()
    x: FloatArray = ordered["x"].to_numpy(np.float64)
    if wanted is not None and wanted not in indices:
        return None
    place = len(indices) - 1 if wanted is None else indices.index(wanted)
    n_pairs = int(ordered["n"].iloc[place]) if "n" in ordered else 1
    value, low, high, spread, note = math.exp(x[place]), math.nan, math.nan, math.nan, ""
    differences = np.abs(np.diff(x))
    if len(differences) >= _LEAST_DIFFERENCES:
        # The median of |a - b| is 0.9539 standard deviations where a and b are Gaussian.
        spread = float(np.median(differences)) / 0.9539
        margin = float(stdtrit(len(differences), 0.975)) * spread
        low, high = math.exp(x[place] - margin), math.exp(x[place] + margin)
    else:
        runs = "one run" if len(x) == 1 else f"{len(x)} runs"
        note = f"{runs}: how much it moves from run to run is not known"
    return [names[indices[place]], value, low, high, len(x), n_pairs, spread, note]


def _index_of(names: dict[int, str], commit: str | None) -> int | None:
    if commit is None:
        return None
    fits = [index for index, name in names.items() if name.startswith(commit)]
    if len(fits) != 1:
        raise ValueError(f"commit: {commit!r} fits {len(fits)} commits of the table; expected one")
    return fits[0]
