"""Figures of changes, and the words and numbers around them."""

from __future__ import annotations

import io
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "history"))

from frames import commit_name, history_frame, levels, tables

from mlxcache.dashboard.figures.change import change_figure
from mlxcache.dashboard.figures.plots import file_name, plot_changes
from mlxcache.history import change_points
from mlxcache.reports.units import format_change, format_value


def texts(figure: Any) -> str:
    """All words in a figure."""
    words = [text.get_text() for axes in figure.axes for text in axes.texts]
    words += [axes.get_title(loc="left") for axes in figure.axes]
    words += [axes.get_ylabel() for axes in figure.axes]
    return "\n".join(words)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_change_is_told_in_words_and_glyphs(theme: Any) -> None:
    """Direction, size, commits, state and confidence are in the figure as text; it draws without pyplot."""
    df = history_frame(levels((40, 1.0), (40, 1.1)))
    changes = change_points(df)
    figure = change_figure(df, changes.iloc[0], theme=theme)
    figure.savefig(io.BytesIO(), format="png")
    said = texts(figure)
    for part in (
        "regression +1",
        commit_name(39)[:8],
        commit_name(40)[:8],
        "candidate",
        "confidence 1.00",
        " s",
    ):
        assert part in said
    assert "^" in {line.get_marker() for line in figure.axes[0].lines}


def test_the_control_is_drawn_beneath() -> None:
    """Where values were divided by a control, its history shares the axis of commits."""
    speed = np.random.default_rng(0).choice([1.0, 1.6], 120)
    df = tables(
        history_frame(levels((60, 1.0), (60, 1.1)) * speed),
        history_frame(levels((120, 0.001), seed=5) * speed, benchmark="time_control"),
    )
    figure = change_figure(df, change_points(df).iloc[0])
    assert len(figure.axes) == 2
    assert "control" in texts(figure)
    assert "after division by time_control" in texts(figure)


def test_wild_values_do_not_flatten_the_rest() -> None:
    """A value a hundred times off is marked at the edge; the axis stays with the levels."""
    values = levels((60, 1.0), (60, 1.1))
    values[30] = 100.0
    df = history_frame(values)
    axes = change_figure(df, change_points(df).iloc[0]).axes[0]
    assert axes.get_ylim()[1] < 3.0


def test_unknown_themes_and_series_are_named() -> None:
    """The error says what was got."""
    df = history_frame(levels((40, 1.0), (40, 1.1)))
    row = change_points(df).iloc[0]
    with pytest.raises(ValueError, match="theme is 'sepia'; expected 'light' or 'dark'"):
        change_figure(df, row, theme="sepia")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"no values of 'bench\.time_x' on 'm1' in the table"):
        change_figure(df[df["commit_index"] < 0], row)


def test_each_change_gets_a_file_of_its_own(tmp_path: Path) -> None:
    """Names tell benchmark and commit, differ between machines, and the same change gives the same bytes."""
    df = tables(
        history_frame(levels((40, 1.0), (40, 1.1)), params="'a/b', 3"),
        history_frame(levels((40, 1.0), (40, 1.1)), params="'a/b', 3", machine="m2"),
    )
    changes = change_points(df)
    written = plot_changes(df, changes, tmp_path / "plots")
    assert len({path.name for path in written}) == len(changes) == 2
    assert all(path.name.startswith("bench.time-x-a-b-3-00000028-") for path in written)
    assert file_name(changes.iloc[0]) == written[0].name
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == sorted(p.name for p in written)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.0123, "seconds", "12.3 ms"),
        (1.5, "seconds", "1.50 s"),
        (0.00099996, "seconds", "1.00 ms"),
        (3e-9, "seconds", "3.00 ns"),
        (0.0, "seconds", "0 ns"),
        (4.3e6, "bytes", "4.10 MiB"),
        (1e300, "seconds", "1e+300 s"),
        (3e-320, "seconds", "3e-311 ns"),
        (1234.0, "tokens/s", "1,234 tokens/s"),
        (math.nan, "seconds", "n/a"),
    ],
)
def test_values_are_readable(value: float, unit: str, expected: str) -> None:
    """Three digits in a unit that fits."""
    assert format_value(value, unit) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [(0.052, "+5.2 %"), (-0.5, "-50.0 %"), (1.1, "x2.1"), (math.inf, "n/a"), (0.0, "+0.0 %")],
)
def test_changes_are_readable(change: float, expected: str) -> None:
    """Per cent with a sign, factors from a doubling on."""
    assert format_change(change) == expected
