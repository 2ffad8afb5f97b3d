"""A page for each measured commit: what moved there, what was measured, and how its values lie to those before."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.repository import commit_page
from mlxcache.dashboard.writing.links import compare_link
from mlxcache.dashboard.writing.page import Page, Site, with_series
from mlxcache.reports.events import Event, size

_MOST: Final = 200
_MOST_EVENTS: Final = 80


def _write(site: Site, facts: SiteFacts) -> None:
    measured = measured_at(facts)
    here: dict[int, list[Event]] = {}
    for event in facts.events:
        for index in range(event.before_index + 1, event.after_index + 1):
            here.setdefault(index, []).append(event)
    last_of: dict[str, int] = {}
    entries = []
    for commit in facts.commits:
        places = measured.get(commit.index, {})
        # What came before on the machines of this commit; the newest where they differ.
        before = max((last_of[m] for m in {machine for machine, _ in places} if m in last_of), default=None)
        last_of |= dict.fromkeys({machine for machine, _ in places}, commit.index)
        moved = sorted(here.get(commit.index, []), key=lambda e: (e.after_index != commit.index, -size(e.lead)))
        exact = [event for event in moved if event.after_index == commit.index]
        previous = None if before is None else facts.commits[before]
        entry = {
            "commit": commit,
            "n_worse": sum(event.is_regression and not event.uncertain for event in exact),
            "n_better": sum(not event.is_regression and not event.uncertain for event in exact),
            "places": places,
            "n_series": sum(n for n, _ in places.values()),
        }
        entries.append(entry)
        site.pages.page(
            commit_page(commit.name),
            "commit.html",
            **entry,
            address=facts.repository.address(commit.name),
            exact=exact[:_MOST_EVENTS],
            n_exact=len(exact),
            within=[event for event in moved if event.after_index != commit.index][:_MOST_EVENTS],
            previous=previous,
            comparison=compare_link(previous.name, commit.name) if previous else "",
        )
    entries.reverse()
    pages = [entries[i : i + _MOST] for i in range(0, len(entries), _MOST)]
    paths = [PAGE.path, *(f"commits-{i}.html" for i in range(2, len(pages) + 1))]
    for path, own in zip(paths, pages, strict=True):
        site.pages.page(path, "commits.html", entries=own, paths=paths, n=len(entries))


def measured_at(facts: SiteFacts) -> dict[int, dict[tuple[str, str], tuple[int, float]]]:
    """By commit and place: how many series were measured, and the median of value over the value before."""
    store = facts.store
    steps: dict[int, dict[tuple[str, str], list[float]]] = {}
    for position, key in enumerate(store.keys):
        series = store.series(position)
        with np.errstate(all="ignore"):
            ratios = series.values[1:] / series.values[:-1]
        for commit, ratio in zip(series.commits.tolist(), [np.nan, *ratios.tolist()], strict=True):
            steps.setdefault(commit, {}).setdefault((key.machine, key.env), []).append(ratio)
    found: dict[int, dict[tuple[str, str], tuple[int, float]]] = {}
    for commit, places in steps.items():
        for place, ratios_here in sorted(places.items()):
            array = np.array(ratios_here)
            array = array[np.isfinite(array) & (array > 0)]
            middle = float(np.median(array)) if len(array) else float("nan")
            found.setdefault(commit, {})[place] = (len(ratios_here), middle)
    return found


PAGE: Final[Page[Any]] = Page("commits.html", "Commits", with_series, _write)
