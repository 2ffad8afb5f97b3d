"""Figures about one commit: ratios as a heat map, caches in a race, cost against size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from mlxcache.dashboard.data.ratios import HeatMap
from mlxcache.dashboard.data.suite import Curve, Race
from mlxcache.dashboard.figures.style import MARKERS, PLAIN, Palette, Theme, blank, legend_below, palette, style
from mlxcache.reports.plain_text import short
from mlxcache.reports.units import format_value

_MOST_LINES = 8
_MOST_LEVELS = 6
_WIDEST = math.log(4.0)  # the colours end at a factor of four


@rc_context(PLAIN)
def ratio_figure(content: HeatMap, *, theme: Theme = "light") -> Figure:
    """Ratios with their numbers; the sign of what differs from 1 is a triangle as well as a colour."""
    colours = palette(theme)
    height = 1.3 + 0.55 * max(1, len(content.rows))
    figure = blank(colours, max(4.5, 1.8 + 1.25 * len(content.columns)), height)
    axes = figure.add_subplot()
    grid = np.full((len(content.rows), len(content.columns)), np.nan)
    for i, row in enumerate(content.rows):
        for j, column in enumerate(content.columns):
            if (row, column) in content.cells:
                cell = content.cells[row, column]
                grid[i, j] = math.log(cell.ratio) if cell.differs else 0.0
    ramp = LinearSegmentedColormap.from_list("ratio", [colours.level, colours.background, colours.regression])
    axes.imshow(grid, cmap=ramp, vmin=-_WIDEST, vmax=_WIDEST, aspect="auto", alpha=0.75)
    for (row, column), cell in content.cells.items():
        sign = "" if not cell.differs else "▲ " if cell.ratio > 1 else "▼ "
        axes.text(
            content.columns.index(column),
            content.rows.index(row),
            f"{sign}{cell.ratio:.3g}",
            ha="center",
            va="center",
            color=colours.text,
            fontsize=10,
        )
    axes.set_xticks(range(len(content.columns)), [short(name, 24) for name in content.columns])
    axes.set_yticks(range(len(content.rows)), [short(name, 24) for name in content.rows])
    axes.set_xlabel(content.column_name, color=colours.text, fontsize=9)
    axes.set_ylabel(content.row_name, color=colours.text, fontsize=9)
    axes.tick_params(colors=colours.text, labelsize=9, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title(short(content.title, 90), loc="left", color=colours.text, fontsize=10.5)
    return figure


@rc_context(PLAIN)
def race_figure(content: Sequence[Race], *, theme: Theme = "light") -> Figure:
    """Caches that do the same work, one panel a kind of work, each on a scale that begins at 0."""
    colours = palette(theme)
    rows = sum(len(race.entries) + 1 for race in content)
    figure = blank(colours, 9.0, 0.8 + 0.34 * rows)
    panels = figure.subplots(len(content), 1, squeeze=False, height_ratios=[len(r.entries) for r in content])[:, 0]
    for axes, race in zip(panels, content, strict=True):
        style(axes, colours)
        axes.grid(axis="y", visible=False)
        names = [name for name, *_ in race.entries]
        for i, (name, value, low, high) in enumerate(race.entries):
            own = name == "mlxcache"
            colour = colours.level if own else colours.values
            axes.barh(i, value, height=0.62, color=colour, alpha=1.0 if own else 0.55)
            if math.isfinite(low) and math.isfinite(high):
                axes.plot([low, high], [i, i], color=colours.text, lw=1.2)
            axes.annotate(
                format_value(value, race.unit), (max(value, high if math.isfinite(high) else value), i),
                xytext=(5, 0), textcoords="offset points", va="center", fontsize=8, color=colours.text,
            )  # fmt: skip
        if race.limit is not None:
            axes.axvline(race.limit, color=colours.regression, lw=1.4, ls="--")
            # Beside the title: anywhere near the line it would cover the title or a bar.
            limit = f"- - the machine's limit: {format_value(race.limit, race.unit)}"
            axes.set_title(limit, loc="right", color=colours.regression, fontsize=8)
        axes.set_yticks(range(len(names)), [short(name, 30) for name in names])
        axes.invert_yaxis()
        axes.set_xlim(
            0, 1.15 * max(max(value, high if math.isfinite(high) else 0) for _, value, _, high in race.entries)
        )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _, unit=race.unit: format_value(v, unit)))
        axes.set_title(short(race.title, 90), loc="left", color=colours.text, fontsize=9.5)
    return figure


@rc_context(PLAIN)
def curve_figure(content: Sequence[Curve], *, theme: Theme = "light") -> Figure:
    """One benchmark against one parameter, a line for each set of the other parameters; both axes logarithmic."""
    colours = palette(theme)
    figure = blank(colours, 6.4, 4.4)
    axes = figure.add_subplot()
    style(axes, colours)
    _draw_curves(axes, content, colours)
    first = content[0]
    axes.set_title(
        f"{short(first.benchmark, 60)} against {first.parameter}", loc="left", color=colours.text, fontsize=10.5
    )
    return figure


def _draw_curves(axes: Axes, content: Sequence[Curve], colours: Palette) -> None:
    for i, curve in enumerate(content[:_MOST_LINES]):
        axes.plot(
            curve.x, curve.y, marker=MARKERS[i % len(MARKERS)], ms=5, lw=1.5,
            color=colours.cycle[i % len(colours.cycle)], label=short(curve.fixed, 46) or None,
        )  # fmt: skip
    first = content[0]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(first.x, [f"{x:g}" for x in first.x])
    axes.minorticks_off()
    low = min(min(curve.y) for curve in content[:_MOST_LINES])
    high = max(max(curve.y) for curve in content[:_MOST_LINES])
    axes.set_ylim(low / 1.5, high * 1.5)
    ticks = _round_levels(low / 1.5, high * 1.5, first.unit)
    axes.set_yticks(ticks, [format_value(float(tick), first.unit) for tick in ticks])
    axes.set_xlabel(first.parameter, color=colours.text, fontsize=9)
    if any(curve.fixed for curve in content):
        figure = axes.get_figure(root=True)
        assert figure is not None
        legend_below(figure, colours)


def _round_levels(low: float, high: float, unit: str) -> list[float]:
    """Round numbers along a logarithmic axis, as many as have room for their labels."""
    if unit == "bytes":
        scales = [[2.0**n for n in range(0, 64, step)] for step in (10, 5, 2, 1)]
    else:
        steps = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))
        scales = [[digit * 10.0**n for n in range(-12, 13) for digit in digits] for digits in steps]
    inside = [[level for level in scale if low <= level <= high] for scale in scales]
    fitting = [levels for levels in inside if len(levels) <= _MOST_LEVELS]
    return fitting[-1] if fitting else inside[0][:: math.ceil(len(inside[0]) / _MOST_LEVELS)]
