"""Figures of histories and changes; every function returns a matplotlib Figure and keeps no state.

    figure = change_figure(df, changes.iloc[0])
    figure.savefig("change.svg")

Nothing is told by colour alone: a regression has a triangle that points to where worse is and says so in
words, the two levels differ in position and are labelled, and the colours (Okabe and Ito's) stay apart for
colour-blind eyes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from mlxcache.dashboard.figures.style import PLAIN, Palette, Theme, blank, palette, style
from mlxcache.reports.events import state_word
from mlxcache.reports.plain_text import cut
from mlxcache.reports.units import change_of, format_value, interval_of

_LINE: Final = 105  # characters that fit the title


@rc_context(PLAIN)
def change_figure(
    df: pd.DataFrame, change: Mapping[Any, Any] | pd.Series[Any], *, theme: Theme = "light"
) -> Figure:
    """One change in its series' history.

    Values, both levels, the interval of the change, the control beneath.

    Args:
        df: the table that `change_points` was given.
        change: one of its rows.
        theme: "light" or "dark".

    Raises:
        ValueError: an unknown theme, or the series is not in the table.
    """
    colours = palette(theme)
    row = dict(change)
    history = _history(df, row)
    if history.empty:
        raise ValueError(f"no values of {row['benchmark']!r} on {row['machine']!r} in the table")
    control = _control(df, row)
    figure = blank(colours, 9.0, 4.8 if control.empty else 5.8)
    if control.empty:
        main, below = figure.add_subplot(), None
    else:
        main, below = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    style(main, colours)
    _draw_history(main, history, row, colours)
    _draw_levels(main, row, history, colours)
    main.set_title(_title(row), loc="left", color=colours.text, fontsize=10.5)
    main.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value, str(row["unit"]))))
    last = main
    if below is not None:
        style(below, colours)
        below.plot(control["commit_index"], control["value"], ".", ms=3, color=colours.control)
        below.set_ylabel("control", color=colours.text, fontsize=8)
        below.set_ylim(bottom=0)
        below.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_value(value, "seconds")))
        below.axvline(row["after_index"] - 0.5, color=colours.grid, lw=1)
        last = below
    _commit_ticks(last, history)
    last.set_xlabel("commits, oldest first", color=colours.text, fontsize=9)
    return figure


def _history(df: pd.DataFrame, row: Mapping[str, Any]) -> pd.DataFrame:
    if "series" in df.columns:
        mask = (df["series"] == row["series"]).to_numpy()
    else:
        mask = np.ones(len(df), np.bool_)
        for name in ("machine", "env", "benchmark", "params", "version"):
            mask &= (df[name] == row[name]).to_numpy()
    wanted: pd.DataFrame = df.loc[mask & (df["status"] == "ok").to_numpy()]
    return wanted.sort_values("commit_index", kind="stable")


def _control(df: pd.DataFrame, row: Mapping[str, Any]) -> pd.DataFrame:
    if not row.get("control"):
        return df.iloc[:0]
    mask = (
        (df["benchmark"] == row["control"]) & (df["machine"] == row["machine"]) & (df["env"] == row["env"])
    ).to_numpy()
    # "the median of 9 benchmarks" has no history of its own to draw
    found: pd.DataFrame = df.loc[mask & (df["status"] == "ok").to_numpy()]
    return found.sort_values("commit_index", kind="stable")


def _draw_history(axes: Axes, history: pd.DataFrame, row: Mapping[str, Any], colours: Palette) -> None:
    x, y = history["commit_index"].to_numpy(), history["value"].to_numpy(np.float64)
    axes.plot(x, y, "o", ms=3, color=colours.values, alpha=0.8, zorder=2, label="measured")
    if {"ci99_low", "ci99_high"} <= set(history.columns):
        low = history["ci99_low"].to_numpy(np.float64)
        high = history["ci99_high"].to_numpy(np.float64)
        known = np.isfinite(low) & np.isfinite(high)
        axes.vlines(x[known], low[known], high[known], color=colours.values, alpha=0.35, lw=1, zorder=1)
    # One value ten times off would flatten everything else.
    level = np.array([row["value_before"], row["value_after"]], dtype=np.float64)
    inner = np.concatenate([np.quantile(y, [0.01, 0.99]), level])
    pad = 0.15 * max(float(np.ptp(inner)), 0.02 * float(np.abs(level).max()), 1e-300)
    bottom, top = float(inner.min()) - pad, float(inner.max()) + 2 * pad
    axes.set_ylim(bottom, top)
    for outside, edge, marker in ((y > top, top, "^"), (y < bottom, bottom, "v")):
        if outside.any():
            axes.plot(
                x[outside],
                np.full(int(outside.sum()), edge),
                marker,
                ms=4,
                color=colours.values,
                clip_on=False,
            )


def _draw_levels(axes: Axes, row: Mapping[str, Any], history: pd.DataFrame, colours: Palette) -> None:
    index = dict(zip(history["commit"].astype("str"), history["commit_index"].tolist(), strict=True))
    start, stop = index[row["segment_start"]], index[row["segment_end"]]
    before, after = row["before_index"], row["after_index"]
    colour = colours.regression if row["direction"] == "regression" else colours.improvement
    unit = str(row["unit"])
    for left, right, value in ((start, before, row["value_before"]), (after, stop, row["value_after"])):
        axes.hlines(value, left, right, color=colours.level, lw=2.2, zorder=3)
        axes.annotate(
            format_value(value, unit),
            (left, value),
            xytext=(2, 5),
            textcoords="offset points",
            color=colours.level,
            fontsize=8.5,
            fontweight="bold",
            zorder=5,
            bbox={"facecolor": colours.background, "alpha": 0.75, "pad": 1, "lw": 0},
        )
    # The 95 % interval of the change, seen from the old level.
    low, high = (row["value_before"] + row[name] for name in ("difference_ci95_low", "difference_ci95_high"))
    axes.fill_between([after, max(stop, after + 0.5)], low, high, color=colour, alpha=0.18, lw=0, zorder=1)
    axes.axvspan(before, after, color=colour, alpha=0.15, lw=0, zorder=0)
    axes.axvline(after, color=colour, lw=1.2, ls="--", zorder=2)
    larger = row["magnitude"] > 0
    axes.plot([after], [row["value_after"]], "^" if larger else "v", ms=10, color=colour, zorder=6)
    axes.annotate(
        f"{row['direction']} {change_of(row)}\n{row['before'][:8]} .. {row['after'][:8]}",
        (after, axes.get_ylim()[1]),
        xytext=(6, -4),
        textcoords="offset points",
        va="top",
        color=colour,
        fontsize=9,
        fontweight="bold",
        zorder=6,
    )


def _title(row: Mapping[str, Any]) -> str:
    params = f"({row['params']})" if row["params"] else ""
    interval = interval_of(row)
    state = state_word(str(row["state"]), str(row["direction"]))
    state += " (confirmed)" if row["state"] == "recovered" and row["confirmed"] else ""
    where = cut(f"{row['machine']}, {row['env']}", _LINE)
    divided = f", judged after division by {row['control']}" if row["control"] else ""
    return (
        f"{cut(str(row['benchmark']) + params, _LINE)}\n{where}\n"
        f"{state}, confidence {row['confidence']:.2f}, 95 % interval {interval}{divided}"
    )


def _commit_ticks(axes: Axes, history: pd.DataFrame) -> None:
    names = history.drop_duplicates("commit_index")
    picks = np.unique(np.linspace(0, len(names) - 1, min(6, len(names))).round().astype(int))
    chosen = names.iloc[picks]
    axes.set_xticks(chosen["commit_index"].tolist(), [str(name)[:7] for name in chosen["commit"]])
