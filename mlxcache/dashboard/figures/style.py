"""Colours and axes that all figures share; pages use the same colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

Theme = Literal["light", "dark"]

# Names of benchmarks may hold dollars, which are no formulas.
PLAIN: Any = {"text.parse_math": False}


@dataclass(frozen=True)
class Palette:
    """Colours by what they mean; Okabe and Ito's, darker on white and lighter on black for contrast."""

    background: str
    text: str
    grid: str
    values: str
    level: str
    regression: str
    improvement: str
    control: str
    # further series, which also differ in their markers
    cycle: tuple[str, ...]


PALETTES: dict[str, Palette] = {
    "light": Palette(
        "#ffffff", "#222222", "#dddddd", "#5f6b76", "#0072b2", "#b34700", "#00735c", "#8a5fa8",
        ("#0072b2", "#b34700", "#00735c", "#8a5fa8", "#7a6a00", "#a3336f", "#3a7ca5", "#555555"),
    ),
    "dark": Palette(
        "#16191d", "#e6e6e6", "#3a3f45", "#9aa5b1", "#56b4e9", "#ff9f50", "#2fd0a5", "#d9a7e8",
        ("#56b4e9", "#ff9f50", "#2fd0a5", "#d9a7e8", "#e8d95a", "#f08cc0", "#8fd0f5", "#bbbbbb"),
    ),
}  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def palette(theme: str) -> Palette:
    """The colours of a theme; ValueError for any other."""
    if theme not in PALETTES:
        raise ValueError(f"theme is {theme!r}; expected 'light' or 'dark'")
    return PALETTES[theme]


def blank(colours: Palette, width: float, height: float) -> Figure:
    """A figure without axes, in inches; it belongs to nobody's list of open figures."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=colours.background)
    FigureCanvasAgg(figure)
    return figure


def legend_below(figure: Figure | SubFigure, colours: Palette) -> None:
    """Names of all that is drawn, beneath the axes."""
    legend = figure.legend(fontsize=7.5, frameon=False, ncols=2, loc="outside lower center")
    for text in legend.get_texts():
        text.set_color(colours.text)


def style(axes: Axes, colours: Palette) -> None:
    """Quiet axes: no box, a thin grid."""
    axes.set_facecolor(colours.background)
    axes.grid(axis="y", color=colours.grid, lw=0.6)
    axes.tick_params(colors=colours.text, labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(colours.grid)
