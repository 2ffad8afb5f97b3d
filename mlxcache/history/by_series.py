"""Lays a table's rows out by series, each in commit order: counting does it, where sorting would take seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import scipy.sparse

Indices = npt.NDArray[np.int32 | np.int64]

_MOST: Final = 2**31 - 1  # rows that 32-bit numbers can count


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


def by_series(
    series: npt.NDArray[np.integer[Any]], commits: npt.NDArray[np.integer[Any]], data: npt.NDArray[Any]
) -> BySeries:
    """Lay rows out, given each row's series, its commit_index and what else to carry along (int32 or float64).

    Series -1 is one as well.
    """
    n = len(series)
    if not n:
        none = np.empty(0, np.int64)
        return BySeries(none, none, none, commits.astype(np.int64), data, np.empty(0, np.bool_))
    in_order = not bool((commits[1:] < commits[:-1]).any())
    small = n < _MOST and series.min() >= -1 and series.max() <= n and commits.min() >= 0 and commits.max() < _MOST
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
