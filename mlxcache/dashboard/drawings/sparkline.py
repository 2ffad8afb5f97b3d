"""The small plots beside a name: a line, its levels and where it changed, as SVG that takes the page's colours.

They are decoration for eyes that look for a shape; every number stands in text next to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from mlxcache.history.loading.series_store import Series

WIDTH: Final = 260
HEIGHT: Final = 56
_PAD: Final = 4.0
_MOST: Final = 90  # more points than this are not seen at this width
_AROUND: Final = 60  # commits beside a change
_LEAST_SPAN: Final = 0.08  # of a value


def sparkline(series: Series, change: Mapping[str, Any] | None = None, noise: float = 0.0) -> Markup:
    """A series, or the part of it around a change, as inline SVG.

    `noise` is its relative spread: the height stands for ten times that at least, and a band shows it.
    """
    commits, values = series.commits, series.values
    if change is not None:
        middle = int(np.searchsorted(commits, change["after_index"]))
        part = slice(max(0, middle - _AROUND), middle + _AROUND)
        commits, values = commits[part], values[part]
    if not len(values):
        return Markup("")
    levels = [float(change["value_before"]), float(change["value_after"])] if change is not None else []
    inner = np.concatenate([np.quantile(values, [0.02, 0.98]), levels])
    low, high = float(inner.min()), float(inner.max())
    # A flat series is a flat line, not noise blown up to the full height.
    least = max(_LEAST_SPAN, 10.0 * noise) * max(abs(low), abs(high), 1e-300)
    if high - low < least:
        middle_value = (high + low) / 2
        low, high = middle_value - least / 2, middle_value + least / 2
    x = np.linspace(_PAD, WIDTH - _PAD, len(values)) if len(values) > 1 else np.array([WIDTH / 2])

    def height(value: Any) -> Any:
        share = (np.clip(value, low, high) - low) / (high - low)
        return HEIGHT - _PAD - share * (HEIGHT - 2 * _PAD)

    picks = np.unique(np.linspace(0, len(values) - 1, min(_MOST, len(values))).round().astype(int))
    points = " ".join(f"{a:.0f},{b:.1f}" for a, b in zip(x[picks], height(values[picks]), strict=True))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" preserveAspectRatio="xMinYMid"'
    parts = [f'<svg class="spark" {size} aria-hidden="true">']
    if noise and change is None:
        level = float(np.median(values))
        top, bottom = height(level * (1 + 2 * noise)), height(level * (1 - 2 * noise))
        edges = f'y="{min(top, bottom):.1f}" width="{WIDTH - 2 * _PAD:.0f}" height="{abs(bottom - top):.1f}"'
        parts.append(f'<rect class="noise" x="{_PAD:.0f}" {edges}/>')
    if len(values) > 1:
        parts.append(f'<polyline class="line" points="{points}"/>')
    parts.append(f'<circle class="last" cx="{x[-1]:.1f}" cy="{height(values[-1]):.1f}" r="2.2"/>')
    if change is not None:
        parts += _mark(change, commits, x, height)
    parts.append("</svg>")
    return Markup("".join(parts))


def _mark(change: Mapping[str, Any], commits: Any, x: Any, height: Any) -> list[str]:
    at = int(np.searchsorted(commits, change["after_index"]))
    place = float(x[min(at, len(x) - 1)])
    old, new = float(height(change["value_before"])), float(height(change["value_after"]))
    kind = "worse" if change["direction"] == "regression" else "better"
    up = change["difference"] > 0
    tip = new - 6 if up else new + 6
    return [
        f'<path class="level" d="M{max(_PAD, place - 60):.1f} {old:.1f}H{place:.1f}"/>',
        f'<path class="level {kind}" d="M{place:.1f} {new:.1f}H{min(WIDTH - _PAD, place + 90):.1f}"/>',
        f'<path class="mark {kind}" d="M{place - 4:.1f} {new:.1f}H{place + 4:.1f}L{place:.1f} {tip:.1f}Z"/>',
    ]
