"""All benchmarks at a glance: a card each with its course, its newest value and its last change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mlxcache.dashboard.pages.render import Pages
from mlxcache.dashboard.pages.sparkline import sparkline
from mlxcache.dashboard.pages.tables import Cell, Table, number
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.reports.events import Event
from mlxcache.reports.units import format_value

_A_PAGE: Final = 400


def write_benchmark_pages(pages: Pages, store: SeriesStore, events: Sequence[Event]) -> None:
    """Write benchmarks.html, and more of them where there are many."""
    newest: dict[str, Event] = {}
    for event in events:
        newest.setdefault(event.benchmark, event)
    cards = []
    rows = []
    for name, positions in store.by_benchmark.items():
        # The series that changed last, else the one with the longest history, stands for all.
        found = newest.get(name)
        shown = store.position(int(found.lead["series"])) if found else store.longest(positions)
        series = store.series(shown)
        unit = store.keys[shown].unit
        last = float(series.values[-1])
        cards.append(
            {
                "name": name,
                "n": len(positions),
                "key": store.keys[shown],
                "last": last,
                "unit": unit,
                "event": found,
                "spark": sparkline(series),
            }
        )
        rows.append(
            [
                Cell(name),
                number(str(len(positions)), len(positions)),
                number(format_value(last, unit), last),
                Cell(unit),
                Cell(found.after if found else ""),
                Cell(found.direction if found else ""),
                number("", float(found.lead["magnitude"]) if found else None),
            ]
        )
    header = ("benchmark", "series", "last_value", "unit", "last_change", "direction", "magnitude")
    pages.table(Table("csv/benchmarks.csv", "All benchmarks", header, rows))
    parts = [cards[i : i + _A_PAGE] for i in range(0, len(cards), _A_PAGE)]
    paths = ["benchmarks.html", *(f"benchmarks-{i}.html" for i in range(2, len(parts) + 1))]
    for path, part in zip(paths, parts, strict=True):
        pages.page(path, "benchmarks.html", cards=part, n=len(cards), paths=paths)
