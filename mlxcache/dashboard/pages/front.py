"""The first page: the answer, what is slower, what was measured last and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pandas as pd

from mlxcache.dashboard.data.answer import Answer
from mlxcache.dashboard.data.quality import Coverage, Noise
from mlxcache.dashboard.pages.render import Pages
from mlxcache.dashboard.pages.sparkline import sparkline
from mlxcache.history.loading.history import facts_of
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.reports.events import Event, left_standing, standing

_MOST_CHANGES: Final = 25
_MOST_ENDED: Final = 10
_MOST_MACHINES: Final = 8
_MOST_PROBLEMS: Final = 50


def write_front_page(
    pages: Pages,
    df: pd.DataFrame,
    store: SeriesStore,
    events: Sequence[Event],
    said: Answer,
    noise: Mapping[str, Noise],
    covered: Sequence[Coverage],
    notices: Sequence[str],
) -> None:
    """Write index.html."""
    now, ended = standing(list(events)), left_standing(list(events))
    problems = facts_of(df).problems
    commits = sorted(set(facts_of(df).commits.values()), key=lambda commit: commit.index)
    latest: dict[str, Coverage] = {}
    for entry in covered:
        latest.setdefault(entry.machine, entry)
    pages.page(
        "index.html",
        "front.html",
        answer=said,
        shown=now[:_MOST_CHANGES],
        n_standing=len(now),
        ended=ended[:_MOST_ENDED],
        n_ended=len(ended),
        n_recovered=sum(event.is_regression and event.state == "recovered" for event in events),
        n_improved=sum(not event.is_regression for event in events),
        sparks={
            event.address: sparkline(store.series(store.position(int(event.lead["series"]))), event.lead)
            for event in [*now[:_MOST_CHANGES], *ended[:_MOST_ENDED]]
        },
        machines=list(latest.values())[:_MOST_MACHINES],
        n_machines=len(latest),
        noise=noise,
        commits=commits,
        n_series=len(store),
        n_benchmarks=len(store.by_benchmark),
        problems=problems[:_MOST_PROBLEMS],
        n_problems=len(problems),
        n_lost=problems.n_values,
        statuses={str(status): int(n) for status, n in df["status"].value_counts().items()},
        notices=notices,
    )
