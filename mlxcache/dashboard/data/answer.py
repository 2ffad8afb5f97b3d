"""The answer that the first page gives: is anything slower, since when, by how much, which commit."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pandas as pd

from mlxcache.history.loading.history import facts_of
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.history.repository.commits import Commit
from mlxcache.reports.events import Event, left_standing, standing
from mlxcache.reports.plain_text import short
from mlxcache.reports.units import format_change

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


def _by(magnitude: float) -> str:
    text = format_change(magnitude)
    return f"by a factor of {text[1:]}" if text.startswith("x") else f"by {text.lstrip('+-')}"


def _sentence(events: Sequence[Event]) -> str:
    """How many benchmarks are slower, and how many are larger or worse."""
    words = ("slower", "larger", "worse")
    groups = [(word, len({event.benchmark for event in events if event.word == word})) for word in words]
    parts: list[str] = []
    for word, n in groups:
        if n:
            count = f"{n:,}" if parts else plural(n, "benchmark")
            parts.append(f"{count} {'is' if n == 1 else 'are'} {word}")
    rest = f"{', '.join(parts[:-1])} and " if len(parts) > 1 else ""
    return f"{rest}{parts[-1]} than before."


def _sure(events: Sequence[Event]) -> str:
    confirmed = sum(event.state == "confirmed" for event in events)
    if not confirmed:
        return "No rerun has confirmed any of them yet." if len(events) > 1 else "No rerun has confirmed it yet."
    return f"Reruns confirmed {confirmed} of {len(events)}." if len(events) > 1 else "A rerun confirmed it."


def answer(
    df: pd.DataFrame, store: SeriesStore, events: Sequence[Event], retired: frozenset[int] = frozenset()
) -> Answer:
    """The sentence for this table; `retired` are the numbers of series that are no longer measured."""
    if df.empty:
        n = len(facts_of(df).problems)
        unused = f"{plural(n, 'file or row', 'files or rows')} could not be used."
        why = unused if n else "No results file is there."
        return Answer("unknown", "There are no results to show.", why)
    if not len(store):
        counts = df["status"].value_counts()
        parts = [f"{int(n):,} {status}" for status, n in counts.items() if n]
        return Answer("unknown", "Nothing was measured.", f"All results lack a value: {', '.join(parts)}.")
    commits = facts_of(df).commits
    now = standing(list(events))
    scope = (
        f"{plural(len(store), 'series', 'series')} of {plural(len(store.by_benchmark), 'benchmark')}, "
        f"{plural(store.n_commits, 'commit')}, {plural(len(store.by_machine), 'machine')}"
    )
    if now:
        newest = now[0]
        when = day(commits.get(newest.after))
        detail = (
            f"The latest is {short(newest.benchmark, 80)}: {newest.word} {_by(float(newest.lead['magnitude']))} "
            f"since {newest.after[:8]}{f' ({when})' if when else ''}. {_sure(now)}"
        )
        return Answer("worse", _sentence(now), detail)
    recovered = sum(event.is_regression and event.state == "recovered" for event in events)
    past = f" {plural(recovered, 'earlier regression')} recovered." if recovered else ""
    ended = left_standing(list(events))
    if ended:
        past = f" {plural(len(ended), 'regression')} stood when the series were last measured.{past}"
    lengths = (store.stops - store.starts).tolist()
    longest = max((n for key, n in zip(store.keys, lengths, strict=True) if key.number not in retired), default=0)
    if longest < LEAST_COMMITS:
        which = " that is still measured" if retired else ""
        return Answer(
            "unknown",
            "Too early to tell.",
            f"No series{which} has more than {plural(longest, 'commit')}; a change shows from {LEAST_COMMITS} on. "
            f"{scope}.{past}",
        )
    sentence = "Nothing that is still measured is slower." if ended else "Nothing is slower than before."
    return Answer("fine", sentence, f"{scope}.{past}")
