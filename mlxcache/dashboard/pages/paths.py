"""int32 against int64: the ratio that was measured in turn, the ratio over context as a picture, tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from markupsafe import Markup

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.places import Shown, collect, recent_rows
from mlxcache.dashboard.data.ratios import (
    HeatMap,
    Picture,
    Ratio,
    interleaved,
    option_maps,
    path_maps,
    path_pictures,
    path_ratios,
)
from mlxcache.dashboard.data.suite import benchmarks_with
from mlxcache.dashboard.drawings.chart import Chart, Level, Point, Trace, draw, legend
from mlxcache.dashboard.drawings.numbers import value_text
from mlxcache.dashboard.writing.page import Page, Site
from mlxcache.dashboard.writing.tables import Cell, Table, number
from mlxcache.history.statistics import counted
from mlxcache.reports.plain_text import short

_STEPS: Final = (0.02, 0.05, 0.12, 0.25, 0.5)  # where the colours of a heat map change, as |log ratio|
_MOST_MACHINES: Final = 6


@dataclass(frozen=True)
class _Content:
    maps: list[Shown]
    pictures: list[Shown]
    in_turn: list[Shown]
    counted: list[Shown]


def _find(facts: SiteFacts) -> _Content | None:
    rows = recent_rows(facts)
    df = rows.df
    benchmarks = benchmarks_with(df, "path")

    def maps(*at: Any, known: Collection[str]) -> list[HeatMap]:
        return [*path_maps(rows, *at), *option_maps(rows, *at)]

    shown = collect(df, facts, benchmarks, maps, lambda part: str(part.title))
    if not shown:
        return None
    counts = [
        name for name in benchmarks if (df["unit"][(df["benchmark"] == name).to_numpy()] == counted.UNIT).any()
    ]
    every = [str(name) for name in df["benchmark"].unique()]
    return _Content(
        shown,
        collect(
            df, facts, benchmarks, lambda *at, known: path_pictures(rows, *at), lambda part: str(part.benchmark)
        ),
        collect(df, facts, every, lambda *at, known: interleaved(rows, *at), lambda part: " ".join(part[:2])),
        collect(
            df,
            facts,
            counts,
            lambda *at, known: [part for part in path_ratios(rows, *at) if part[2].unit == counted.UNIT],
            lambda part: " ".join(part[:2]),
        ),
    )


def heat_class(ratio: Ratio) -> str:
    """The colour of a cell: how far from 1, and which way; none where it may be 1 or was not judged."""
    distance = abs(math.log(ratio.ratio)) if ratio.differs else 0.0
    step = sum(distance > edge for edge in _STEPS)
    return f"heat-{'up' if ratio.ratio > 1 else 'down'}-{step}" if step else "heat-0"


def _words(name: str, x: str, ratio: Ratio) -> str:
    between = f"{ratio.low:.3g} to {ratio.high:.3g}" if ratio.judged else "one run: not judged"
    values = f"{value_text(ratio.value, ratio.unit)} over {value_text(ratio.over, ratio.unit)}"
    return f"{name} {x}: {value_text(ratio.ratio, 'ratio')} ({between}), {values}"


def picture_drawing(picture: Picture, place: str, ends: tuple[float, float]) -> Markup:
    """One machine's lines; `ends` are shared with its neighbours, so that heights compare."""
    traces = []
    for look, line in enumerate(picture.lines):
        shift = 1.0 + 0.03 * (
            look - (len(picture.lines) - 1) / 2
        )  # intervals side by side instead of one on another
        points = [
            Point(x * shift, r.ratio, r.low, r.high, _words(line.name, f"{picture.parameter}={x:g}", r))
            for x, r in zip(line.x, line.points, strict=True)
        ]
        judged = all(r.judged for r in line.points)
        traces.append(Trace(points, line.name, look, dash=look // 8, hollow=not judged))
    xs = sorted({x for line in picture.lines for x in line.x})
    said = "; ".join(
        f"{line.name}: {line.points[0].ratio:.3g} to {line.points[-1].ratio:.3g}" for line in picture.lines[:6]
    )
    return draw(
        Chart(
            title=f"int64 over int32, {short(picture.benchmark, 60)} on {place}: {said}",
            unit="ratio",
            traces=traces,
            x_ticks=[(x, f"{x:g}") for x in xs],
            x_title=picture.parameter,
            x_scale="log",
            levels=[Level(xs[0], xs[-1], 1.0, kind="reference")],
            width=620,
            height=340,
            y_range=ends,
        )
    )


def _pictures(facts: SiteFacts, shown: Sequence[Shown]) -> list[dict[str, Any]]:
    """Benchmarks with a drawing for each machine."""
    by_benchmark: dict[str, list[tuple[Shown, Picture]]] = {}
    for one in shown:
        for picture in one.parts:
            if one.is_newest:
                by_benchmark.setdefault(picture.benchmark, []).append((one, picture))
    found = []
    for benchmark, own in by_benchmark.items():
        ratios = [r.ratio for _, picture in own for line in picture.lines for r in line.points]
        low, high = min(ratios), max(ratios)
        # Intervals are shown as far as they do not flatten the lines.
        widths = [(r.low, r.high) for _, picture in own for line in picture.lines for r in line.points if r.judged]
        ends = (
            min([low, 1.0, *(max(a, low / 1.35) for a, _ in widths)]) / 1.03,
            max([high, 1.0, *(min(b, high * 1.35) for _, b in widths)]) * 1.03,
        )
        drawn = []
        for one, picture in own[:_MOST_MACHINES]:
            place = facts.names.place(one.machine, one.env)
            traces = [Trace([], line.name, look, dash=look // 8) for look, line in enumerate(picture.lines)]
            judged = all(r.judged for line in picture.lines for r in line.points)
            drawn.append((one, picture_drawing(picture, place, ends), legend(traces), judged))
        found.append({"benchmark": benchmark, "parameter": own[0][1].parameter, "drawn": drawn})
    return sorted(found, key=lambda entry: (entry["parameter"] != "context",))


def _write(site: Site, content: _Content) -> None:
    rows = [
        _row(shown, part, row, column, cell)
        for shown in content.maps
        for part in shown.parts
        for (row, column), cell in part.cells.items()
    ]
    names = (
        "machine",
        "env",
        "commit",
        "map",
        "row",
        "column",
        "ratio",
        "low",
        "high",
        "judged",
        "value",
        "over",
        "unit",
    )
    table = site.pages.table(Table("csv/paths.csv", "All ratios", names, rows))
    turn_rows = [
        [
            *map(Cell, (s.machine, s.env, s.commit, name, params)),
            *map(partial(number, ""), (r.ratio, r.low, r.high)),
        ]
        for s, name, params, r in ((shown, *part) for shown in content.in_turn for part in shown.parts)
    ]  # fmt: skip
    turn_names = ("machine", "env", "commit", "benchmark", "params", "ratio", "low", "high")
    turn_table = site.pages.table(Table("csv/interleaved.csv", "Measured in turn", turn_names, turn_rows))
    site.pages.page(
        PAGE.path,
        "paths.html",
        in_turn=_newest(content.in_turn),
        counted=_newest(content.counted),
        turn_table=turn_table,
        pictures=_pictures(site.facts, content.pictures),
        entries=content.maps,
        table=table,
        heat_class=heat_class,
    )


def _newest(all_shown: Sequence[Shown]) -> list[tuple[Any, ...]]:
    """The parts of the newest environments, each with where it is from."""
    return [(shown, *part) for shown in all_shown for part in shown.parts if shown.is_newest]


def _row(shown: Shown, content: HeatMap, row: str, column: str, cell: Ratio) -> list[Cell]:
    texts = (shown.machine, shown.env, shown.commit, content.title)
    names = (f"{content.row_name}={row}" if row else "", f"{content.column_name}={column}" if column else "")
    ends = (cell.ratio, cell.low, cell.high)
    return [
        *map(Cell, (*texts, *names)), *(number("", value) for value in ends), Cell("yes" if cell.judged else "no"),
        number("", cell.value), number("", cell.over), Cell(cell.unit),
    ]  # fmt: skip


PAGE: Final = Page("paths.html", "int32 vs int64", _find, _write)
