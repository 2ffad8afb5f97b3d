"""The same work on several caches, and what the machine allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from markupsafe import Markup

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.places import Shown, collect, recent_rows
from mlxcache.dashboard.data.ratios import Ratio, pair_ratios
from mlxcache.dashboard.data.suite import REFERENCE_CACHE, Race, benchmarks_with, races
from mlxcache.dashboard.drawings.dots import Dot, dot_rows
from mlxcache.dashboard.drawings.numbers import TIMES, value_text
from mlxcache.dashboard.writing.page import Page, Site
from mlxcache.dashboard.writing.tables import Cell, Table, number
from mlxcache.reports.plain_text import short

_FLOOR: Final = "bare"  # no cache at all: what is compared with it, not a rival


def _find(facts: SiteFacts) -> list[tuple[Shown, dict[tuple[str, str], Ratio]]] | None:
    rows = recent_rows(facts)
    shown = collect(
        rows.df,
        facts,
        benchmarks_with(rows.df, "cache"),
        lambda *at, known: races(rows, *at),
        lambda part: str(part.title),
    )
    found = []
    for one in shown:
        index = facts.by_name[one.commit].index
        ratios: dict[tuple[str, str], Ratio] = {}
        for race in one.parts:
            for name, *_ in race.entries:
                if name != REFERENCE_CACHE:
                    at = (one.machine, one.env, index)
                    for fixed, ratio in pair_ratios(rows, race.benchmark, "cache", REFERENCE_CACHE, name, at):
                        words = [race.benchmark, *(f"{key}={value}" for key, value in fixed.items())]
                        ratios[" ".join(words), name] = ratio
        found.append((one, ratios))
    return found or None


def _drawing(race: Race, place: str) -> Markup:
    floor = next((value for name, value, _, _ in race.entries if name == _FLOOR), None)
    dots = []
    if race.limit is not None:
        dots.append(Dot("the machine's limit", race.limit, math.nan, math.nan, "limit"))
    for name, value, low, high in race.entries:
        note = f"{TIMES}{value / floor:.3g} of {_FLOOR}" if floor and name != _FLOOR else ""
        dots.append(Dot(name, value, low, high, "own" if name == REFERENCE_CACHE else "other", note))
    said = ", ".join(f"{name} {value_text(value, race.unit)}" for name, value, _, _ in race.entries)
    return dot_rows(f"{race.title} on {place}: {said}", race.unit, dots)


def verdict(race: Race, ratios: dict[tuple[str, str], Ratio]) -> str:
    """Against the quickest rival, in words."""
    rivals = [entry for entry in race.entries if entry[0] not in (REFERENCE_CACHE, _FLOOR)]
    own = next((value for name, value, _, _ in race.entries if name == REFERENCE_CACHE), None)
    if not rivals or own is None:
        return ""
    name, value = min(rivals, key=lambda entry: entry[1])[:2]
    ratio = ratios.get((race.title, name))
    pair = f"{value_text(own, race.unit)} against {value_text(value, race.unit)}"
    if ratio is None or not ratio.judged:
        return f"{REFERENCE_CACHE} takes {TIMES}{own / value:.3g} of what {name} takes ({pair}); not judged yet."
    between = f"{TIMES}{ratio.low:.3g} to {TIMES}{ratio.high:.3g}"
    if not ratio.differs:
        return f"{REFERENCE_CACHE} and {name} cannot be told apart ({pair}, {between})."
    word = "loses to" if ratio.ratio > 1 else "beats"
    return f"{REFERENCE_CACHE} {word} {name}: {pair}, {between}."


def _write(site: Site, content: Sequence[tuple[Shown, dict[tuple[str, str], Ratio]]]) -> None:
    facts = site.facts
    rows: list[list[Cell]] = []
    entries: list[dict[str, Any]] = []
    for shown, ratios in content:
        place = facts.names.place(shown.machine, shown.env)
        drawn = [(race, _drawing(race, place), verdict(race, ratios)) for race in shown.parts]
        entries.append({"shown": shown, "drawn": drawn})
        for race in shown.parts:
            rows += [_row(facts, shown, race, ratios, *entry) for entry in race.entries]
    header = (
        "Machine",
        "Environment",
        "Commit",
        "Work",
        "Cache",
        "Value",
        "99 % interval of the run",
        "mlxcache over it",
        "99 % interval of runs",
        "Of the limit",
    )
    names = (
        "machine",
        "env",
        "commit",
        "work",
        "cache",
        "value",
        "ci99_low",
        "ci99_high",
        "unit",
        "mlxcache_over_it",
        "over_low",
        "over_high",
        "share_of_limit",
    )
    table = site.pages.table(Table("csv/peers.csv", "Versus other caches", header, rows, names))
    site.pages.page(PAGE.path, "peers.html", entries=entries, table=table)


def _row(
    facts: SiteFacts,
    shown: Shown,
    race: Race,
    ratios: dict[tuple[str, str], Ratio],
    name: str,
    value: float,
    low: float,
    high: float,
) -> list[Cell]:
    ratio = ratios.get((race.title, name))
    share = race.limit / value if race.limit else None
    known = math.isfinite(low) and math.isfinite(high)
    over = ratio.ratio if ratio else None
    runs = f"{ratio.low:.3g} to {ratio.high:.3g}" if ratio and ratio.judged else "not judged" if ratio else ""
    return [
        Cell(short(facts.names.machine(shown.machine), 40), shown.machine),
        Cell(short(facts.names.environment(shown.env), 50), shown.env),
        Cell(shown.commit[:8], shown.commit),
        Cell(short(race.title, 60), race.title),
        Cell(name),
        number(value_text(value, race.unit), value),
        number(f"{value_text(low, race.unit)} to {value_text(high, race.unit)}" if known else "none", low),
        number("", high, "hidden"),
        Cell("", race.unit, "hidden"),
        number(f"{TIMES}{over:.3g}" if over else "", over),
        number(runs, ratio.low if ratio else None),
        number("", ratio.high if ratio else None, "hidden"),
        number(f"{share:.0%}" if share else "", share),
    ]


PAGE: Final = Page("peers.html", "Versus other caches", _find, _write)
