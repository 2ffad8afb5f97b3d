"""Which series are no longer measured: their regressions stood when they ended, and may be long gone.

An environment that nobody builds any more, a machine that was switched off, a benchmark that was renamed: what
their last values say is history, and "is anything slower" asks about now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.history.repository.commits import Commit

_OLD_S: Final = 180 * 24 * 3600
_OLD_COMMITS: Final = 3


def retired_series(store: SeriesStore, commits: Mapping[str, Commit]) -> frozenset[int]:
    """Numbers of series that another one took over, or that ended half a year and three commits ago.

    Another one: the same benchmark and parameters on the same machine, in another environment or version, with
    a newer value.
    """
    last = [int(store.commits[stop - 1]) for stop in store.stops]
    newest: dict[tuple[str, str, str], int] = {}
    for key, index in zip(store.keys, last, strict=True):
        place = (key.machine, key.benchmark, key.params)
        newest[place] = max(index, newest.get(place, -1))
    dates = {commit.index: commit.date_s for commit in commits.values()}
    now = max((date for index in set(last) if (date := dates.get(index)) is not None), default=None)
    end = max(last, default=0)

    def is_old(index: int) -> bool:
        date = dates.get(index)
        return now is not None and date is not None and now - date > _OLD_S and end - index >= _OLD_COMMITS

    return frozenset(
        key.number
        for key, index in zip(store.keys, last, strict=True)
        if index < newest[key.machine, key.benchmark, key.params] or is_old(index)
    )
