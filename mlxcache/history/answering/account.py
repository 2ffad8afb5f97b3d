"""One account of what is known: what stands, what could have been seen, what broke, what is no longer measured.

    account = account_of(history, change_points(history))
    print(account.sentence)
    raise SystemExit(account.status)

The terminal, the site, JSON and the exit status are made from this, so that they cannot differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlxcache.history.answering.retired import retired_series
from mlxcache.history.changes.change_table import set_aside_of
from mlxcache.history.comparing.exit_status import ExitStatus
from mlxcache.history.loading.history import History
from mlxcache.history.loading.series_store import Key, SeriesStore
from mlxcache.history.statistics.noise import short_term_sigma
from mlxcache.support.names import series_name

# The detector needs three values on each side of a change.
LEAST_COMMITS: Final = 6
_SIDE: Final = 3
_SURE: Final = 3.3  # standard errors from which a step stands out


@dataclass(frozen=True, slots=True)
class Reach:
    """A machine's series that are still measured: how many there are, how many could show a change.

    `least` is the relative change that its newest three values would have shown in half of its series, None
    where its noise is not known. `longest` is the number of commits of its longest series.
    """

    machine: str
    n_series: int
    n_judged: int
    least: float | None
    longest: int


@dataclass(frozen=True, slots=True)
class Broken:
    """A series that gave values and gives none any more: it has failed, or timed out, ever since.

    last_good: the newest commit with a value; since: the first of the `n_commits` without one.
    """

    machine: str
    env: str
    benchmark: str
    params: str
    last_good: str
    since: str
    n_commits: int

    @property
    def name(self) -> str:
        """Benchmark and parameters as a call."""
        return series_name(self.benchmark, self.params)


@dataclass(frozen=True)
class Account:
    """What is known of a history, and what is not.

    standing: regressions that nothing took back, in what is still measured, with an interval that leaves 0 out.
    uncertain: the same with 0 in it: the values differ, and may be equal. ended: regressions that stood when
    their series were last measured. moved: moves for the worse that all benchmarks of a machine without a control
    made at once, and that stand: the machine or what all of them share. aside: how many changes were set aside, by
    reason. retired: numbers of series that are no longer measured. keys: all series.
    """

    standing: pd.DataFrame
    uncertain: pd.DataFrame
    ended: pd.DataFrame
    broken: tuple[Broken, ...]
    reach: tuple[Reach, ...]
    retired: frozenset[int]
    keys: tuple[Key, ...] = ()
    moved: pd.DataFrame = field(default_factory=pd.DataFrame)
    aside: Mapping[str, int] = field(default_factory=dict)

    @property
    def n_judged(self) -> int:
        """How many series could show a change."""
        return sum(entry.n_judged for entry in self.reach)

    @property
    def status(self) -> ExitStatus:
        """How a command that is asked "is anything slower?" ends.

        A machine on which no series could show a change has no answer, whatever the others say.
        """
        if len(self.standing):
            return ExitStatus.SLOWER
        if self.broken:
            return ExitStatus.BROKEN
        if len(self.moved) or not self.reach or not all(entry.n_judged for entry in self.reach):
            return ExitStatus.CANNOT_TELL
        return ExitStatus.NOTHING_SLOWER

    @property
    def sentence(self) -> str:
        """The answer in words, never more than is known."""
        able = [entry for entry in self.reach if entry.n_judged]
        if len(self.standing):
            confirmed = int(self.standing["confirmed"].sum())
            n = len(self.standing)
            told = (
                f"{n} standing regression{'s' * (n != 1)}: "
                f"{confirmed} confirmed, {n - confirmed} candidate{'s' * (n - confirmed != 1)}"
            )
        elif able and len(self.moved):
            where = ", ".join(sorted(set(self.moved["machine"].astype("str"))))
            told = f"Cannot tell: all benchmarks got worse at once on {where}: the machine, or what they share"
        elif able:
            where = "one machine" if len(able) == 1 else f"{len(able)} machines"
            told = f"No standing regressions in the {self.n_judged:,} series that can show one ({where})"
        else:
            longest = max((entry.longest for entry in self.reach), default=0)
            told = (
                f"Cannot tell: no series has more than {longest} commit{'s' * (longest != 1)}, "
                f"and a change shows from {LEAST_COMMITS} on"
            )
        if self.broken:
            n = len(self.broken)
            told += f"; {n} series {'gives' if n == 1 else 'give'} no value any more"
        return told

    def remarks(self) -> list[str]:
        """What belongs beside the sentence, a line each."""
        lines = [told(entry) for entry in self.reach]
        if len(self.uncertain):
            n = len(self.uncertain)
            hold = "its interval holds" if n == 1 else "their intervals hold"
            lines.append(f"{n} more may have changed or not: {hold} 0")
        if len(self.ended):
            n = len(self.ended)
            lines.append(
                f"{n} regression{'s' * (n != 1)} stood when the series were last measured, and count no more"
            )
        lines += [
            f"{row['machine']}: all benchmarks got worse at once at {str(row['after'])[:8]}; a control, or a "
            "rerun of both commits (`mlxcache compare --measure`), tells the machine from the code"
            for row in self.moved.to_dict("records")
        ]
        if self.aside:
            lines.append("set aside: " + ", ".join(f"{n} {why}" for why, n in self.aside.items()))
        return lines


def told(entry: Reach) -> str:
    """What can be said of a machine at all."""
    if not entry.n_judged:
        return (
            f"{entry.machine}: nothing can be told yet, none of its {entry.n_series:,} series has "
            f"{LEAST_COMMITS} commits (the longest has {entry.longest})"
        )
    few = entry.n_series - entry.n_judged
    short = f", {few:,} have too few commits" if few else ""
    seen = "" if entry.least is None else f"; a change of {entry.least:.1%} would have been seen in half of them"
    return f"{entry.machine}: {entry.n_judged:,} of {entry.n_series:,} series could show a change{short}{seen}"


def account_of(history: History, changes: pd.DataFrame) -> Account:
    """The account of a history and of what `change_points` found in it."""
    retired = retired_series(history.series, history.commits)
    standing = _standing(changes)
    gone = _of(standing, retired)
    unsure = np.array([is_uncertain(row) for row in standing.to_dict("records")], np.bool_)
    aside = set_aside_of(changes)
    moved = changes.iloc[:0]
    counts: dict[str, int] = {}
    if aside is not None:
        events = aside.machine[(aside.machine["kind"] == "machine").to_numpy(bool)]
        moved = _standing(events)
        moved = moved[~_of(moved, retired)]
        counts = {
            "refuted by a rerun": len(aside.refuted),
            "where only documentation changed": len(aside.documentation),
            "that a control shared": len(aside.machine) - len(events),
            "of all benchmarks of a machine at once": len(events),
        }
    return Account(
        standing=standing[~gone & ~unsure],
        uncertain=standing[~gone & unsure],
        ended=standing[gone],
        moved=moved,
        aside={why: n for why, n in counts.items() if n},
        broken=_broken(history, retired),
        reach=_reach(history.series, retired, frozenset() if aside is None else aside.controls),
        retired=retired,
        keys=tuple(history.series.keys),
    )


def is_uncertain(row: Mapping[Any, Any]) -> bool:
    """Whether a change's interval holds 0 and no rerun confirmed it: it may be none at all."""
    return not row.get("confirmed") and float(row["ci95_low"]) <= 0.0 <= float(row["ci95_high"])


def _of(changes: pd.DataFrame, numbers: frozenset[int]) -> npt.NDArray[np.bool_]:
    """Which changes are of these series."""
    return np.array([int(number) in numbers for number in changes.get("series", [])], np.bool_)


def _standing(changes: pd.DataFrame) -> pd.DataFrame:
    """The regressions that nothing took back."""
    if changes.empty:
        return changes
    worse = (changes["direction"] == "regression") & (changes["state"] != "recovered")
    return changes[worse.to_numpy(bool)]


def _reach(store: SeriesStore, retired: frozenset[int], controls: frozenset[str]) -> tuple[Reach, ...]:
    found = []
    for machine, positions in store.by_machine.items():
        keys = {p: store.keys[p] for p in positions}
        own = [p for p, key in keys.items() if key.number not in retired and key.benchmark not in controls]
        lengths = {p: int(store.stops[p] - store.starts[p]) for p in own}
        able = [p for p in own if lengths[p] >= LEAST_COMMITS]
        sigmas = [
            short_term_sigma(np.log(values))
            for p in able
            if bool(((values := store.series(p).values) > 0).all()) and np.isfinite(values).all()
        ]
        least = _SURE * float(np.median(sigmas)) * math.sqrt(2.0 / _SIDE) if sigmas else None
        if own:
            found.append(Reach(machine, len(own), len(able), least, max(lengths.values())))
    return tuple(found)


def _broken(history: History, retired: frozenset[int]) -> tuple[Broken, ...]:
    """Series whose newest results all failed after ones that had a value."""
    frame = history.frame
    status = frame["status"].astype("str").to_numpy()
    failed = status == "failed"
    if not failed.any():
        return ()
    suspects = np.unique(frame["series"].to_numpy()[failed])
    rows = frame[np.isin(frame["series"].to_numpy(), suspects) & (status != "skipped")]
    found = []
    for number, group in rows.groupby("series", sort=True):
        ordered = group.sort_values("commit_index", kind="stable")
        fine = (ordered["status"] == "ok").to_numpy(bool)
        if not fine.any() or fine[-1] or int(str(number)) in retired:
            continue
        last = int(np.flatnonzero(fine)[-1])
        after = ordered.iloc[last + 1 :]
        first = ordered.iloc[last]
        found.append(
            Broken(
                machine=str(first["machine"]),
                env=str(first["env"]),
                benchmark=str(first["benchmark"]),
                params=str(first["params"]),
                last_good=str(first["commit"]),
                since=str(after["commit"].iloc[0]),
                n_commits=int(after["commit_index"].nunique()),
            )
        )
    return tuple(found)
