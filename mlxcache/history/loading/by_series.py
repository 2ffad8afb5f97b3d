"""Lays a table's rows out by series, each in commit order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

Indices = npt.NDArray[np.int32 | np.int64]

_MOST: Final = 2**31 - 1  # rows that 32-bit numbers can count
_BLOCK: Final = 2**17  # rows


@dataclass(frozen=True, slots=True)
class BySeries:
    """Rows one series behind the other; series i has those from starts[i] to stops[i].

    `numbers` are the series that have rows, ascending. In each, `commits` ascend, rows of one commit stay in the
    order that they had, and `data` is what was given for each row. `repeats` says for each series whether a
    commit occurs in it more than once.
    """

    numbers: Indices
    starts: Indices
    stops: Indices
    commits: npt.NDArray[np.integer[Any]]
    data: npt.NDArray[Any]
    repeats: npt.NDArray[np.bool_]


def in_order_of(rows: Indices, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`column[rows]`, block by block: the places as numpy wants them would take twice the column's memory."""
    found = np.empty(len(rows), column.dtype)
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        np.take(column, rows[part], out=found[part], mode="clip")
    return found


def by_series(
    series: npt.NDArray[np.integer[Any]],
    commits: npt.NDArray[np.integer[Any]],
    data: npt.NDArray[Any] | None = None,
    usable: npt.NDArray[np.bool_] | None = None,
) -> BySeries:
    """Lay rows out, given each row's series, its commit_index and what else to carry along (int32 or float64).

    Without `data` that is the row's number. Series -1 is one as well; rows that are not `usable` belong to it.
    """
    n = len(series)
    if not n:
        none = np.empty(0, np.int64)
        return BySeries(none, none, none, commits.astype(np.int64), none, np.empty(0, np.bool_))
    if usable is not None:
        series = np.where(usable, series, -1)
    order = np.lexsort((commits, series))
    if n < _MOST:
        order = order.astype(np.int32)
    sorted_series, commits = series[order], commits[order]
    edges = np.flatnonzero(np.concatenate([[True], sorted_series[1:] != sorted_series[:-1], [True]]))
    numbers, starts, stops = sorted_series[edges[:-1]].astype(np.int64), edges[:-1], edges[1:]
    same = np.concatenate([commits[1:] == commits[:-1], [False]])
    same[stops - 1] = False
    repeats = np.logical_or.reduceat(same, starts)
    return BySeries(numbers, starts, stops, commits, order if data is None else data[order], repeats)


def first_places(numbers: npt.NDArray[np.integer[Any]]) -> tuple[Indices, Indices]:
    """The distinct numbers in ascending order and where each occurs first: `np.unique` without its sorting."""
    places = np.flatnonzero(~pd.Series(numbers, copy=False).duplicated().to_numpy())
    places = places[np.argsort(numbers[places])]
    return numbers[places].astype(np.int64), places
