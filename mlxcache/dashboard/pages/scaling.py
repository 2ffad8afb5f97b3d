"""Cost against size: every benchmark against every numeric parameter that spans a factor of four."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from markupsafe import Markup

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.places import Shown, collect, recent_rows
from mlxcache.dashboard.data.suite import Curve, benchmarks_with, curves
from mlxcache.dashboard.drawings.chart import Chart, Point, Trace, draw, legend
from mlxcache.dashboard.drawings.numbers import value_text
from mlxcache.dashboard.writing.page import Page, Site
from mlxcache.dashboard.writing.tables import Cell, Table, number
from mlxcache.reports.plain_text import short

_COLOURS: Final = 8
_MOST_FIGURES: Final = 60


def _find(facts: SiteFacts) -> list[Shown] | None:
    rows = recent_rows(facts)
    shown = collect(rows.df, facts, benchmarks_with(rows.df), partial(curves, rows), lambda part: str(part.name))
    return shown or None


def looks_of(group: Sequence[Curve]) -> list[tuple[Curve, int, int]]:
    """Each curve with its colour and dash: a parameter with two values is told by the dash, the rest by colour."""
    values: dict[str, list[str]] = {}
    for curve in group:
        for name, value in curve.others:
            if value not in values.setdefault(name, []):
                values[name].append(value)
    pair = next((name for name, own in values.items() if len(own) == 2), None) if len(values) > 1 else None
    colours: dict[tuple[tuple[str, str], ...], int] = {}
    found = []
    for curve in group:
        rest = tuple(item for item in curve.others if item[0] != pair)
        own = dict(curve.others).get(pair or "", "")
        dash = values[pair].index(own) if pair and own in values[pair] else 0
        found.append((curve, colours.setdefault(rest, len(colours)), dash))
    return found


def curve_drawing(group: Sequence[tuple[Curve, int, int]], place: str) -> tuple[Markup, Markup]:
    """Curves of one benchmark against one parameter, both axes logarithmic, and their legend."""
    first = group[0][0]
    traces = []
    for curve, colour, dash in group:
        points = [
            Point(x, y, low, high, f"{curve.fixed} {curve.parameter}={x:g}: {value_text(y, curve.unit)}")
            for x, y, low, high in zip(curve.x, curve.y, curve.low, curve.high, strict=True)
        ]
        traces.append(Trace(points, curve.fixed, colour % _COLOURS, dash))
    xs = sorted({x for curve, _, _ in group for x in curve.x})
    said = "; ".join(f"{c.fixed or 'cost'} {c.exponent:+.2f}" for c, _, _ in group[:6])
    chart = Chart(
        title=f"{short(first.benchmark, 60)} against {first.parameter} on {place}, exponents: {said}",
        unit=first.unit,
        traces=traces,
        x_ticks=[(x, f"{x:g}") for x in xs],
        x_title=first.parameter,
        x_scale="log",
        y_scale="log",
        width=620,
        height=360,
        least=0.3,
    )
    return draw(chart), legend(traces)


def _figures(shown: Shown, place: str) -> list[dict[str, Any]]:
    by_parameter: dict[tuple[str, str], list[Curve]] = {}
    for curve in shown.parts:
        by_parameter.setdefault((curve.benchmark, curve.parameter), []).append(curve)
    # A context is what this page is about where there is one.
    groups = sorted(by_parameter.items(), key=lambda item: (item[0][1] != "context", item[0]))
    found = []
    for (benchmark, parameter), group in groups:
        looks = looks_of(group)
        n_parts = max(colour for _, colour, _ in looks) // _COLOURS + 1
        for part in range(n_parts):
            own = [entry for entry in looks if entry[1] // _COLOURS == part]
            drawing, names = curve_drawing(own, place)
            found.append(
                {"benchmark": benchmark, "parameter": parameter, "drawing": drawing, "legend": names,
                 "part": f"{part + 1} of {n_parts}" if n_parts > 1 else ""}
            )  # fmt: skip
    return found


def _write(site: Site, content: Sequence[Shown]) -> None:
    facts = site.facts
    entries = []
    for shown in content:
        if shown.is_newest:
            figures = _figures(shown, facts.names.place(shown.machine, shown.env))
            entries.append((shown, figures[:_MOST_FIGURES], len(figures)))
    rows = [_row(facts, shown, curve) for shown in content for curve in shown.parts]
    header = (
        "Machine",
        "Environment",
        "Commit",
        "Benchmark",
        "Against",
        "With",
        "From smallest to largest",
        "Slope",
        "Exponent",
    )
    names = (
        "machine",
        "env",
        "commit",
        "benchmark",
        "parameter",
        "fixed",
        "value_at_smallest",
        "value_at_largest",
        "unit",
        "slope_per_unit",
        "exponent",
    )
    table = site.pages.table(Table("csv/scaling.csv", "Slopes", header, rows, names, most=60))
    n_places = len({(shown.machine, shown.env) for shown in content})
    site.pages.page(PAGE.path, "scaling.html", entries=entries, table=table, n_places=n_places)


def _row(facts: SiteFacts, shown: Shown, curve: Curve) -> list[Cell]:
    first, last = (value_text(y, curve.unit) for y in (curve.y[0], curve.y[-1]))
    return [
        Cell(short(facts.names.machine(shown.machine), 30), shown.machine),
        Cell(short(facts.names.environment(shown.env), 50), shown.env),
        Cell(shown.commit[:8], shown.commit),
        Cell(short(curve.benchmark, 60), curve.benchmark),
        Cell(curve.parameter),
        Cell(short(curve.fixed, 60), curve.fixed, "code"),
        number(f"{first} to {last}", curve.y[0]),
        number("", curve.y[-1], "hidden"),
        Cell("", curve.unit, "hidden"),
        number(_slope(curve), curve.slope),
        number(f"{curve.exponent:+.2f}", curve.exponent),
    ]


def _slope(curve: Curve) -> str:
    sign = "-" if curve.slope < 0 else ""
    return f"{sign}{value_text(1024 * abs(curve.slope), curve.unit)} per 1024"


PAGE: Final = Page("scaling.html", "Cost against size", _find, _write)
