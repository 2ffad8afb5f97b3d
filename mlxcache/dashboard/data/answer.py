"""The answer that the first page gives: is anything slower, since when, by how much, which commit."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.quality import percent
from mlxcache.history.answering.account import LEAST_COMMITS, Broken, Reach
from mlxcache.history.comparing.exit_status import ExitStatus
from mlxcache.history.repository.commits import Commit
from mlxcache.reports.events import Event, left_standing, standing
from mlxcache.reports.plain_text import short
from mlxcache.reports.units import format_change


@dataclass(frozen=True, slots=True)
class Answer:
    """What stands at the top: `mood` picks the sign, `sentence` is read first, `detail` second.

    `judged` says for each machine how many of its series the sentence speaks for.
    """

    mood: Literal["fine", "worse", "unknown"]
    sentence: str
    detail: str
    judged: tuple[Reach, ...] = ()


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


def certain(events: Sequence[Event]) -> list[Event]:
    """Those whose interval leaves 0 out."""
    return [event for event in events if not event.uncertain]


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


def _latest(facts: SiteFacts, now: Sequence[Event]) -> str:
    newest = now[0]
    when = day(facts.by_name.get(newest.after))
    return (
        f"The latest is {short(newest.benchmark, 80)}: {newest.word} {_by(float(newest.lead['magnitude']))} "
        f"since {newest.after[:8]}{f' ({when})' if when else ''}. {_sure(now)}"
    )


def _reach(found: Sequence[Reach], facts: SiteFacts) -> str:
    """What could have been seen, and what could not."""
    able = [entry for entry in found if entry.n_judged]
    few = sum(entry.n_series - entry.n_judged for entry in found)
    parts = []
    seen = [entry for entry in able if entry.least is not None]
    if len(seen) == 1:
        parts.append(f"A change of {percent(seen[0].least)} would have been seen in half of them.")
    elif seen:
        best, worst = min(seen, key=_least), max(seen, key=_least)
        parts.append(
            f"A change of {percent(best.least)} would have been seen in half of them on "
            f"{facts.names.machine(best.machine)}, of {percent(worst.least)} on "
            f"{facts.names.machine(worst.machine)}."
        )
    if few:
        have = "has" if few == 1 else "have"
        parts.append(
            f"{plural(few, 'series', 'series')} {have} too few commits to show one: {LEAST_COMMITS} are needed."
        )
    return " ".join(parts)


def _least(entry: Reach) -> float:
    return entry.least or 0.0


def _broken(broken: Sequence[Broken]) -> tuple[str, str]:
    """That benchmarks give no value any more, and which, since when."""
    n = len({entry.benchmark for entry in broken})
    first = max(broken, key=lambda entry: entry.n_commits)
    sentence = f"{plural(n, 'benchmark')} {'gives' if n == 1 else 'give'} no value any more."
    return sentence, (
        f"{short(first.name, 80)} has failed or timed out since {first.since[:8]} "
        f"({plural(first.n_commits, 'commit')}); its last value is of {first.last_good[:8]}. "
        "Nothing else is slower for sure in what could be judged."
    )


def answer(facts: SiteFacts) -> Answer:
    """The sentence for these results."""
    store, df = facts.store, facts.df
    if df.empty:
        n = len(facts.problems)
        unused = f"{plural(n, 'file or row', 'files or rows')} could not be used."
        return Answer("unknown", "There are no results to show.", unused if n else "No results file is there.")
    if not len(store):
        counts = df["status"].value_counts()
        parts = [f"{int(n):,} {status}" for status, n in counts.items() if n]
        return Answer("unknown", "Nothing was measured.", f"All results lack a value: {', '.join(parts)}.")
    found = facts.account.reach
    standing_now = standing(facts.events)
    now = certain(standing_now)
    unsure = len(standing_now) - len(now)
    perhaps = f" {unsure:,} more may have changed or not: their intervals hold 0." if unsure else ""
    if now:
        return Answer("worse", _sentence(now), f"{_latest(facts, now)}{perhaps}", found)
    recovered = sum(event.is_regression and event.state == "recovered" for event in facts.events)
    past = f" {plural(recovered, 'earlier regression')} recovered." if recovered else ""
    ended = left_standing(facts.events)
    if ended:
        past = f" {plural(len(ended), 'regression')} stood when the series were last measured.{past}"
    able = [entry for entry in found if entry.n_judged]
    if facts.account.broken:
        sentence, detail = _broken(facts.account.broken)
        return Answer("worse", sentence, f"{detail} {_reach(found, facts)}{perhaps}{past}".strip(), found)
    if not able:
        which = " that is still measured" if facts.retired else ""
        lengths = zip(store.keys, (store.stops - store.starts).tolist(), strict=True)
        longest = max((n for key, n in lengths if key.number not in facts.retired), default=0)
        scope = f"{plural(len(store), 'series', 'series')} of {plural(len(store.by_benchmark), 'benchmark')}"
        return Answer(
            "unknown",
            "Too early to tell.",
            f"No series{which} has more than {plural(longest, 'commit')}; a change shows from {LEAST_COMMITS} on. "
            f"{scope}.{past}",
            found,
        )
    if len(facts.account.moved):
        moved = facts.account.moved.iloc[0]
        sentence = f"All benchmarks got worse at once on {facts.names.machine(str(moved['machine']))}."
        detail = (
            f"Since {str(moved['after'])[:8]}, the middle one {_by(float(moved['magnitude']))}: the machine, or "
            "what they share. A control or a rerun of both commits would tell. Nothing else is slower for sure."
        )
        return Answer("unknown", sentence, f"{detail} {_reach(found, facts)}{perhaps}{past}".strip(), found)
    n = sum(entry.n_judged for entry in able)
    where = "one machine" if len(able) == 1 else f"{len(able)} machines"
    sentence = f"Nothing is slower in the {plural(n, 'series', 'series')} that can show it ({where})."
    if unsure:
        sentence = f"Nothing is slower for sure in the {plural(n, 'series', 'series')} that can show it ({where})."
    # A machine on which nothing can be told yet has no tick, as `mlxcache regressions` has no status 0 for it.
    mood: Literal["fine", "unknown"] = "fine" if facts.account.status is ExitStatus.NOTHING_SLOWER else "unknown"
    return Answer(mood, sentence, f"{_reach(found, facts)}{perhaps}{past}".strip(), found)
