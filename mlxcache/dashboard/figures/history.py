"""Figures about a whole table: how everything went, by release of a package, how noisy it is, and the suite's own.

Each takes the table that `load` returned and draws what it finds in it; where that is nothing, the figure says
so instead of being empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mlxcache.dashboard.data import ratios
from mlxcache.dashboard.data import suite as suite_data
from mlxcache.dashboard.data.facts import gather
from mlxcache.dashboard.data.quality import machine_noise
from mlxcache.dashboard.data.ratios import HeatMap
from mlxcache.dashboard.data.releases import compare_releases
from mlxcache.dashboard.data.suite import Race, Rows
from mlxcache.dashboard.figures import suite as suite_figures
from mlxcache.dashboard.figures.style import MARKERS, PLAIN, Palette, Theme, blank, legend_below, palette, style
from mlxcache.history.loading.history import facts_of
from mlxcache.history.loading.series_store import Series, SeriesStore
from mlxcache.reports.plain_text import short
from mlxcache.reports.units import format_value

_COLUMNS = 4


@rc_context(PLAIN)
def overview_figure(
    df: pd.DataFrame, changes: pd.DataFrame | None = None, *, most: int = 24, theme: Theme = "light"
) -> Figure:
    """A small plot for each benchmark: its longest series, with the changes that were found in it."""
    colours = palette(theme)
    store = SeriesStore(df)
    longest = [store.longest(positions) for positions in store.by_benchmark.values()]
    if not longest:
        return _empty(colours, "no values in this table")
    shown = sorted(longest, key=lambda p: -int(store.stops[p] - store.starts[p]))[:most]
    rows = -(-len(shown) // _COLUMNS)
    figure = blank(colours, 11.0, 0.5 + 1.5 * rows)
    panels = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    by_series = {} if changes is None else dict(list(changes.groupby("series")))
    for axes, position in zip(panels, shown, strict=False):
        _small_multiple(axes, store.series(position), by_series.get(store.keys[position].number), colours)
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    return figure


def _small_multiple(axes: Axes, series: Series, changes: pd.DataFrame | None, colours: Palette) -> None:
    style(axes, colours)
    axes.plot(series.commits, series.values, ".-", ms=3, lw=0.8, color=colours.values)
    for row in [] if changes is None else changes.to_dict("records"):
        worse = row["direction"] == "regression"
        axes.plot(
            [row["after_index"]], [row["value_after"]], "^" if row["magnitude"] > 0 else "v", ms=6,
            color=colours.regression if worse else colours.improvement,
        )  # fmt: skip
    middle = float(np.median(series.values))
    room = max(float(np.ptp(series.values)), 0.08 * abs(middle), 1e-300)
    axes.set_ylim(float(series.values.min()) - 0.2 * room, float(series.values.max()) + 0.2 * room)
    axes.set_title(short(series.key.label, 34), loc="left", fontsize=7.5, color=colours.text)
    axes.set_xticks([])
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value, series.key.unit)))
    axes.tick_params(labelsize=6.5)


@rc_context(PLAIN)
def releases_figure(
    df: pd.DataFrame, package: str = "mlx", *, machine: str = "", most: int = 8, theme: Theme = "light"
) -> Figure:
    """Benchmarks by release of a package, all at one commit, each relative to the oldest release measured there.

    The commit is the newest one that was measured on most releases, so no change of our own is among what the
    figure shows. `machine` is one of the table; "": the first that has releases to compare.
    """
    colours = palette(theme)
    found = next(
        (
            one
            for one in compare_releases(gather(df, pd.DataFrame()))
            if one.package == package and machine in ("", one.machine)
        ),
        None,
    )
    if found is None:
        return _empty(colours, f"fewer than two releases of {package} were measured at one commit")
    figure = blank(colours, 9.0, 4.6)
    axes = figure.add_subplot()
    style(axes, colours)
    axes.axhline(0, color=colours.grid, lw=1)
    lines = sorted(found.rows, key=lambda row: -max(abs(np.log(m.ratio)) for m in row[1] if m))[:most]
    for i, (name, means) in enumerate([("geometric mean of all", found.overall), *lines]):
        known = [(x, mean) for x, mean in enumerate(means) if mean is not None]
        x = np.array([place for place, _ in known])
        y = np.array([100 * (mean.ratio - 1) for _, mean in known])
        ends = np.array([[100 * (m.low - 1), 100 * (m.high - 1)] for _, m in known]).T
        colour = colours.text if i == 0 else colours.cycle[(i - 1) % len(colours.cycle)]
        axes.plot(
            x, y, marker=MARKERS[(i - 1) % len(MARKERS)] if i else "o", ms=5, lw=2.4 if i == 0 else 1.2,
            label=short(name, 44), color=colour,
        )  # fmt: skip
        sure = np.isfinite(ends).all(axis=0)
        axes.vlines(x[sure], ends[0][sure], ends[1][sure], color=colour, alpha=0.5, lw=1)
    axes.set_xticks(range(len(found.versions)), list(found.versions))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.0f} %"))
    axes.set_xlabel(f"release of {package}", color=colours.text, fontsize=9)
    names = {commit.index: commit.name for commit in facts_of(df).commits.values()}
    title = f"since {found.versions[0]}, all at {names[found.commit][:8]} on {short(found.machine, 50)}"
    axes.set_title(title, loc="left", color=colours.text, fontsize=10.5)
    legend_below(figure, colours)
    return figure


@rc_context(PLAIN)
def noise_figure(df: pd.DataFrame, *, theme: Theme = "light") -> Figure:
    """Each machine's noise: commit to commit over its series, within a run, and its controls."""
    colours = palette(theme)
    store = SeriesStore(df)
    rows: list[tuple[str, float, str, str]] = []
    for machine, positions in store.by_machine.items():
        noise = machine_noise(store, positions)
        name = short(machine, 40)
        if noise.between:
            rows.append((f"{name}: commit to commit", noise.between[0], "o", colours.level))
        if noise.within is not None:
            rows.append((f"{name}: within a run", noise.within, "s", colours.values))
        rows += [(f"{name}: {short(c, 30)}", s, "^", colours.control) for c, s in noise.controls.items()]
    if not rows:
        return _empty(colours, "too few values to tell the noise")
    figure = blank(colours, 9.0, 0.9 + 0.3 * len(rows))
    axes = figure.add_subplot()
    style(axes, colours)
    for i, (_, share, marker, colour) in enumerate(rows):
        axes.plot([0, 100 * share], [i, i], color=colours.grid, lw=1.5)
        axes.plot([100 * share], [i], marker, ms=7, color=colour)
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
    axes.set_title("spread of values that should be equal", loc="left", color=colours.text, fontsize=10.5)
    return figure


def paths_figure(df: pd.DataFrame, *, machine: str = "", theme: Theme = "light") -> Figure:
    """int64 over int32, tokens by head size, at the newest commit that has it; `machine`: one of the table."""
    rows = Rows(df)
    for at in _newest(df, suite_data.benchmarks_with(df, "path"), machine):
        for content in ratios.path_maps(rows, *at):
            if content.title == ratios.TOKENS_BY_HEAD_SIZE:
                return suite_figures.ratio_figure(_placed(df, content, at), theme=theme)
    for at in _newest(df, suite_data.benchmarks_with(df, "path"), machine):
        for content in ratios.path_maps(rows, *at):
            return suite_figures.ratio_figure(_placed(df, content, at), theme=theme)
    return _empty(palette(theme), "the two paths were not measured")


def options_figure(df: pd.DataFrame, path: str = "int64", *, machine: str = "", theme: Theme = "light") -> Figure:
    """The options of reading positions over the one in use, for one path."""
    rows = Rows(df)
    for at in _newest(df, suite_data.benchmarks_with(df, "option", "path"), machine):
        for content in ratios.option_maps(rows, *at):
            if content.title.startswith(path):
                return suite_figures.ratio_figure(_placed(df, content, at), theme=theme)
    return _empty(palette(theme), f"no options of reading {path} positions were measured")


def peers_figure(df: pd.DataFrame, *, machine: str = "", theme: Theme = "light") -> Figure:
    """The same work on each cache and the machine's limit, at the commit that was measured last."""
    rows = Rows(df)
    for at in _newest(df, suite_data.benchmarks_with(df, "cache"), machine):
        found = suite_data.races(rows, *at)
        if found:
            return suite_figures.race_figure([_placed(df, race, at) for race in found], theme=theme)
    return _empty(palette(theme), "no peers were measured")


def scaling_figure(
    df: pd.DataFrame, parameter: str = "context", *, machine: str = "", theme: Theme = "light"
) -> Figure:
    """Cost against one parameter, at the commit that was measured last."""
    rows = Rows(df)
    for at in _newest(df, suite_data.benchmarks_with(df, parameter), machine):
        found = [curve for curve in suite_data.curves(rows, *at) if curve.parameter == parameter]
        first = [curve for curve in found if curve.benchmark == found[0].benchmark]
        if first:
            return suite_figures.curve_figure(first, theme=theme)
    return _empty(palette(theme), f"nothing was measured against {parameter}")


Titled = TypeVar("Titled", HeatMap, Race)


def _placed(df: pd.DataFrame, content: Titled, at: tuple[str, str, int]) -> Titled:
    """With machine and commit in its title, so that nobody takes one place for another."""
    names = {commit.index: commit.name for commit in facts_of(df).commits.values()}
    return replace(content, title=f"{content.title}, {short(at[0], 34)} at {names[at[2]][:8]}")


def _newest(df: pd.DataFrame, benchmarks: Sequence[str], machine: str = "") -> list[tuple[str, str, int]]:
    """Machine, environment and commit of all that measured these lately, the most recent first."""
    table = df.loc[df["benchmark"].isin(benchmarks).to_numpy() & (df["status"] == "ok").to_numpy()]
    seen = table[["machine", "env", "commit_index"]].drop_duplicates().astype({"machine": "str", "env": "str"})
    newest = suite_data.newest_commits(seen)
    places = [(one, env, commit) for (one, env), commits in newest.items() for commit in commits]
    own = [place for place in places if machine in ("", place[0])]
    return sorted(own, key=lambda place: (-place[2], place[0], place[1]))


def _empty(colours: Palette, text: str) -> Figure:
    figure = blank(colours, 6.0, 1.2)
    axes = figure.add_subplot()  # a notebook shows no figure without axes
    axes.set_axis_off()
    axes.text(0.0, 0.5, text, color=colours.text, va="center")
    return figure
