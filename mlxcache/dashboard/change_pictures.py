"""The matplotlib figures of changes: drawn once, kept for as long as their data stays the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from mlxcache.dashboard.figure_style import Theme
from mlxcache.dashboard.figures import change_figure
from mlxcache.dashboard.output import Output
from mlxcache.dashboard.pictures import Picture, picture_key, write_picture
from mlxcache.dashboard.plain_text import short
from mlxcache.dashboard.series_store import SeriesStore
from mlxcache.dashboard.units import format_value

# Values on either side of a change; more of them are a smear at this width, and megabytes.
_AROUND: Final = 200


class ChangePictures:
    """Draws at most `limit` figures that are not there yet; None draws all."""

    def __init__(self, out: Output, df: pd.DataFrame, store: SeriesStore, limit: int | None) -> None:
        self._out = out
        self._store = store
        self._left = limit
        self._df = df
        self._controls = {
            (store.keys[p].machine, store.keys[p].env, store.keys[p].benchmark): p for p in range(len(store))
        }

    def get(self, row: Mapping[str, Any], stem: str) -> Picture | None:
        """The figure of one change, from the last build or drawn now; None where the limit is reached."""
        unit = str(row["unit"])
        levels = [format_value(float(row[name]), unit) for name in ("value_before", "value_after")]
        words = f"{levels[0]} before and {levels[1]} from {row['after'][:8]} on"
        picture = Picture(stem, f"{short(str(row['benchmark']), 80)} over commits: {words}")
        key = self._key(row)
        if self._out.keep_all(picture.paths, key):
            return picture
        if self._left is not None:
            if self._left <= 0:
                return None
            self._left -= 1
        table, shown = self._window(row)

        def draw(theme: Theme) -> Figure:
            return change_figure(table, shown, theme=theme)

        write_picture(self._out, picture, key, draw)
        return picture

    def _window(self, row: Mapping[str, Any]) -> tuple[pd.DataFrame, dict[str, Any]]:
        """The table and the change as the figure has them: a long history is cut to what surrounds the change."""
        table, shown = self._rows(row), dict(row)
        series = self._store.series(self._store.position(int(row["series"])))
        middle = int(np.searchsorted(series.commits, row["after_index"]))
        part = series.commits[max(0, middle - _AROUND) : middle + _AROUND]
        inside = table["commit_index"].between(int(part[0]), int(part[-1]))
        table = table.loc[inside.to_numpy()]
        own = table.loc[(table["series"] == row["series"]).to_numpy()]
        names = dict(zip(own["commit"].astype("str"), own["commit_index"].tolist(), strict=True))
        if row["segment_start"] not in names:
            shown["segment_start"] = min(names, key=lambda name: names[name])
        if row["segment_end"] not in names:
            shown["segment_end"] = max(names, key=lambda name: names[name])
        return table, shown

    def _rows(self, row: Mapping[str, Any]) -> pd.DataFrame:
        """The part of the table that the figure is about: one mask over ten million rows instead of ten."""
        wanted = [row["series"]]
        control = self._control(row)
        if control is not None:
            wanted.append(self._store.keys[control].number)
        return self._df.loc[np.isin(self._df["series"].to_numpy(), wanted)]

    def _control(self, row: Mapping[str, Any]) -> int | None:
        return self._controls.get((row["machine"], row["env"], row["control"])) if row["control"] else None

    def _key(self, row: Mapping[str, Any]) -> str:
        positions = [self._store.position(int(row["series"])), self._control(row)]
        parts = [repr(sorted((str(k), v) for k, v in row.items() if k != "series")).encode("utf-8", "replace")]
        for position in positions:
            if position is None:
                continue
            series = self._store.series(position)
            arrays = (series.commits, series.values, series.low, series.high)
            parts += [array.tobytes() for array in arrays]
        return picture_key(*parts)
