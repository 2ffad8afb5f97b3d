"""The answer that the first page gives: is anything slower, since when, by how much, which commit."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pandas as pd

from mlxcache.dashboard.events import Event, standing
from mlxcache.dashboard.plain_text import short
from mlxcache.dashboard.series_store import SeriesStore
from mlxcache.dashboard.units import format_change
from mlxcache.history.commits import Commit

# The detector needs three values on each side of a change.
LEAST_COMMITS: Final = 6


@dataclass(frozen=True, slots=True)
class Answer:
    """What stands at the top: `mood` picks the sign, `sentence` is read first, `detail` second."""

    mood: Literal["fine", "worse", "unknown"]
    sentence: str
    detail: str


def plural(n: int, word: str, many: str = "") -> str:
    """A number and its noun."""
    return f"{n:,} {word if n == 1 else many or word + 's'}"


def day(commit: Commit | None) -> str:
    """A commit's date, or ""."""
    if commit is None or commit.date_s is None:
        return ""
    try:
        return f"{datetime.datetime.fromtimestamp(commit.date_s, datetime.UTC):%-d %b %Y}"
    except (OverflowError, ValueError, OSError):
        return ""


def answer(df: pd.DataFrame, store: SeriesStore, events: Sequence[Event]) -> Answer:
    """The sentence for this table."""
    if df.empty:
        n = len(df.attrs.get("problems", []))
        why = f"{plural(n, 'file or row', 'files or rows')} could not be used." if n else "No results file is there."
        return Answer("unknown", "There are no results to show.", why)
    if not len(store):
        counts = df["status"].value_counts()
        parts = [f"{int(n):,} {status}" for status, n in counts.items() if n]
        return Answer("unknown", "Nothing was measured.", f"All results lack a value: {', '.join(parts)}.")
    commits: dict[str, Commit] = df.attrs.get("commits", {})
    now = standing(list(events))
    scope = (
        f"{plural(len(store), 'series', 'series')} of {plural(len(store.by_benchmark), 'benchmark')}, "
        f"{plural(store.n_commits, 'commit')}, {plural(len(store.by_machine), 'machine')}"
    )
    if now:
        n = len({event.benchmark for event in now})
        words = {event.word for event in now}
        word = words.pop() if len(words) == 1 else "worse"
        newest = now[0]
        when = day(commits.get(newest.after))
        detail = (
            f"The latest is {short(newest.benchmark, 80)}, {newest.word} by "
            f"{format_change(float(newest.lead['magnitude'])).lstrip('+')} since {newest.after[:8]}"
            f"{f' ({when})' if when else ''}."
        )
        return Answer("worse", f"{plural(n, 'benchmark')} {'is' if n == 1 else 'are'} {word} than before.", detail)
    longest = int((store.stops - store.starts).max())
    if longest < LEAST_COMMITS:
        return Answer(
            "unknown",
            "Too early to tell.",
            f"No series has more than {plural(longest, 'commit')}; a change shows from {LEAST_COMMITS} on. {scope}.",
        )
    recovered = sum(event.is_regression for event in events)
    past = f" {plural(recovered, 'earlier regression')} recovered." if recovered else ""
    return Answer("fine", "Nothing is slower than before.", f"{scope}.{past}")
