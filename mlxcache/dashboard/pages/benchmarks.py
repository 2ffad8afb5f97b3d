"""All benchmarks at a glance: a card each with its course, its newest value and its last change."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mlxcache.dashboard.data.answer import plural
from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.drawings.numbers import value_text
from mlxcache.dashboard.drawings.sparkline import sparkline
from mlxcache.dashboard.writing.links import explorer_link
from mlxcache.dashboard.writing.page import Page, Site, with_series
from mlxcache.dashboard.writing.tables import Cell, Table, number
from mlxcache.history.answering.account import LEAST_COMMITS
from mlxcache.history.statistics.noise import short_term_sigma
from mlxcache.reports.events import Event
from mlxcache.reports.plain_text import short

_A_PAGE: Final = 400
_FEW: Final = 4


def _write(site: Site, facts: SiteFacts) -> None:
    newest: dict[str, Event] = {}
    for event in facts.events:
        newest.setdefault(event.benchmark, event)
    cards = []
    rows = []
    for name, positions in facts.store.by_benchmark.items():
        card = _card(facts, name, positions, newest.get(name))
        cards.append(card)
        event, unit = card["event"], card["unit"]
        rows.append(
            [
                Cell(name),
                number(str(len(positions)), len(positions)),
                Cell(" ".join(facts.names.parameters(name))),
                number(value_text(card["last"], unit), card["last"]),
                Cell(unit),
                Cell(event.after if event else ""),
                Cell(event.direction if event else ""),
                number("", float(event.lead["magnitude"]) if event else None),
            ]
        )
    header = ("benchmark", "n_series", "parameters", "last_value", "unit", "last_change", "direction", "magnitude")
    site.pages.table(Table("csv/benchmarks.csv", "All benchmarks", header, rows))
    parts = [cards[i : i + _A_PAGE] for i in range(0, len(cards), _A_PAGE)]
    paths = [PAGE.path, *(f"benchmarks-{i}.html" for i in range(2, len(parts) + 1))]
    for path, part in zip(paths, parts, strict=True):
        site.pages.page(path, "benchmarks.html", cards=part, n=len(cards), paths=paths)


def _card(facts: SiteFacts, name: str, positions: list[int], event: Event | None) -> dict[str, Any]:
    """The series that changed last, else the one with the longest history, stands for all."""
    store = facts.store
    shown = store.position(int(event.lead["series"])) if event else store.longest(positions)
    series = store.series(shown)
    key = store.keys[shown]
    known = len(series.values) >= _FEW and bool((series.values > 0).all())
    noise = short_term_sigma(np.log(series.values)) if known else 0.0
    # A search finds parameters and their values as well as the name.
    words: dict[str, None] = {}
    for position in positions[:200]:
        own = store.keys[position]
        words |= dict.fromkeys(f"{n}={v}" for n, v in facts.names.pairs(name, own.params))
        words |= dict.fromkeys([facts.names.machine(own.machine)])
    return {
        "name": name,
        "n": len(positions),
        "key": key,
        "told": "no change" if len(series.values) >= LEAST_COMMITS else plural(len(series.values), "value"),
        "params": facts.names.params(name, key.params),
        "last": float(series.values[-1]),
        "unit": key.unit,
        "event": event,
        "noise": noise,
        "spark": sparkline(series, noise=noise),
        "link": explorer_link(facts, name),
        "text": short(" ".join([name, *words]), 1500),
    }


PAGE: Final = Page("benchmarks.html", "Benchmarks", with_series, _write)
