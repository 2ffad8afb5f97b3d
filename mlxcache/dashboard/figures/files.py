"""Figures as files: the same bytes for the same data, drawn again only when data or drawing code changed."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

import matplotlib
from matplotlib.figure import Figure

from mlxcache.dashboard.figures import change as figures
from mlxcache.dashboard.figures import style as figure_style
from mlxcache.dashboard.figures import suite as suite_figures
from mlxcache.dashboard.figures.style import Theme
from mlxcache.dashboard.output import Output
from mlxcache.reports import events, plain_text, units

# Text stays text: a fifth of the size, found by a search, and the same bytes in every build.
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "mlxcache"}
_DPI: Final = 120
_COLOUR: Final = re.compile(rb'(?<=: )#[0-9a-f]{6}(?=[;"])')


@dataclass(frozen=True, slots=True)
class Picture:
    """One figure's files, relative to the site; `alt` says in words what is on it."""

    stem: str
    alt: str

    @property
    def light(self) -> str:
        """SVG for light pages and for print."""
        return f"{self.stem}.svg"

    @property
    def dark(self) -> str:
        """SVG for dark pages."""
        return f"{self.stem}-dark.svg"

    @property
    def png(self) -> str:
        """Light, as pixels."""
        return f"{self.stem}.png"

    @property
    def paths(self) -> tuple[str, str, str]:
        """All of them."""
        return (self.light, self.dark, self.png)


def render(figure: Figure, kind: str) -> bytes:
    """A figure as the content of an SVG or PNG file, the same bytes each time."""
    data = io.BytesIO()
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # The page's fonts draw the SVG's text; a PNG has a box where DejaVu lacks a sign.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        if kind == "svg":
            figure.savefig(data, format="svg", metadata={"Date": None})
        else:
            figure.savefig(data, format=kind, dpi=_DPI)
    return data.getvalue()


def recolour(svg: bytes) -> bytes:
    """A light figure in dark colours: what drawing it again gives where all colours are the palette's."""
    light, dark = figure_style.PALETTES["light"], figure_style.PALETTES["dark"]
    pairs = {getattr(light, f.name): getattr(dark, f.name) for f in fields(light) if f.name != "cycle"}
    pairs |= dict(zip(light.cycle, dark.cycle, strict=True))
    return _COLOUR.sub(lambda found: pairs.get(found[0].decode(), found[0].decode()).encode(), svg)


@cache
def _drawing_code() -> bytes:
    """What decides how figures look; a new version of it draws them anew."""
    modules = (events, figure_style, figures, plain_text, suite_figures, units)
    return b"".join([*(Path(str(m.__file__)).read_bytes() for m in modules), matplotlib.__version__.encode()])


def picture_key(*parts: bytes) -> str:
    """The key under which a figure made from this data is kept."""
    total = hashlib.blake2b(_drawing_code(), digest_size=16)
    for part in parts:
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()


@dataclass(frozen=True, slots=True)
class Drawn:
    """The content of a picture's files."""

    light: bytes
    dark: bytes
    png: bytes


class _Draw(Protocol):
    def __call__(self, *, theme: Theme) -> Figure: ...


def draw_picture(draw: _Draw, *, own_colours: bool = False) -> Drawn:
    """Draw a figure; `own_colours` says that it has others than the palette's and is drawn twice."""
    figure = draw(theme="light")
    light = render(figure, "svg")
    figure.set_layout_engine("none")  # it is laid out; a second time takes as long as drawing
    dark = render(draw(theme="dark"), "svg") if own_colours else recolour(light)
    return Drawn(light, dark, render(figure, "png"))


def write_picture(out: Output, picture: Picture, key: str, drawn: Drawn) -> None:
    """Write a figure's files."""
    for path, content in zip(picture.paths, (drawn.light, drawn.dark, drawn.png), strict=True):
        out.made(path, key, content)
