"""The matplotlib figures of changes: drawn once, kept for as long as their data stays the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from mlxcache.dashboard.figures.change import change_figure
from mlxcache.dashboard.figures.files import Drawn, Picture, draw_picture, picture_key, write_picture
from mlxcache.dashboard.output import Output
from mlxcache.history.loading.history import facts_of
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.reports.plain_text import short
from mlxcache.reports.units import format_change, format_value
from mlxcache.support.workers import Call, Helpers, as_they_come

# Values on either side of a change; more of them are a smear at this width, and megabytes.
_AROUND: Final = 200
# What `change_figure` looks at.
_TEXTS: Final = ("machine", "env", "benchmark", "params", "version", "commit", "status")
_NUMBERS: Final = ("series", "commit_index", "value", "ci_low", "ci_high")


class ChangePictures:
    """Draws at most `limit` figures that are not there yet; None draws all. They are there after `finish`."""

    def __init__(
        self, out: Output, df: pd.DataFrame, store: SeriesStore, limit: int | None, helpers: Helpers
    ) -> None:
        self._out = out
        self._helpers = helpers
        self._drawing: list[tuple[Picture, str, Call[Drawn]]] = []
        self._store = store
        self._left = limit
        self._df = df
        self._controls = {(key.machine, key.env, key.benchmark): p for p, key in enumerate(store.keys)}
        self._names = {commit.index: commit.name for commit in facts_of(df).commits.values()}

    def get(self, row: Mapping[str, Any], stem: str) -> Picture | None:
        """The figure of one change, from the last build or drawn now; None where the limit is reached."""
        first, last = self._span(row)
        shown = self._within(row, first, last)
        texts = _texts(row)
        words = f"{texts[0]} before and {texts[1]} from {row['after'][:8]} on"
        picture = Picture(stem, f"{short(str(row['benchmark']), 80)} over commits: {words}")
        key = self._key(shown, texts, first, last)
        if self._out.keep_all(picture.paths, key):
            return picture
        if self._left is not None:
            if self._left <= 0:
                return None
            self._left -= 1
        table = self._store.rows(self._df, self._positions(row))
        inside = table["commit_index"].between(first, last).to_numpy()
        # Plain text and no more: a column's categories are those of the whole table.
        plain = {name: table[name][inside].astype("str") for name in _TEXTS}
        table = pd.DataFrame({**plain, **{name: table[name][inside] for name in _NUMBERS}})
        self._drawing.append((picture, key, self._helpers.submit(_draw, table, shown)))
        return picture

    def finish(self) -> None:
        """Wait for the figures that are being drawn, and write them."""
        for index in as_they_come([call for _, _, call in self._drawing]):
            picture, key, call = self._drawing[index]
            write_picture(self._out, picture, key, call.result())
        self._drawing.clear()

    def _span(self, row: Mapping[str, Any]) -> tuple[int, int]:
        """First and last commit of the figure: what surrounds the change.

        Up to a tenth of the newest values is left out, so that one more does not draw every figure anew.
        """
        commits = self._store.series(self._store.position(int(row["series"]))).commits
        middle = int(np.searchsorted(commits, row["after_index"]))
        n_after = min(_AROUND, len(commits) - middle)
        n_after -= n_after % max(1, n_after // 10)
        return int(commits[max(0, middle - _AROUND)]), int(commits[middle + n_after - 1])

    def _within(self, row: Mapping[str, Any], first: int, last: int) -> dict[str, Any]:
        """The change with its levels cut to the figure's commits."""
        series = self._store.series(self._store.position(int(row["series"])))
        own = series.commits[(series.commits >= first) & (series.commits <= last)]
        names = [self._names[index] for index in own.tolist()]
        shown = dict(row)
        if row["segment_start"] not in names:
            shown["segment_start"] = names[0]
        if row["segment_end"] not in names:
            shown["segment_end"] = names[-1]
        return shown

    def _positions(self, row: Mapping[str, Any]) -> list[int]:
        positions = [self._store.position(int(row["series"]))]
        control = self._controls.get((row["machine"], row["env"], row["control"])) if row["control"] else None
        return positions if control is None else [*positions, control]

    def _key(self, shown: Mapping[str, Any], texts: list[str], first: int, last: int) -> str:
        names = ("before", "after", "direction", "state", "confirmed", "control", "segment_start", "segment_end")
        parts = [repr([texts, [str(shown[name]) for name in names]]).encode("utf-8", "replace")]
        for position in self._positions(shown):
            series = self._store.series(position)
            inside = (series.commits >= first) & (series.commits <= last)
            arrays = (series.commits, series.values, series.low, series.high)
            parts += [array[inside].tobytes() for array in arrays]
        return picture_key(*parts)


def _draw(table: pd.DataFrame, change: Mapping[str, Any]) -> Drawn:
    return draw_picture(partial(change_figure, table, change))


def _texts(row: Mapping[str, Any]) -> list[str]:
    """The numbers of a change as the figure shows them; further digits are not worth a new one."""
    unit = str(row["unit"])
    values = [format_value(float(row[name]), unit) for name in ("value_before", "value_after")]
    changes = [format_change(float(row[name])) for name in ("magnitude", "magnitude_low", "magnitude_high")]
    return [*values, *changes, f"{float(row['confidence']):.2f}"]
