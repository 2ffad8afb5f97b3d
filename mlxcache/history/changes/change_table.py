"""The history table in, its changes out: one row for each level that a series left.

    df = load("results", repo=".")
    changes = change_points(df, repo=".")
    changes[changes.direction == "regression"]

Every series is judged by itself (`segments`), divided by a control benchmark where one ran
beside it; this module names the commits and says what became of each change.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd

from mlxcache.history.changes.aftermath import (
    apply_confirmations,
    range_commits,
    without_documentation,
)
from mlxcache.history.changes.confirmations import Confirmation
from mlxcache.history.changes.judging import Judged, judge_all, judge_counts
from mlxcache.history.changes.machine_moves import machine_events, note_common_moves
from mlxcache.history.changes.segments import Change, Method
from mlxcache.history.loading.by_series import in_order_of
from mlxcache.history.loading.direction import direction_of, higher_is_better
from mlxcache.history.loading.history import History
from mlxcache.history.loading.series_table import (
    KEY_COLUMNS,
    Controls,
    Key,
    Task,
    commit_names,
    control_test,
    find_controls,
    keys_of,
    lay_out,
    measured,
    median_controls,
    tasks_of,
)
from mlxcache.history.statistics.counted import is_count
from mlxcache.history.statistics.effect import Effect
from mlxcache.support.workers import processes_for

# Every column in its order, and its kind where the table is empty.
_KINDS: Final[dict[str, Any]] = {
    name: kind
    for names, kind in (
        ("series", np.int64),
        (" ".join([*KEY_COLUMNS, "kind before after direction"]), "str"),
        ("magnitude ci95_low ci95_high difference difference_ci95_low difference_ci95_high", np.float64),
        ("size confidence", np.float64),
        ("state", "str"),
        ("confirmed", np.bool_),
        ("recovered_at", "str"),
        ("value_before value_after", np.float64),
        ("n_before n_after", np.int64),
        ("segment_start segment_end", "str"),
        ("before_index after_index", np.int64),
        ("search_before search_after", "str"),
        ("range_commits", np.int64),
        ("p_value", np.float64),
        ("control note", "str"),
    )
    for name in names.split()
}
COLUMNS: Final = tuple(_KINDS)


@dataclass(frozen=True, eq=False)
class SetAside:
    """Changes that are not listed, as frames of the same columns.

    refuted: a rerun measured no such change. documentation: nothing but documentation changed in the range,
    and that left too little confidence. machine: the control made the same move, or is itself what moved; and one
    row, of the kind "machine", for each move that all benchmarks of a machine without a control made at once.
    controls: the benchmarks that were taken for controls, which are not judged.
    """

    refuted: pd.DataFrame
    documentation: pd.DataFrame
    machine: pd.DataFrame
    controls: frozenset[str] = frozenset()


class ChangesFrame(pd.DataFrame):
    """A table of changes; pandas hands `set_aside`, what was found and is not listed, on to its selections."""

    _metadata: ClassVar[list[str]] = ["set_aside"]
    set_aside: SetAside | None

    @property
    def _constructor(self) -> type[ChangesFrame]:
        return ChangesFrame


def set_aside_of(changes: pd.DataFrame) -> SetAside | None:
    """What was found beside these changes and is not listed; None for a table that somebody made by hand."""
    aside = getattr(changes, "set_aside", None)
    return aside if isinstance(aside, SetAside) else None


def only_series(changes: ChangesFrame, numbers: Collection[int]) -> ChangesFrame:
    """The changes of these series, and of what was set aside theirs and the moves of their machines."""
    kept = changes[changes["series"].isin(list(numbers)).to_numpy(bool)]
    aside = changes.set_aside
    if aside is not None:
        refuted, documentation = (
            frame[frame["series"].isin(list(numbers)).to_numpy(bool)]
            for frame in (aside.refuted, aside.documentation)
        )
        of_machine = aside.machine["series"].isin(list(numbers)) | (aside.machine["kind"] == "machine")
        kept.set_aside = replace(
            aside, refuted=refuted, documentation=documentation, machine=aside.machine[of_machine.to_numpy(bool)]
        )
    return kept


def change_points(
    history: History | pd.DataFrame,
    *,
    method: Method | None = None,
    control: str | None = "auto",
    higher_better: Mapping[str, bool] | None = None,
    repo: str | os.PathLike[str] | None = None,
    confirmations: Iterable[Confirmation] = (),
    jobs: int | None = None,
    cache: bool | str | os.PathLike[str] = True,
    show_progress: bool | None = None,
) -> ChangesFrame:
    """All changes in a history table, the newest first.

    Args:
        history: what `read` or `load` returned. Of the table's columns machine, env, benchmark, params,
            version, unit, commit, value and status are needed, and commit_date where there is no
            commit_index.
        method: detector, significance test, effect size and thresholds; None is `Method()`.
        control: what values may be divided by; it has to have run on the same machine, environment and
            commits. "auto": benchmarks named like a control. A regular expression: benchmarks that it is
            found in. "median": the middle one of all timings of a machine, for a tree without a control; a
            change that slows most benchmarks alike disappears with it. None: nothing. Of several the one
            counts that quiets a series most.
        higher_better: benchmark name to whether more is better; for the others the benchmark's attribute or
            the unit decides, see `mlxcache.history.loading.direction`.
        repo: a git repository; changes whose range touches documentation only lose nearly all of their odds.
        confirmations: what reruns said, from `read_confirmations`.
        jobs: processes to use; None uses one a core for large tables, at most four.
        cache: has no effect: all series are judged anew, which takes seconds. Scripts may still say it.
        show_progress: None shows it where stderr is a terminal.

    Returns:
        One row a change:

        series             the table's number, or one given here by the key columns
        machine, env, benchmark, params, version, unit
        kind               "step", or "drift": it went on for a while, and no single commit is to blame
        before, after      the last commit with the old level and the first with the new one, as measured;
                           unmeasured commits between them may hold the change too. Of a drift: from where to where
        direction          "regression" or "improvement"
        magnitude          relative change of the value; 0.05: 5 % more. infinite where there is none, as from zero
        ci95_low, ci95_high   its 95 % interval
        difference         what it changed by, in `unit`
        difference_ci95_low, difference_ci95_high   its 95 % interval
        size               what thresholds ask for: the difference by the smaller of both magnitudes
        confidence         probability that a change lies within two commits, see docs/detector.md
        state              "candidate", "confirmed" by a rerun, or "recovered": a later change took it back
        confirmed          whether a rerun confirmed it; a recovered one may be confirmed as well
        recovered_at       the first commit on the level that took it back, or ""
        value_before, value_after    medians of both levels, in `unit`, not divided by the control
        n_before, n_after            commits on both levels
        segment_start, segment_end   first commit of the old level, last commit of the new one
        before_index, after_index    `commit_index` of before and after
        search_before, search_after  commits between which it lies almost surely; what a rerun measures
        range_commits      commits in the range, unmeasured ones included; 0 if that is unknown
        p_value            of the significance test, given that the place was looked for
        control            what the values were divided by, or ""
        note               what else a reader must know, or ""

        Its `set_aside` is a `SetAside`: what was found and is not listed.

    Raises:
        ValueError: a column is missing, or `control` is no regular expression.
    """
    chosen = method or Method()
    whole = History.of(history)
    df = whole.frame
    n_jobs = processes_for(len(df)) if jobs is None else jobs
    known = {"series", "commit_index"} <= set(df.columns)
    table = df if known else measured(df, also=("status",))
    by_number = whole.layout if known else lay_out(table)
    keys, names = keys_of(table, by_number), commit_names(table)
    is_control_benchmark = control_test(control)
    if control == "median":
        controls = median_controls(measured(table), keys)
    elif control is not None and any(is_control_benchmark(key.benchmark) for key in keys.values()):
        controls = find_controls(measured(table), keys, is_control_benchmark)
    else:
        controls = Controls({})
    values = replace(by_number, data=in_order_of(by_number.data, table["value"].to_numpy(np.float64)))
    reruns = list(confirmations)
    asked = {confirmation.key()[1:] for confirmation in reruns}
    tasks: list[Task] = []
    again: list[Task] = []
    counts: list[Task] = []
    for task in tasks_of(values, keys, controls):
        if is_count(task.key.unit):
            counts.append(task)
            continue
        # What was worth a rerun may be below the threshold of a page without one.
        (again if (*task.key[1:5],) in asked else tasks).append(task)
    found = [
        *judge_counts(counts, chosen.min_change),
        *judge_all(tasks, chosen, n_jobs, show_progress=show_progress),
        *judge_all(again, chosen.for_rerun(), n_jobs, show_progress=show_progress),
    ]
    facts = whole.benchmarks
    rows: list[dict[str, Any]] = []
    machine_rows: list[dict[str, Any]] = []
    for result in found:
        key = result.task.key
        benchmark = key.benchmark
        better = (higher_better or {}).get(benchmark)
        if better is None:
            better = higher_is_better(key.unit, _facts_of(facts, benchmark))
        made = _rows_of(result, key, names, better)
        if is_control_benchmark(benchmark):
            machine_rows += made
        else:
            rows += made
            machine_rows += [
                {**row, "note": f"{result.moved} moved as well: the machine changed"}
                for row in _rows_of(result, key, names, better, machine=True)
            ]
    changes = _frame(rows)
    changes["range_commits"] = range_commits(df, changes)
    places = Counter((key.machine, key.env) for key in keys.values() if not is_control_benchmark(key.benchmark))
    changes = note_common_moves(changes, places)
    changes, documentation = without_documentation(changes, repo, chosen.min_confidence)
    changes, refuted = apply_confirmations(changes, reruns, df)
    # A count's own threshold was applied to the value that began the level.
    small = (changes["size"] < chosen.min_change - 1e-9) & ~changes["unit"].map(is_count).astype(bool)
    unsure = (changes["confidence"] < chosen.min_confidence) | small
    changes = changes[~unsure | changes["confirmed"]]
    ours = (task for task in (*tasks, *again, *counts) if not is_control_benchmark(task.key.benchmark))
    changes, events = machine_events(changes, ours)
    order = ["after_index", "confidence", "series"]
    listed = ChangesFrame(changes.sort_values(order, ascending=[False, False, True], ignore_index=True))
    asked_for = frozenset(filter(is_control_benchmark, (key.benchmark for key in keys.values())))
    listed.set_aside = SetAside(refuted, documentation, _with_events(machine_rows, events), asked_for)
    return listed


def _with_events(machine_rows: list[dict[str, Any]], events: pd.DataFrame) -> pd.DataFrame:
    own = _frame(machine_rows)
    parts = [part for part in (own, events) if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else own


def _facts_of(benchmarks: Mapping[str, Any], name: str) -> Mapping[str, object] | None:
    entry = benchmarks.get(name)
    facts = getattr(entry, "facts", entry)
    return facts if isinstance(facts, Mapping) else None


def _rows_of(
    result: Judged,
    key: Key,
    names: Mapping[int, str],
    better: bool,
    *,
    machine: bool = False,
) -> list[dict[str, Any]]:
    task = result.task
    commits = task.commits.tolist()
    changes = result.machine_changes if machine else result.changes
    searches = result.searches if not machine else [(c.index - 1, c.index) for c in changes]
    rows = []
    for change, search in zip(changes, searches, strict=True):
        recovery = _recovery(change, changes)
        began = change.index - 1 if change.since is None else change.since
        old, new = task.values[change.start : began + 1], task.values[change.index : change.stop]
        value_before = float(np.median(old))
        effect = result.scale.effect(change.effect, value_before)
        rows.append(
            {
                "series": task.number,
                **key._asdict(),
                "kind": "step" if change.since is None else "drift",
                "before": names[commits[began]],
                "after": names[commits[change.index]],
                "direction": direction_of(change.effect.shift, better),
                "magnitude": effect.relative,
                "ci95_low": effect.relative_low,
                "ci95_high": effect.relative_high,
                "difference": effect.difference,
                "difference_ci95_low": effect.difference_low,
                "difference_ci95_high": effect.difference_high,
                "size": change.size,
                "confidence": change.confidence,
                "state": "recovered" if recovery is not None else "candidate",
                "confirmed": False,
                "recovered_at": names[commits[recovery]] if recovery is not None else "",
                "value_before": value_before,
                "value_after": float(np.median(new)),
                "n_before": len(old),
                "n_after": len(new),
                "segment_start": names[commits[change.start]],
                "segment_end": names[commits[change.stop - 1]],
                "before_index": commits[began],
                "after_index": commits[change.index],
                "search_before": names[commits[search[0]]],
                "search_after": names[commits[search[1]]],
                "range_commits": 0,
                "p_value": change.p_value,
                "control": result.control,
                "note": _drift_note(change, began, effect),
            }
        )
    return rows


def _drift_note(change: Change, began: int, effect: Effect) -> str:
    """The rate of a drift and its range; "" for a step."""
    if change.since is None:
        return ""
    n = change.index - began
    rate = f" ({effect.relative / n:+.2%} a commit)" if math.isfinite(effect.relative) else ""
    return f"a drift over {n} measured commits{rate}: no single commit is to blame"


def _recovery(change: Change, changes: Sequence[Change]) -> int | None:
    """First index of the level that took at least half of the change back, if one did."""
    standing = change.effect.shift
    for later in changes:
        if later.index <= change.index:
            continue
        standing += later.effect.shift
        if standing * change.effect.shift <= 0 or abs(standing) < abs(change.effect.shift) / 2.0:
            return later.index
    return None


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    return frame if rows else frame.astype(_KINDS)
