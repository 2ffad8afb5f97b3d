"""Pages about one kind of question, for suites that have benchmarks to answer it.

Each shows the newest commits of every machine and environment: numbers as tables, the same as figures to take
along.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pandas as pd
from matplotlib.figure import Figure

from mlxcache.dashboard.data.suite import (
    REFERENCE_CACHE,
    Curve,
    HeatMap,
    Race,
    Ratio,
    Rows,
    benchmarks_with,
    curves,
    newest_commits,
    option_maps,
    path_maps,
    races,
)
from mlxcache.dashboard.figures import suite as suite_figures
from mlxcache.dashboard.figures.files import Picture, draw_picture, picture_key, write_picture
from mlxcache.dashboard.output import Output
from mlxcache.dashboard.pages.render import TIMES, Pages
from mlxcache.dashboard.pages.tables import Cell, Table, number
from mlxcache.history.loading.history import facts_of
from mlxcache.reports.plain_text import short
from mlxcache.reports.units import format_value
from mlxcache.support.names import digest, slug

_MOST_PLACES: Final = 8  # machines and environments on a page
_MOST_CURVES: Final = 6  # figures of one commit
_STEPS: Final = (0.02, 0.05, 0.12, 0.25, 0.5)  # where the colours of a heat map change, as |log ratio|


@dataclass(frozen=True)
class Shown:
    """One machine, environment and commit of a page; `is_newest` says that no newer commit has these parts."""

    machine: str
    env: str
    commit: str
    is_newest: bool
    parts: list[Any]


@dataclass(frozen=True)
class Section:
    """One page: its title, its template and what it shows."""

    title: str
    template: str
    shown: list[Shown]


def suite_sections(df: pd.DataFrame) -> dict[str, Section]:
    """The pages that this table has data for, by the name of their file."""
    found: dict[str, Section] = {}

    def maps(*at: Any, known: Collection[str]) -> list[HeatMap]:
        return [*path_maps(df, *at), *option_maps(df, *at)]

    shown = _collect(df, benchmarks_with(df, "path"), maps, older=True)
    if shown:
        found["paths"] = Section("Two paths", "paths.html", shown)
    shown = _collect(df, benchmarks_with(df, "cache"), lambda *at, known: races(df, *at))
    if shown:
        found["peers"] = Section("Peers & limit", "peers.html", shown)
    rows = Rows(df)
    shown = _collect(df, benchmarks_with(df), partial(curves, df, rows=rows))
    if shown:
        found["scaling"] = Section("Scaling", "scaling.html", shown)
    return found


def part_name(part: HeatMap | Race | Curve) -> str:
    """What tells a part of a page from all others."""
    return part.name if isinstance(part, Curve) else part.title


def _collect(
    df: pd.DataFrame, benchmarks: Sequence[str], make: Callable[..., list[Any]], *, older: bool = False
) -> list[Shown]:
    """What each of the newest places has to show; `older` takes their earlier commits as well.

    `make` may leave out what is among the names `known`, unless `older` asks for it.
    """
    if not benchmarks or len(benchmarks) > 2000:
        return []
    table = df.loc[df["benchmark"].isin(benchmarks).to_numpy() & (df["status"] == "ok").to_numpy()]
    seen = table[["machine", "env", "commit_index"]].drop_duplicates()
    places = newest_commits(seen.astype({"machine": "str", "env": "str"}))
    newest = sorted(places.items(), key=lambda item: (-item[1][0], item[0]))[:_MOST_PLACES]
    names = {commit.index: commit.name for commit in facts_of(df).commits.values()}
    shown = []
    for (machine, env), commits in newest:
        seen_here: set[str] = set()
        for commit in commits:
            # A run of a part of the suite leaves the rest as new as it is.
            parts = {part_name(part): part for part in make(machine, env, commit, known=frozenset(seen_here))}
            fresh = [part for name, part in parts.items() if name not in seen_here]
            stale = [part for name, part in parts.items() if name in seen_here]
            seen_here |= parts.keys()
            if fresh:
                shown.append(Shown(machine, env, names[commit], True, fresh))
            if stale and older:
                shown.append(Shown(machine, env, names[commit], False, stale))
    return shown


def write_suite_pages(pages: Pages, out: Output, sections: dict[str, Section]) -> None:
    """Write them, with their figures and CSV files."""
    makers: dict[str, Callable[[Section], dict[str, Any]]] = {
        "paths": lambda section: _paths(pages, out, section),
        "peers": lambda section: _peers(pages, out, section),
        "scaling": lambda section: _scaling(pages, out, section),
    }
    for name, section in sections.items():
        pages.page(f"{name}.html", section.template, **makers[name](section))


def _draw(
    out: Output, name: str, alt: str, content: Any, draw: Callable[..., Figure], *, own_colours: bool = False
) -> Picture:
    picture = Picture(f"figures/{slug(name, 60)}-{digest(name)}", alt)
    key = picture_key(repr(content).encode("utf-8", "replace"))
    if not out.keep_all(picture.paths, key):
        write_picture(out, picture, key, draw_picture(draw, own_colours=own_colours))
    return picture


def heat_class(ratio: Ratio) -> str:
    """The colour of a cell: how far from 1, and which way; none where it may well be 1."""
    distance = 0.0 if ratio.may_be_one else abs(math.log(ratio.ratio))
    step = sum(distance > edge for edge in _STEPS)
    return f"heat-{'up' if ratio.ratio > 1 else 'down'}-{step}" if step else "heat-0"


def _paths(pages: Pages, out: Output, section: Section) -> dict[str, Any]:
    rows: list[list[Cell]] = []
    entries = []
    for shown in section.shown:
        maps: list[tuple[HeatMap, Picture | None]] = []
        for content in shown.parts:
            name = f"paths-{content.title}-{shown.machine}-{shown.env}"
            draw = partial(suite_figures.ratio_figure, content)
            drawn = None
            if shown.is_newest:
                drawn = _draw(out, name, f"Heat map: {content.title}", content, draw, own_colours=True)
            maps.append((content, drawn))
            rows += [
                _ratio_row(shown, content, row, column, cell) for (row, column), cell in content.cells.items()
            ]
        entries.append((shown, maps))
    header = ("machine", "env", "commit", "map", "row", "column", "ratio", "low", "high", "value", "over", "unit")
    table = pages.table(Table("csv/paths.csv", "All ratios", header, rows))
    return {"entries": entries, "table": table, "heat_class": heat_class}


def _ratio_row(shown: Shown, content: HeatMap, row: str, column: str, cell: Ratio) -> list[Cell]:
    texts = (shown.machine, shown.env, shown.commit, content.title)
    names = (f"{content.row_name} {row}".strip(), f"{content.column_name} {column}".strip())
    numbers = (cell.ratio, cell.low, cell.high, cell.value, cell.over)
    return [*map(Cell, (*texts, *names)), *(number("", value) for value in numbers), Cell(cell.unit)]


def _peers(pages: Pages, out: Output, section: Section) -> dict[str, Any]:
    rows: list[list[Cell]] = []
    entries = []
    for shown in section.shown:
        name = f"peers-{shown.machine}-{shown.env}-{shown.parts[0].title}"
        alt = "Bars: the same work on each cache; the table below has the numbers"
        drawn = _draw(out, name, alt, shown.parts, partial(suite_figures.race_figure, shown.parts))
        entries.append((shown, drawn))
        for race in shown.parts:
            own = next((value for name, value, _, _ in race.entries if name == REFERENCE_CACHE), None)
            rows += [_peer_row(shown, race, own, *entry) for entry in race.entries]
    header = ("Machine", "Work", "Cache", "Time", "99 % interval", "Over mlxcache", "Of the limit")
    return {"entries": entries, "table": pages.table(Table("csv/peers.csv", "Peers and limit", header, rows))}


def _peer_row(
    shown: Shown, race: Race, own: float | None, name: str, value: float, low: float, high: float
) -> list[Cell]:
    over = value / own if own else None
    share = race.limit / value if race.limit else None
    known = math.isfinite(low) and math.isfinite(high)
    between = f"{format_value(low, race.unit)} to {format_value(high, race.unit)}" if known else "none"
    return [
        Cell(short(shown.machine, 40), shown.machine),
        Cell(short(race.title, 60), race.title),
        Cell(name),
        number(format_value(value, race.unit), value),
        Cell(between, f"{low} to {high}" if known else "", "number"),
        number(f"{TIMES}{over:.3g}" if over else "", over),
        number(f"{share:.0%}" if share else "", share),
    ]


def _scaling(pages: Pages, out: Output, section: Section) -> dict[str, Any]:
    rows: list[list[Cell]] = []
    entries = []
    for shown in section.shown:
        by_parameter: dict[tuple[str, str], list[Curve]] = {}
        for curve in shown.parts:
            by_parameter.setdefault((curve.benchmark, curve.parameter), []).append(curve)
        # A context is what this page is about where there is one.
        groups = sorted(by_parameter.items(), key=lambda item: (item[0][1] != "context", item[0]))
        drawn = []
        for (benchmark, parameter), group in groups[:_MOST_CURVES]:
            name = f"scaling-{benchmark}-{parameter}-{group[0].fixed}-{shown.machine}-{shown.env}"
            alt = f"{benchmark} against {parameter}; the table below has the slopes"
            drawn.append(_draw(out, name, alt, group, partial(suite_figures.curve_figure, group)))
        entries.append((shown, drawn))
        rows += [_curve_row(shown, curve) for _, group in groups for curve in group]
    header = ("Machine", "Benchmark", "Against", "With", "From smallest to largest", "Slope", "Exponent")
    names = ("machine", "benchmark", "parameter", "fixed", "value_at_largest", "slope_per_unit", "exponent")
    return {"entries": entries, "table": pages.table(Table("csv/scaling.csv", "Slopes", header, rows, names))}


def _curve_row(shown: Shown, curve: Curve) -> list[Cell]:
    first, last = (format_value(y, curve.unit) for y in (curve.y[0], curve.y[-1]))
    return [
        Cell(short(shown.machine, 30), shown.machine),
        Cell(short(curve.benchmark, 60), curve.benchmark),
        Cell(curve.parameter),
        Cell(short(curve.fixed, 60), curve.fixed, "code"),
        number(f"{first} to {last}", curve.y[-1]),
        number(_slope(curve), curve.slope),
        number(f"{curve.exponent:+.2f}", curve.exponent),
    ]


def _slope(curve: Curve) -> str:
    sign = "-" if curve.slope < 0 else ""
    return f"{sign}{format_value(1024 * abs(curve.slope), curve.unit)} per 1024"
