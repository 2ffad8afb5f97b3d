"""One comparison from beginning to end: which commit stands for base, how often to look, what counts as lost.

    comparison = compare_stored(read("results", repo="."), base, head)
    comparison = compare_measured(measure_more, base, head, Protocol(rounds=10))
    comparison.verdict, comparison.rows

`mlxcache compare` prints what these return. Measuring is handed in, so that this knows of no way to do it.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from mlxcache.history.changes.change_table import change_points
from mlxcache.history.changes.confirmations import Confirmation
from mlxcache.history.comparing.comparison import judge_rounds, judge_stored
from mlxcache.history.comparing.exit_status import ExitStatus
from mlxcache.history.comparing.lost import Lost, lost_in_rounds, lost_in_table
from mlxcache.history.comparing.rounds import Rounds
from mlxcache.history.comparing.runner_noise import noise_lines
from mlxcache.history.comparing.verdicts import Limits, Verdict, overall
from mlxcache.history.loading.history import History
from mlxcache.support.names import series_name, series_pattern


@dataclass(frozen=True)
class Protocol:
    """What decides a comparison; with the same protocol it can be made again.

    limits: what counts. control: see `change_points`. bench: regular expressions, one of which is found in a
    series' name; none takes all. environments: asv environments to measure in. rounds: pairs that are measured
    at a time; looks: how many times at most what is still open is measured, each with its share of the alarms.
    """

    limits: Limits = field(default_factory=Limits)
    control: str | None = "auto"
    bench: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    rounds: int = 20
    looks: int = 3


@dataclass(frozen=True)
class Comparison:
    """What there is to say: the rows of `compare`, the verdict over all of them, and remarks.

    `lost` names series that gave a value on base and none on head; `noise` says how steady the runner was, one
    line each; `measured` whether both commits were measured in turn, which is when more rounds help; `proof` what
    was then installed and which suite ran, for each side and environment. `undone` are the reasons of comparisons
    that should have been part of this one and were not made.
    """

    rows: pd.DataFrame
    verdict: Verdict
    base: str
    head: str
    notices: Sequence[str] = field(default_factory=tuple)
    noise: Sequence[str] = field(default_factory=tuple)
    lost: Sequence[str] = field(default_factory=tuple)
    measured: bool = False
    protocol: Protocol = field(default_factory=Protocol)
    proof: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    undone: Sequence[str] = field(default_factory=tuple)

    @property
    def exit_status(self) -> ExitStatus:
        """What a command ends with: slower before what was not done, then lost, then what noise hides."""
        if self.verdict is Verdict.REGRESSION:
            return ExitStatus.SLOWER
        if self.undone:
            return ExitStatus.NOT_DONE
        if self.lost:
            return ExitStatus.BROKEN
        return ExitStatus.CANNOT_TELL if self.verdict is Verdict.INCONCLUSIVE else ExitStatus.NOTHING_SLOWER


@dataclass(frozen=True)
class NotDone:
    """A comparison that could not be made, and why."""

    reason: str


def joined(outcomes: Sequence[Comparison | NotDone]) -> Comparison | NotDone:
    """One comparison of several, such as of one machine each or of shards of the suite, of the same two commits.

    What was not done keeps the others from being a pass. Raises ValueError where they are of other commits or
    limits, or a series is in two of them.
    """
    done = [outcome for outcome in outcomes if isinstance(outcome, Comparison)]
    reasons = tuple(outcome.reason for outcome in outcomes if isinstance(outcome, NotDone))
    if len(outcomes) == 1 or not done:
        return outcomes[0] if len(outcomes) == 1 else NotDone("; ".join(reasons))
    first = done[0]
    for other in done[1:]:
        for what in ("base", "head"):
            if getattr(other, what) != getattr(first, what):
                raise ValueError(
                    f"the comparisons are of {what} {getattr(first, what)[:10]} and {getattr(other, what)[:10]}; "
                    "expected the same two commits"
                )
        if other.protocol.limits != first.protocol.limits:
            raise ValueError("the comparisons were made by other limits (--relevant); expected the same")
    rows = pd.concat([outcome.rows for outcome in done], ignore_index=True)
    keys = ["machine", "env", "benchmark", "params", "version"]
    if (twice := rows.duplicated(keys)).any():
        row = rows[twice].iloc[0]
        raise ValueError(
            f"{series_name(str(row['benchmark']), str(row['params']))} of {row['machine']} is in two comparisons"
        )
    verdicts = {outcome.verdict for outcome in done}
    verdict = next(v for v in (Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.NO_REGRESSION) if v in verdicts)
    if reasons and verdict is Verdict.NO_REGRESSION:
        verdict = Verdict.INCONCLUSIVE
    rank = rows["verdict"].map({"regression": 0, "inconclusive": 1, "no regression": 2})
    return dataclasses.replace(
        first,
        rows=rows.iloc[rank.argsort(kind="stable")].reset_index(drop=True),
        verdict=verdict,
        notices=tuple(dict.fromkeys(line for outcome in done for line in outcome.notices)),
        noise=tuple(dict.fromkeys(line for outcome in done for line in outcome.noise)),
        lost=tuple(dict.fromkeys(name for outcome in done for name in outcome.lost)),
        measured=all(outcome.measured for outcome in done),
        proof=tuple(entry for outcome in done for entry in outcome.proof),
        undone=(*(line for outcome in done for line in outcome.undone), *reasons),
    )


# Measures both commits in turn once more: benchmark patterns in, none for all. None: there is no time left.
Measure = Callable[[Sequence[str]], Rounds | None]


def compare_stored(
    history: History,
    base: str,
    head: str,
    protocol: Protocol | None = None,
    *,
    named: str = "",
    confirmations: Iterable[Confirmation] = (),
    repo: str | os.PathLike[str] | None = None,
) -> Comparison:
    """Compare two commits by the results that are there.

    Args:
        history: read in the order of base's branch, with samples.
        base: full hash; where it has no results, the newest commit of its history that has some.
        head: full hash.
        protocol: None is `Protocol()`.
        named: full hash of what was asked for instead of base, if base is where head left it; it is compared with
            where neither base nor anything before it has results.
        confirmations, repo: for the changes that base has already, see `change_points`.

    Raises:
        ValueError: a commit has no results, or both are the same.
    """
    chosen = protocol or Protocol()
    known = changes_on_line(history, chosen, confirmations, repo)
    base, notices = nearest_measured(history, base, named)
    if base == head:
        raise ValueError(f"head and base are the same commit {head[:10]}; there is nothing to compare")
    rows, remarks = judge_stored(
        history, base, head, limits=chosen.limits, control=chosen.control, base_changes=known
    )
    if rows.empty:
        raise ValueError(_nothing_common(history.frame, base, head))
    rows = matching(rows, chosen.bench)
    lost = lost_in_table(matching(history.frame, chosen.bench), base, head)
    return _compared(rows, base, head, lost, [*notices, *remarks], noise_lines(rows), chosen, measured=False)


def compare_measured(
    measure: Measure,
    base: str,
    head: str,
    protocol: Protocol | None = None,
    *,
    history: History | None = None,
    confirmations: Iterable[Confirmation] = (),
    repo: str | os.PathLike[str] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """Measure until nothing is open, at most `protocol.looks` times.

    Args:
        measure: measures `protocol.rounds` more pairs of what fits its patterns.
        base, head: full hashes.
        protocol: None is `Protocol()`.
        history: what base's own history says of changes that head did not make.
        confirmations, repo: for these, see `change_points`.
        say: gets a line of progress now and then.

    Raises:
        ValueError: both commits are the same, or nothing was measured on both.
    """
    chosen = protocol or Protocol()
    if base == head:
        raise ValueError(f"both revisions are {base[:10]}; there is nothing to compare")
    known = None if history is None else changes_on_line(history, chosen, confirmations, repo)
    share = dataclasses.replace(chosen.limits, false_share=chosen.limits.false_share / chosen.looks)
    frames: list[pd.DataFrame] = []
    failures: dict[str, None] = {}
    bench: Sequence[str] = chosen.bench
    never: tuple[str, ...] = ()
    first: Rounds | None = None
    for look in range(chosen.looks):
        batch = measure(bench)
        if batch is None:
            break
        first = first or batch  # later ones see some of the benchmarks only
        failures.update(dict.fromkeys(batch.failures))
        frames.append(batch.table.assign(round=batch.table["round"] + look * chosen.rounds))
        rounds = pd.concat(frames, ignore_index=True)
        rows, remarks = judge_rounds(
            rounds,
            base=base,
            head=head,
            limits=share,
            control=chosen.control,
            higher_better=first.higher_better,
            base_changes=known,
        )
        if batch.cut is not None:
            never = batch.cut if look == 0 else never
            break
        if rows.empty or overall(rows["verdict"].tolist(), share) is not Verdict.INCONCLUSIVE:
            break
        still_open = rows[rows["verdict"] == Verdict.INCONCLUSIVE]
        names = zip(still_open["benchmark"], still_open["params"], strict=True)
        bench = sorted({series_pattern(str(name), str(params)) for name, params in names})
        if look + 1 < chosen.looks:
            say(f"{len(still_open)} series are still open: measuring them again")
    if first is None:
        raise ValueError("nothing was measured: there was no time for it")
    notices = [*first.notices, *failures, *remarks]
    if never:
        shown = ", ".join(never[:5]) + (f" and {len(never) - 5} more" if len(never) > 5 else "")
        notices.append(f"{len(never)} benchmarks were not measured within the budget: {shown}")
    if not rows.empty and overall(rows["verdict"].tolist(), share) is Verdict.INCONCLUSIVE:
        notices.append("what is inconclusive is not fine: a quieter machine or more --rounds would tell")
    noise = [] if rows.empty else noise_lines(rows, rounds, chosen.control)
    lost = dataclasses.replace(lost_in_rounds(rounds), reasons=first.lost)
    compared = _compared(rows, base, head, lost, notices, noise, chosen, measured=True, complete=not never)
    return dataclasses.replace(compared, proof=first.proof)


def _nothing_common(frame: pd.DataFrame, base: str, head: str) -> str:
    """Why no series can be compared: where each of the two commits has values."""
    ok = frame[(frame["status"] == "ok").to_numpy(bool)]
    places = []
    for commit in (base, head):
        rows = ok[(ok["commit"] == commit).to_numpy(bool)]
        machines = sorted(set(rows["machine"].astype("str")))
        shown = ", ".join(machines[:3]) + (f" and {len(machines) - 3} more" if len(machines) > 3 else "")
        places.append(f"{commit[:10]} has values of {shown or 'no machine'}")
    alike = "; machines that are one kind can be named so with --machine-rule" if all(places) else ""
    return f"no series was measured on both commits: {'; '.join(places)}{alike}"


def _compared(
    rows: pd.DataFrame,
    base: str,
    head: str,
    lost: Lost,
    notices: Sequence[str],
    noise: Sequence[str],
    protocol: Protocol,
    *,
    measured: bool,
    complete: bool = True,
) -> Comparison:
    # Where head lost all there was, that is the answer.
    all_lost = rows.empty and bool(lost.missing)
    verdict = Verdict.INCONCLUSIVE if all_lost else overall(rows["verdict"].tolist(), protocol.limits)
    if (lost.missing or not complete) and verdict is Verdict.NO_REGRESSION:
        verdict = Verdict.INCONCLUSIVE  # what did not run cannot have passed
    return Comparison(
        rows, verdict, base, head, [*lost.notices(), *notices], noise, lost.missing, measured, protocol
    )


def changes_on_line(
    history: History,
    protocol: Protocol,
    confirmations: Iterable[Confirmation] = (),
    repo: str | os.PathLike[str] | None = None,
) -> pd.DataFrame:
    """Changes in base's own history: what was there before head."""
    own = {name for name, commit in history.commits.items() if commit.place == "line"}
    before = history.frame[history.frame["commit"].isin(own)]
    return change_points(before, control=protocol.control, repo=repo, confirmations=confirmations)


def nearest_measured(history: History, base: str, named: str = "") -> tuple[str, list[str]]:
    """`base`, or the newest commit of its history that has results, else `named`, with a remark that says so."""
    if base in history.commits:
        return base, []
    line = [
        commit for commit in history.commits.values() if commit.place == "line" and commit.position is not None
    ]
    if not line:
        where = f"{base[:10]}, where it left {named[:10]}," if named not in ("", base) else base[:10]
        if named in history.commits:
            return named, [
                f"{named[:10]} itself is compared instead: neither {where} nor anything before has results"
            ]
        raise ValueError(f"neither {where} nor anything before has results; measure it, or use --measure")
    newest = max(line, key=lambda commit: commit.position or 0)
    return newest.name, [f"{base[:10]} has no results; compared with {newest.name[:10]}, the newest before it"]


def matching(rows: pd.DataFrame, patterns: Sequence[str]) -> pd.DataFrame:
    """The rows in whose benchmark's or series' name one of the regular expressions is found; all without any."""
    if not patterns:
        return rows
    searches = [re.compile(pattern).search for pattern in patterns]
    pairs = list(zip(rows["benchmark"].astype("str"), rows["params"].astype("str"), strict=True))
    fits = {
        pair for pair in set(pairs) if any(search(pair[0]) or search(series_name(*pair)) for search in searches)
    }
    return rows[[pair in fits for pair in pairs]].reset_index(drop=True)
