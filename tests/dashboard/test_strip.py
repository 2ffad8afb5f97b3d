"""Intervals as characters."""

from __future__ import annotations

import math

from mlxcache.reports.interval_bars import Bar, draw


def test_a_bar_lies_where_its_numbers_say() -> None:
    """Zero is in the middle, +5 % at the right end of a scale to 5 %."""
    head, worse, unchanged = draw([Bar("a", 0.05, 0.025, 0.05), Bar("bb", 0.0, -0.0125, 0.0125)])
    assert head == "    -5%" + " " * 21 + "0" + " " * 21 + "+5%"
    assert worse.index("●") == 4 + 48
    assert worse.index("├") == 4 + 36
    assert unchanged.index("●") == 4 + 24
    assert unchanged[4 + 18] == "├"
    assert unchanged[4 + 30] == "┤"


def test_what_is_off_the_scale_is_an_arrow() -> None:
    """Open intervals and factors are drawn all the same."""
    (_, line) = draw([Bar("a", 3.0, -math.inf, math.inf)])
    assert "◄" in line
    assert line.endswith("●")


def test_nothing_to_draw() -> None:
    """No bars, no lines."""
    assert draw([]) == []
    assert draw([Bar("a", math.nan, 0.0, 0.0)]) == []
