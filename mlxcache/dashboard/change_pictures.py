"""The matplotlib figures of changes: drawn once, kept for as long as their data stays the same."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Final

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from mlxcache.dashboard import figure_style, figures, units
from mlxcache.dashboard.output import Output
from mlxcache.dashboard.series_store import SeriesStore

# Text stays text: a fifth of the size, found by a search, and the same bytes in every build.
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "mlxcache"}


# Values on either side of a change; more of them are a smear at this width, and megabytes.
_AROUND: Final = 200


@dataclass(frozen=True, slots=True)
class Picture:
    """Paths of one figure's files, relative to the site."""

    light: str
    dark: str
    png: str


def render(figure: Figure, kind: str) -> bytes:
    """A figure as the content of an SVG or PNG file, the same bytes each time."""
    data = io.BytesIO()
    with matplotlib.rc_context(_SETTINGS):
        if kind == "svg":
            figure.savefig(data, format="svg", metadata={"Date": None})
        else:
            figure.savefig(data, format=kind, dpi=150)
    return data.getvalue()


def recolour(svg: bytes) -> bytes:
    """A figure drawn in light colours, in dark ones: what drawing it again would give, in no time."""
    light, dark = figure_style.PALETTES["light"], figure_style.PALETTES["dark"]
    pairs = {getattr(light, f.name): getattr(dark, f.name) for f in fields(light) if f.name != "cycle"}
    pairs |= dict(zip(light.cycle, dark.cycle, strict=True))
    return re.sub(rb"#[0-9a-f]{6}", lambda m: pairs.get(m[0].decode(), m[0].decode()).encode(), svg)


@cache
def _drawing_code() -> bytes:
    """What decides how figures look; a new version of it draws them anew."""
    parts = [Path(str(module.__file__)).read_bytes() for module in (figures, figure_style, units)]
    return b"".join([*parts, matplotlib.__version__.encode()])


def picture_key(*parts: bytes) -> str:
    """The key under which a figure made from this data is kept."""
    total = hashlib.blake2b(_drawing_code(), digest_size=16)
    for part in parts:
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()


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
        picture = Picture(f"{stem}.svg", f"{stem}-dark.svg", f"{stem}.png")
        key = self._key(row)
        paths = (picture.light, picture.dark, picture.png)
        if all([self._out.keep(path, key) for path in paths]):
            return picture
        if self._left is not None:
            if self._left <= 0:
                return None
            self._left -= 1
        table, shown = self._window(row)
        figure = figures.change_figure(table, shown)
        light = render(figure, "svg")
        self._out.made(picture.light, key, lambda: light)
        self._out.made(picture.dark, key, lambda: recolour(light))
        self._out.made(picture.png, key, lambda: render(figure, "png"))
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
