"""Changes as a reader counts them: one benchmark that moved one way at one place is one event.

The detector judges each series by itself, so a slower function shows once for each parameter set, machine and
environment, with ranges that differ by what each machine happened to measure. An event holds those whose
ranges have commits in common, and its own range is what they share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from mlxcache.history.answering.account import is_uncertain
from mlxcache.support.names import digest, slug

Row = Mapping[str, Any]

_WORDS: Final = {
    "seconds": ("slower", "faster"),
    "bytes": ("larger", "smaller"),
}


@dataclass(frozen=True, eq=False)
class Event:
    """One benchmark that moved one way between two commits, on one or more series.

    `rows` are the rows of `change_points`, the largest first; before and after the narrowest range that all
    of them allow. `address` is where its page is, relative to the site, without a suffix. `retired` says that
    no series on which it stands, or stood, is measured any more; `uncertain` that all intervals hold 0 that it
    stands on, and no rerun confirmed it: it may be no change at all.
    """

    benchmark: str
    direction: str
    rows: tuple[Row, ...]
    before: str
    after: str
    before_index: int
    after_index: int
    address: str
    retired: bool = False
    uncertain: bool = False

    @property
    def lead(self) -> Row:
        """The largest change."""
        return self.rows[0]

    @property
    def is_regression(self) -> bool:
        """Whether it is for the worse."""
        return self.direction == "regression"

    @property
    def state(self) -> str:
        """The state of what still stands: confirmed, candidate, or recovered where nothing does."""
        states = {str(row["state"]) for row in self.rows}
        return next((state for state in ("confirmed", "candidate") if state in states), "recovered")

    @property
    def state_word(self) -> str:
        """The state in words for readers."""
        return state_word(self.state, self.direction)

    @property
    def confidence(self) -> float:
        """The highest of its rows."""
        return max(float(row["confidence"]) for row in self.rows)

    @property
    def machines(self) -> list[str]:
        """Where it was seen."""
        return sorted({str(row["machine"]) for row in self.rows})

    @property
    def params(self) -> list[str]:
        """The parameter sets that moved."""
        return sorted({str(row["params"]) for row in self.rows} - {""})

    @property
    def word(self) -> str:
        """What happened to it: slower, faster, larger, ... as its unit says."""
        return change_word(str(self.lead["unit"]), self.direction)

    @property
    def range_commits(self) -> int:
        """How many commits the range holds; 0 if that is unknown."""
        return min((int(row["range_commits"]) for row in self.rows if row["range_commits"]), default=0)


def change_word(unit: str, direction: str) -> str:
    """What happened to a value of this unit: slower, smaller, better, ..."""
    worse, better = _WORDS.get(unit, ("worse", "better"))
    return worse if direction == "regression" else better


def state_word(state: str, direction: str) -> str:
    """A state as pages and reports say it: an improvement that is gone has not recovered, it is lost."""
    return "lost" if state == "recovered" and direction != "regression" else state


def size(row: Row) -> float:
    """How large a change is, both ways alike: a halving counts as much as a doubling."""
    return abs(math.log1p(max(float(row["magnitude"]), -0.999999)))


def group_changes(changes: pd.DataFrame, retired: frozenset[int] = frozenset()) -> list[Event]:
    """All events of a table of changes, the newest first, the larger first among those of one commit.

    `retired` are the numbers of series that are no longer measured, see `dashboard.retired`.
    """
    events: list[Event] = []
    rows: list[dict[str, Any]] = [{str(k): v for k, v in row.items()} for row in changes.to_dict("records")]
    rows.sort(key=lambda row: (row["benchmark"], row["direction"], row["after_index"], row["before_index"]))
    group: list[Row] = []
    low = high = 0
    for row in rows:
        same = group and (group[0]["benchmark"], group[0]["direction"]) == (row["benchmark"], row["direction"])
        if same and max(low, row["before_index"]) < min(high, row["after_index"]):
            low, high = max(low, row["before_index"]), min(high, row["after_index"])
            group.append(row)
            continue
        if group:
            events.append(_event(group, retired))
        group, low, high = [row], row["before_index"], row["after_index"]
    if group:
        events.append(_event(group, retired))
    events.sort(key=lambda event: (-event.after_index, -size(event.lead), event.benchmark))
    return events


def _event(rows: list[Row], retired: frozenset[int]) -> Event:
    last = max(rows, key=lambda row: row["before_index"])
    first = min(rows, key=lambda row: row["after_index"])
    benchmark, direction = str(first["benchmark"]), str(first["direction"])
    after = str(first["after"])

    # Standing ones lead: what has recovered is no answer to "what is slower".
    def rank(row: Row) -> tuple[Any, ...]:
        return (
            row["state"] == "recovered",
            int(row["series"]) in retired,
            is_uncertain(row),
            -size(row),
            row["params"],
            row["machine"],
        )

    ordered = sorted(rows, key=rank)
    last_standing = [row for row in rows if row["state"] != "recovered"] or rows
    still = [row for row in last_standing if int(row["series"]) not in retired]
    name = f"{slug(benchmark)}-{slug(after, 8)}-{digest(benchmark, direction, after)}"
    return Event(
        benchmark,
        direction,
        tuple(ordered),
        str(last["before"]),
        after,
        int(last["before_index"]),
        int(first["after_index"]),
        f"changes/{name}",
        all(int(row["series"]) in retired for row in last_standing),
        all(map(is_uncertain, still or last_standing)),
    )


def standing(events: list[Event]) -> list[Event]:
    """Regressions that nothing took back, in what is still measured."""
    return [e for e in events if e.is_regression and e.state != "recovered" and not e.retired]


def left_standing(events: list[Event]) -> list[Event]:
    """Regressions that stood when their series were last measured."""
    return [e for e in events if e.is_regression and e.state != "recovered" and e.retired]
