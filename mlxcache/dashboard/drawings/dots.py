"""A row for each thing that is compared: a dot on a logarithmic axis, its interval, the number beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from mlxcache.dashboard.drawings.chart import label
from mlxcache.dashboard.drawings.numbers import log_ticks, value_text
from mlxcache.reports.plain_text import clean, short

_NAMES: Final = 210.0
_NUMBERS: Final = 200.0
_ROW: Final = 26.0
_WIDTH: Final = 900.0


@dataclass(frozen=True, slots=True)
class Dot:
    """One row; NaN ends mean no interval. kind: "own", "other" or "limit". `note` stands behind the number."""

    name: str
    value: float
    low: float
    high: float
    kind: str
    note: str = ""


def dot_rows(title: str, unit: str, dots: Sequence[Dot]) -> Markup:
    """The rows as SVG; the axis spans all of them, so that near ones are told apart beside a far one."""
    ends = [e for d in dots for e in (d.value, d.low, d.high) if math.isfinite(e) and e > 0]
    low, high = min(ends) / 1.08, max(ends) * 1.08
    left, right = _NAMES, _WIDTH - _NUMBERS
    bottom = _ROW * len(dots) + 8

    def x(value: float) -> float:
        return left + (math.log(value / low)) / math.log(high / low) * (right - left)

    scale = log_ticks(low, high, unit, 7)
    parts = [
        f'<svg class="plot" viewBox="0 0 {_WIDTH:.0f} {bottom + 26:.0f}" role="img" '
        f'aria-label="{escape(clean(title))}">'
    ]
    for place, words in zip(scale.places, scale.labels, strict=True):
        parts.append(f'<path class="grid" d="M{x(place):.1f} 4V{bottom:.0f}"/>')
        parts.append(label(x(place), bottom + 18, words, anchor="middle"))
    for i, dot in enumerate(dots):
        y = 4 + _ROW * (i + 0.5)
        known = math.isfinite(dot.low) and math.isfinite(dot.high) and dot.low > 0
        between = f" ({value_text(dot.low, unit)} to {value_text(dot.high, unit)})" if known else ""
        said = escape(clean(f"{dot.name}: {value_text(dot.value, unit)}{between}"))
        parts.append(
            f'<text class="name {dot.kind}" x="0" y="{y + 4:.1f}">{escape(clean(short(dot.name, 30)))}</text>'
        )
        parts.append(f'<g class="row {dot.kind}"><title>{said}</title>')
        if known:
            parts.append(f'<path class="whisker" d="M{x(dot.low):.1f} {y:.1f}H{x(dot.high):.1f}"/>')
        if dot.kind == "limit":
            parts.append(f'<path class="limit" d="M{x(dot.value):.1f} 4V{bottom:.0f}"/>')
        else:
            parts.append(f'<circle cx="{x(dot.value):.1f}" cy="{y:.1f}" r="5"/>')
        parts.append("</g>")
        parts.append(label(right + 12, y + 4, f"{value_text(dot.value, unit)} {dot.note}".strip(), "said"))
    parts.append("</svg>")
    return Markup("".join(parts))
