"""Lays a table's rows out by series, each in commit order: counting does it, where sorting would take seconds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse

Indices = npt.NDArray[np.int32 | np.int64]

_MOST: Final = 2**31 - 1  # rows that 32-bit numbers can count
_BLOCK: Final = 2**17  # rows
_LARGE_RUN: Final = 1_000  # rows of a commit that are worth a few calls of numpy


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
    in_order = not bool((commits[1:] < commits[:-1]).any())
    small = n < _MOST and series.min() >= -1 and series.max() <= n and commits.min() >= 0 and commits.max() < _MOST
    if in_order and small:
        found = _commit_by_commit(series, commits, data, usable)
        if found is not None:
            return found
    if usable is not None:
        series = np.where(usable, series, -1)
    if data is None:
        data = np.arange(n, dtype=np.int32 if n < _MOST else np.int64)
    if in_order and small:
        # A sparse matrix of series by commit is laid out by rows in just this way; what repeats stays apart.
        shape = (int(series.max()) + 2, int(commits.max()) + 1)
        places = ((series + 1).astype(np.int32, copy=False), commits.astype(np.int32, copy=False))
        matrix = scipy.sparse.coo_array((data, places), shape=shape)
        matrix.has_canonical_format = True
        rows = matrix.tocsr()
        numbers = np.flatnonzero(np.diff(rows.indptr))
        starts, stops = rows.indptr[numbers].astype(np.int64), rows.indptr[numbers + 1].astype(np.int64)
        numbers -= 1
        commits, data = rows.indices, rows.data
    else:
        order = np.lexsort((commits, series))
        sorted_series, commits, data = series[order], commits[order], data[order]
        edges = np.flatnonzero(np.concatenate([[True], sorted_series[1:] != sorted_series[:-1], [True]]))
        numbers, starts, stops = sorted_series[edges[:-1]].astype(np.int64), edges[:-1], edges[1:]
    same = np.concatenate([commits[1:] == commits[:-1], [False]])
    same[stops - 1] = False
    repeats = np.logical_or.reduceat(same, starts)
    return BySeries(numbers, starts, stops, commits, data, repeats)


def _commit_by_commit(
    series: npt.NDArray[np.integer[Any]],
    commits: npt.NDArray[np.integer[Any]],
    data: npt.NDArray[Any] | None,
    usable: npt.NDArray[np.bool_] | None,
) -> BySeries | None:
    """`by_series` of commits in order with many rows each and no series twice, else None.

    It needs no memory but that of its answer, and new memory is what laying out spends most on.
    """
    edges = [0, *(np.flatnonzero(commits[1:] != commits[:-1]) + 1).tolist(), len(series)]
    runs = list(itertools.pairwise(edges))
    if len(series) < _LARGE_RUN * len(runs):
        return None
    next_place = np.zeros(int(series.max()) + 3, np.int64)  # of series -1, 0, ...; first their numbers of rows

    def numbers(start: int, stop: int) -> npt.NDArray[np.intp]:
        found = series[start:stop].astype(np.intp)
        found += 1
        if usable is not None:
            found *= usable[start:stop]
        return found

    for start, stop in runs:
        places = numbers(start, stop) + 1
        n_missing = int(np.count_nonzero(places == 1))
        n_before = next_place[1]
        next_place[places] += 1
        next_place[1] = n_before + n_missing
    if int(next_place.sum()) != len(series):
        return None
    counts = next_place[1:].copy()
    np.cumsum(next_place, out=next_place)
    out = np.empty(len(series), np.int32 if data is None else data.dtype)
    out_commits = np.empty(len(series), np.int32)
    for start, stop in runs:
        own = numbers(start, stop)
        places = next_place[own]
        missing = np.flatnonzero(own == 0)
        places[missing] += np.arange(len(missing))
        out[places] = np.arange(start, stop, dtype=np.int32) if data is None else data[start:stop]
        out_commits[places] = commits[start]
        places += 1
        next_place[own] = places  # of the rows without a number the last one counts
    found = np.flatnonzero(counts)
    stops = next_place[found]
    starts = stops - counts[found]
    repeats = np.zeros(len(found), np.bool_)
    if counts[0]:
        own_commits = out_commits[: counts[0]]
        repeats[0] = bool((own_commits[1:] == own_commits[:-1]).any())
    return BySeries(found - 1, starts, stops, out_commits, out, repeats)
