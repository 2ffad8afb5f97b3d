"""Figures about a whole table: how everything went, by release of a package, how noisy it is, and the suite's own.

Each takes the table that `load` returned and draws what it finds in it; where that is nothing, the figure says
so instead of being empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mlxcache.dashboard.data import suite as suite_data
from mlxcache.dashboard.data.explorer import environment_requirements
from mlxcache.dashboard.data.quality import machine_noise
from mlxcache.dashboard.figures import suite as suite_figures
from mlxcache.dashboard.figures.style import MARKERS, PLAIN, Palette, Theme, blank, legend_below, palette, style
from mlxcache.history.loading.series_store import Series, SeriesStore
from mlxcache.reports.plain_text import short
from mlxcache.reports.units import format_value
from mlxcache.support.releases import release_key

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
def releases_figure(df: pd.DataFrame, package: str = "mlx", *, most: int = 12, theme: Theme = "light") -> Figure:
    """Benchmarks by release of a package, each relative to the oldest release that was measured.

    A benchmark's point is the median over its series that all its releases have, each at its newest commit.
    """
    colours = palette(theme)
    versions = {env: own[package] for env, own in environment_requirements(df).items() if package in own}
    if len(set(versions.values())) < 2:
        return _empty(colours, f"fewer than two releases of {package} were measured")
    lines = _by_release(SeriesStore(df), versions)
    if not lines:
        return _empty(colours, f"no series was measured on two releases of {package}")
    order = sorted({version for line in lines.values() for version in line}, key=release_key)
    figure = blank(colours, 9.0, 4.6)
    axes = figure.add_subplot()
    style(axes, colours)
    axes.axhline(0, color=colours.grid, lw=1)
    widest = sorted(lines.items(), key=lambda item: -max(abs(np.log(value)) for value in item[1].values()))[:most]
    for i, (name, line) in enumerate(widest):
        x = [order.index(version) for version in sorted(line, key=release_key)]
        y = [100 * (line[order[place]] - 1) for place in x]
        axes.plot(
            x, y, marker=MARKERS[i % len(MARKERS)], ms=5, lw=1.4, label=short(name, 44),
            color=colours.cycle[i % len(colours.cycle)],
        )  # fmt: skip
    axes.set_xticks(range(len(order)), order)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+.0f} %"))
    axes.set_xlabel(f"release of {package}", color=colours.text, fontsize=9)
    axes.set_title("change since the oldest release", loc="left", color=colours.text, fontsize=10.5)
    legend_below(figure, colours)
    return figure


def _by_release(store: SeriesStore, versions: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Benchmark to release to value relative to the oldest release."""
    newest: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    for position, key in enumerate(store.keys):
        if key.env in versions:
            places = newest.setdefault(key.benchmark, {})
            last = store.newest_value(position)
            places.setdefault((key.machine, key.params), {})[versions[key.env]] = last
    found: dict[str, dict[str, float]] = {}
    for benchmark, places in newest.items():
        known = [own for own in places.values() if len(own) > 1 and min(own.values()) > 0]
        releases = sorted(set().union(*known), key=release_key)
        whole = [own for own in known if len(own) == len(releases)]
        if whole:
            ratios = {r: float(np.median([own[r] / own[releases[0]] for own in whole])) for r in releases}
            found[benchmark] = ratios
    return found


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


def paths_figure(df: pd.DataFrame, *, theme: Theme = "light") -> Figure:
    """int64 over int32, tokens by head size, at the commit that was measured last."""
    places = _newest(df, suite_data.benchmarks_with(df, "path"))
    found = [content for at in places for content in suite_data.path_maps(df, *at)]
    found.sort(key=lambda content: content.title != suite_data.TOKENS_BY_HEAD_SIZE)
    if found:
        return suite_figures.ratio_figure(found[0], theme=theme)
    return _empty(palette(theme), "the two paths were not measured")


def options_figure(df: pd.DataFrame, path: str = "int64", *, theme: Theme = "light") -> Figure:
    """The options of reading positions over the one in use, for one path."""
    benchmarks = suite_data.benchmarks_with(df, "option", "path")
    for at in _newest(df, benchmarks):
        for content in suite_data.option_maps(df, *at):
            if content.title.startswith(path):
                return suite_figures.ratio_figure(content, theme=theme)
    return _empty(palette(theme), f"no options of reading {path} positions were measured")


def peers_figure(df: pd.DataFrame, *, theme: Theme = "light") -> Figure:
    """The same work on each cache and the machine's limit, at the commit that was measured last."""
    for at in _newest(df, suite_data.benchmarks_with(df, "cache")):
        found = suite_data.races(df, *at)
        if found:
            return suite_figures.race_figure(found, theme=theme)
    return _empty(palette(theme), "no peers were measured")


def scaling_figure(df: pd.DataFrame, parameter: str = "context", *, theme: Theme = "light") -> Figure:
    """Cost against one parameter, at the commit that was measured last."""
    for at in _newest(df, suite_data.benchmarks_with(df, parameter)):
        found = [curve for curve in suite_data.curves(df, *at) if curve.parameter == parameter]
        first = [curve for curve in found if curve.benchmark == found[0].benchmark]
        if first:
            return suite_figures.curve_figure(first, theme=theme)
    return _empty(palette(theme), f"nothing was measured against {parameter}")


def _newest(df: pd.DataFrame, benchmarks: Sequence[str]) -> list[tuple[str, str, int]]:
    """Machine, environment and commit of all that measured these lately, the most recent first."""
    table = df.loc[df["benchmark"].isin(benchmarks).to_numpy() & (df["status"] == "ok").to_numpy()]
    seen = table[["machine", "env", "commit_index"]].drop_duplicates().astype({"machine": "str", "env": "str"})
    newest = suite_data.newest_commits(seen)
    places = [(machine, env, commit) for (machine, env), commits in newest.items() for commit in commits]
    return sorted(places, key=lambda place: (-place[2], place[0], place[1]))


def _empty(colours: Palette, text: str) -> Figure:
    figure = blank(colours, 6.0, 1.2)
    axes = figure.add_subplot()  # a notebook shows no figure without axes
    axes.set_axis_off()
    axes.text(0.0, 0.5, text, color=colours.text, va="center")
    return figure
