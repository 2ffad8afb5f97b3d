"""A chart with axes as inline SVG: values, intervals, levels, ranges. Colours come from the page's style sheet.

Every point has its words in a title element, so that a pointer finds them without a script; what a chart says
stands in a table or text beside it as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from markupsafe import Markup, escape

from mlxcache.dashboard.drawings.numbers import Ticks, apart, log_ticks, ticks
from mlxcache.reports.plain_text import clean

Scale = Literal["linear", "log"]
_LEFT: Final = 62.0
_RIGHT: Final = 14.0
_TOP: Final = 26.0
_BOTTOM: Final = 44.0
_DIGIT: Final = 7.7  # the widest sans of the style sheet, at its 12 px; digits, and bold letters
_BOLD: Final = 8.4
_TINY: Final = 1e-12
_HUGE: Final = 1e15
_MANY: Final = 400  # points of a trace from which they are dots without words
# Drawn around 0, 0: a series is told by its shape as well as by its colour.
_PATHS: Final = (
    "M-3-3H3V3H-3Z",
    "M0-4 4 3H-4Z",
    "M0-4.3 4.3 0 0 4.3-4.3 0Z",
    "M0 4 4-3H-4Z",
    "M-1.3-4H1.3V-1.3H4V1.3H1.3V4H-1.3V1.3H-4V-1.3H-1.3Z",
    "M0-4.5 1.2-1.2 4.5 0 1.2 1.2 0 4.5-1.2 1.2-4.5 0-1.2-1.2Z",
    "M-4-2.5-2.5-4 0-1.5 2.5-4 4-2.5 1.5 0 4 2.5 2.5 4 0 1.5-2.5 4-4 2.5-1.5 0Z",
)
SHAPES: Final = ('<circle r="3.4"/>', *(f'<path d="{path}"/>' for path in _PATHS))


def label(x: float, y: float, words: str, kind: str = "tick", anchor: str = "start") -> str:
    """A text element."""
    end = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{kind}" x="{_at(x)}" y="{_at(y)}"{end}>{escape(clean(words))}</text>'


def _at(place: float) -> str:
    """A place on the paper, to a tenth of a pixel."""
    return f"{place:.1f}".removesuffix(".0")


def _ticks(places: Sequence[tuple[float, float, str]], anchor: str) -> str:
    """The words along an axis: what all have in common is said once."""
    texts = [f'<text x="{_at(x)}" y="{_at(y)}">{escape(clean(words))}</text>' for x, y, words in places]
    return f'<g class="tick" text-anchor="{anchor}">{"".join(texts)}</g>' if texts else ""


@dataclass(frozen=True, slots=True)
class Point:
    """One value; NaN ends mean that it has no interval. `words` is what a pointer on it reads."""

    x: float
    y: float
    low: float = math.nan
    high: float = math.nan
    words: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """Points of one series; `look` picks colour and shape, -1 is quiet. `dash` picks the line's pattern."""

    points: Sequence[Point]
    name: str = ""
    look: int = -1
    dash: int = 0
    line: bool = True
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """A horizontal line from x to x with words above it."""

    left: float
    right: float
    y: float
    words: str = ""
    kind: str = "level"


@dataclass(frozen=True, slots=True)
class Area:
    """A shaded part: from x to x, and from y to y where those are given."""

    left: float
    right: float
    low: float = -math.inf
    high: float = math.inf
    kind: str = "range"
    words: str = ""


@dataclass(frozen=True)
class Chart:
    """What a chart shows. `least` is the smallest share of a value that its height may stand for."""

    title: str
    unit: str
    traces: Sequence[Trace]
    x_ticks: Sequence[tuple[float, str]]
    x_title: str = ""
    y_title: str = ""
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    levels: Sequence[Level] = ()
    areas: Sequence[Area] = ()
    marks: Sequence[str] = field(default=())  # ready SVG in units of the page, from `mark`
    width: int = 900
    height: int = 380
    least: float = 0.06
    include: Sequence[float] = ()
    x_range: tuple[float, float] | None = None
    bands: Sequence[tuple[float, float, float]] = ()  # x, low, high: one shaded strip
    y_range: tuple[float, float] | None = None
    flags: Sequence[tuple[float, str]] = ()  # vertical lines with words at their top, as releases
    plain: bool = False  # points are dots without words, to a pixel, for where thousands of drawings must be small


def draw(chart: Chart) -> Markup:
    """The chart as an SVG element."""
    return _Drawing(chart).svg()


def legend(traces: Sequence[Trace]) -> Markup:
    """Names of the traces with their shapes and colours, as a list."""
    entries = [
        f'<li><svg viewBox="-10 -6 20 12" width="20" height="12" aria-hidden="true" class="plot">'
        f'<path class="line s{trace.look} d{trace.dash}" d="M-10 0H10"/><g class="point s{trace.look}">'
        f"{SHAPES[trace.look % len(SHAPES)]}</g></svg>{escape(clean(trace.name))}</li>"
        for trace in traces
        if trace.name
    ]
    return Markup(f'<ul class="legend">{"".join(entries)}</ul>') if entries else Markup("")


class _Drawing:
    """Places on the paper."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self._log_y = chart.y_scale == "log" and all(p.y > 0 for t in chart.traces for p in t.points)
        sizes = [p.y for t in chart.traces for p in t.points if math.isfinite(p.y)]
        # Beyond what logarithms of neighbours can hold a linear axis is drawn.
        self._log_y = self._log_y and bool(sizes) and min(sizes) > _TINY and max(sizes) < _HUGE
        self.low, self.high = self._heights()
        every = [p.x for t in chart.traces for p in t.points] or [0.0]
        left, right = chart.x_range or (min(every), max(every))
        if left == right:
            left, right = (left / 2, right * 2) if chart.x_scale == "log" else (left - 1, right + 1)
        self.left, self.right = left, right
        self.pad = 14.0
        find = log_ticks if self._log_y else ticks
        self.scale = find(self.low, self.high, chart.unit)
        # As wide as the longest number of the axis.
        self.start = max(_LEFT, _DIGIT * max(map(len, self.scale.labels), default=0) + 14.0)

    def _heights(self) -> tuple[float, float]:
        """What the axis spans: the bulk of the values, so that one ten times off does not flatten the others."""
        chart = self.chart
        if chart.y_range:
            return chart.y_range
        ys = sorted(p.y for t in chart.traces for p in t.points if math.isfinite(p.y))
        if not ys:
            return 0.0, 1.0
        cut = len(ys) // 100 if len(ys) >= 100 else 0
        inner = ys[cut : len(ys) - cut] if cut else ys
        low, high = inner[0], inner[-1]
        more = [*chart.include, *(level.y for level in chart.levels)]
        more += [end for _, *both in chart.bands for end in both if math.isfinite(end)]
        ends = [e for t in chart.traces for p in t.points for e in (p.low, p.high) if math.isfinite(e)]
        if len(ys) <= 60:  # intervals count while they are not most of the picture
            room = max(high - low, chart.least * max(abs(low), abs(high)))
            more += [min(max(e, low - room), high + room) for e in ends]
        low, high = min([low, *more]), max([high, *more])
        if self._log_y and low > 0:
            ratio = max(high / low, 1 + chart.least)
            middle = math.sqrt(high * low)
            return middle / ratio**0.58, middle * ratio**0.58
        least = chart.least * max(abs(low), abs(high), 1e-300)
        if high - low < least:
            middle = (low + high) / 2
            low, high = middle - least / 2, middle + least / 2
        room = 0.08 * (high - low)
        return (max(low - room, 0.0) if low >= 0 else low - room), high + room

    def x(self, value: float) -> float:
        """From the data to the paper."""
        a, b, v = self.left, self.right, value
        if self.chart.x_scale == "log":
            a, b, v = math.log(a), math.log(b), math.log(v)
        start, end = self.start + self.pad, self.chart.width - _RIGHT - self.pad
        return start + (v - a) / (b - a) * (end - start)

    def y(self, value: float) -> float:
        """From the data to the paper; what is outside lies on the edge."""
        a, b, v = self.low, self.high, min(max(value, self.low), self.high)
        if self._log_y:
            a, b, v = math.log(a), math.log(b), math.log(v)
        bottom = self.chart.height - _BOTTOM
        return bottom - (v - a) / ((b - a) or 1.0) * (bottom - _TOP)

    def svg(self) -> Markup:
        """All of it."""
        chart = self.chart
        parts = [
            f'<svg class="plot" viewBox="0 0 {chart.width} {chart.height}" role="img" '
            f'aria-label="{escape(clean(chart.title))}">'
        ]
        parts += self._axes(self.scale)
        parts += self._bands()
        parts += [self._area(area) for area in chart.areas]
        parts += [part for trace in chart.traces for part in self._trace(trace)]
        parts += [part for level in chart.levels for part in self._level(level)]
        parts += chart.marks
        parts.append("</svg>")
        return Markup("".join(parts))

    def _axes(self, scale: Ticks) -> list[str]:
        chart = self.chart
        right, bottom = chart.width - _RIGHT, chart.height - _BOTTOM
        heights = [self.y(place) for place in scale.places]
        grid = "".join(f"M{self.start:.0f} {_at(y)}H{right:.0f}" for y in heights)
        numbers = [(self.start - 8, y + 4, words) for y, words in zip(heights, scale.labels, strict=True)]
        parts = [f'<path class="grid" d="{grid}"/>', _ticks(numbers, "end")]
        title = chart.y_title or scale.unit
        if title:
            parts.append(label(6, 14, title))
        axis = f"M{self.start:.0f} {_at(bottom)}H{right:.0f}"
        inside = []
        places = [self.x(x) for x, _ in chart.x_ticks]
        widest = max((len(words) for _, words in chart.x_ticks), default=0)
        for i in apart(places, 7.2 * widest + 12):
            at_edge = places[i] > right - 3.6 * widest
            axis += f"M{_at(places[i])} {_at(bottom)}v5"
            words = chart.x_ticks[i][1]
            if at_edge:
                parts.append(label(min(places[i] + 3.6 * widest, right), bottom + 19, words, anchor="end"))
            else:
                inside.append((places[i], bottom + 19, words))
        parts += [f'<path class="axis" d="{axis}"/>', _ticks(inside, "middle")]
        if chart.x_title:
            parts.append(label((self.start + right) / 2, chart.height - 6, chart.x_title, anchor="middle"))
        for x, words in chart.flags:
            place = self.x(x)
            parts.append(f'<path class="flag" d="M{place:.1f} {_TOP - 6:.0f}V{bottom:.1f}"/>')
            parts.append(label(place, _TOP - 10, words, anchor="middle"))
        return parts

    def _area(self, area: Area) -> str:
        top = self.y(area.high) if math.isfinite(area.high) else _TOP - 6
        bottom = self.y(area.low) if math.isfinite(area.low) else self.chart.height - _BOTTOM
        left, right = sorted((self.x(area.left), self.x(area.right)))
        words = f"<title>{escape(clean(area.words))}</title>" if area.words else ""
        width, height = max(right - left, 1.5), max(bottom - top, 0.5)
        size = f'x="{_at(left)}" y="{_at(top)}" width="{_at(width)}" height="{_at(height)}"'
        return f'<rect class="{area.kind}" {size}>{words}</rect>'

    def _bands(self) -> list[str]:
        ends = [(x, low, high) for x, low, high in self.chart.bands if math.isfinite(low) and math.isfinite(high)]
        if len(ends) < 2:
            return []
        way = [f"{self.x(x):.1f},{self.y(high):.1f}" for x, _, high in ends]
        way += [f"{self.x(x):.1f},{self.y(low):.1f}" for x, low, _ in reversed(ends)]
        return [f'<polygon class="band" points="{" ".join(way)}"/>']

    def _level(self, level: Level) -> list[str]:
        y = self.y(level.y)
        left, right = self.x(level.left), self.x(level.right)
        parts = [f'<path class="{level.kind}" d="M{_at(left)} {_at(y)}H{_at(max(right, left + 6))}"/>']
        if level.words:
            edge = self.chart.width - _RIGHT
            late = left + 3 + _BOLD * len(level.words) > edge
            place = (edge, "end") if late else (left + 3, "start")
            parts.append(label(place[0], y - 6, level.words, f"said {level.kind}", place[1]))
        return parts

    def _trace(self, trace: Trace) -> list[str]:
        points = [p for p in trace.points if math.isfinite(p.y)]
        many = self.chart.plain or len(points) > _MANY
        look = f"s{trace.look}" if trace.look >= 0 else "quiet"
        place = "{:.0f}".format if self.chart.plain else _at
        whiskers = [
            f"M{place(self.x(p.x))} {place(self.y(p.low))}V{place(self.y(p.high))}"
            for p in points
            if math.isfinite(p.low) and math.isfinite(p.high) and len(points) <= _MANY
        ]
        found = [f'<path class="whisker {look}" d="{"".join(whiskers)}"/>'] if whiskers else []
        if trace.line and len(points) > 1:
            path = " ".join(f"{_at(self.x(p.x))},{_at(self.y(p.y))}" for p in points)
            found.append(f'<polyline class="line {look} d{trace.dash}" points="{path}"/>')
        shape = SHAPES[trace.look % len(SHAPES)] if trace.look >= 0 else '<circle r="2.6"/>'
        if many:
            dots = "".join(f"M{place(self.x(p.x))} {place(self.y(p.y))}h0" for p in points)
            return [*found, f'<path class="dots {look}" d="{dots}"/>']
        inside = []
        for p in points:
            words = f"<title>{escape(clean(p.words))}</title>" if p.words else ""
            inside.append(f'<g transform="translate({_at(self.x(p.x))} {_at(self.y(p.y))})">{words}{shape}</g>')
        hollow = " hollow" if trace.hollow else ""
        found.append(f'<g class="point {look}{hollow}">{"".join(inside)}</g>')
        return found
