"""Base against head: one row a series, with a verdict.

    df = load("results", repo=".", samples=True)
    rows = compare(df, "main", "HEAD~1")          # from results that are there
    rows = compare_rounds(rounds)                 # from commits that were just measured in turn

Stored results were taken at different times. Their own intervals tell how much the samples of *one run*
differ, and a second run may give an equally tight interval elsewhere; so the series' history says how much
runs differ, and that counts. Rounds that were interleaved are compared pair by pair instead
(`mlxcache.history.comparing.paired`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from mlxcache.history.comparing.paired import MIN_PAIRS, paired_change, paired_difference
from mlxcache.history.comparing.verdicts import Estimate, Limits, adjusted_p_values, further_rounds, verdict_of
from mlxcache.history.loading.direction import higher_is_better
from mlxcache.history.loading.history import History
from mlxcache.history.loading.series_table import (
    KEY_COLUMNS,
    Controls,
    ControlTest,
    Key,
    Task,
    as_tasks,
    control_test,
    find_controls,
    measured,
    median_controls,
    series_keys,
)
from mlxcache.history.repository.revisions import one_beginning
from mlxcache.history.statistics.control import divide_best
from mlxcache.history.statistics.counted import SMALLEST, is_count, smallest_change, standard_error, two_sided_p
from mlxcache.history.statistics.effect import Effect, Scale, Shift, on_scale
from mlxcache.history.statistics.noise import FloatArray, short_term_sigma
from mlxcache.support.composed import then

# What two runs of one commit differ by where no history tells (standard deviation).
_RUN_TO_RUN: Final = 0.03
# Where there is one run of each commit alone, nothing is known of the machine: a guess that few machines exceed.
_UNKNOWN: Final = 0.10
_FEWEST_RUNS: Final = 3
_ENOUGH_HISTORY: Final = 6
# From how many series on, and for which share of them, a move is one of the machine's, or of all of them.
_ENOUGH_SERIES: Final = 5
_MOST: Final = 0.8
_DID: Final = {"regression": "worse", "improvement": "better"}
_CONTROL_MOVED: Final = 0.01
_Z_99: Final = 2.5758
_Z_95: Final = 1.96

COLUMNS: Final = (
    *KEY_COLUMNS,
    "base",
    "head",
    "value_base",
    "value_head",
    "change",
    "ci95_low",
    "ci95_high",
    "direction",
    "p_value",
    "adjusted_p",
    "significant",
    "relevant",
    "verdict",
    "rounds",
    "further_rounds",
    "control",
    "already_on_base",
    "note",
)


@dataclass(frozen=True)
class _Row:
    """One series before the verdict, which needs all of them: `change` is of the value, not "worse"."""

    key: Key
    value_base: float
    value_head: float
    change: float
    low: float
    high: float
    p_value: float
    rounds: int
    control: str
    note: str
    # What limits are held against where there is no relative change: shares of the larger magnitude.
    shares: tuple[float, float, float] | None = None


def judge_stored(
    df: History | pd.DataFrame,
    base: str,
    head: str,
    *,
    limits: Limits | None = None,
    control: str | None = "auto",
    higher_better: Mapping[str, bool] | None = None,
    base_changes: pd.DataFrame | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Verdicts from stored results, for every series that was measured on both commits.

    `judge_stored` gives the table and what holds for the whole of it, one line each; `compare` the table alone.

    Args:
        df: what `load` returned; with `samples=True` the samples' spread counts, else asv's interval.
        base, head: commits as the table names them, or beginnings of four characters or more that fit one.
        limits: what is significant, relevant and tolerated.
        control: see `change_points`.
        higher_better: benchmark name to whether more is better, where neither attribute nor unit tells.
        base_changes: `change_points` of base's own history; its regressions that were not taken back are
            named in `already_on_base`, so that they are not blamed on head.

    Returns:
        One row a series, the worst first; controls are not among them:

        machine, env, benchmark, params, version, unit
        base, head               the commits
        value_base, value_head   medians, in `unit`
        change, ci95_low, ci95_high  relative change of the value and its 95 % interval; 0.05: head is 5 % more
        direction                "regression" or "improvement" if significant, else "unchanged"
        p_value, adjusted_p      two-sided; the second one takes all series into account
        significant, relevant    more than chance; at least `limits.relevant`
        verdict                  "regression", "no regression" or "inconclusive"
        rounds                   runs behind each side
        further_rounds           about how many more would decide an inconclusive one, else 0
        control                  what the values were divided by, or ""
        already_on_base          what base had already lost, or ""
        note                     what else a reader must know, or ""

    Raises:
        ValueError: a commit is not in the table, or its name is not unique; a column is missing.
    """
    history = History.of(df)
    table = measured(history.frame, also=("samples", "ci99_low", "ci99_high"))
    base, head = _resolve(table, base, "base"), _resolve(table, head, "head")
    order = dict(zip(table["commit"].astype("str"), table["commit_index"].tolist(), strict=True))
    keys = series_keys(table)
    if control == "median":
        controls = median_controls(table, keys)
    else:
        controls = Controls({}) if control is None else find_controls(table, keys, control_test(control))
    rows = []
    spread = _within_run(table, base, head)
    for task in as_tasks(table, keys, controls):
        places = [np.flatnonzero(task.commits == order[name]) for name in (base, head)]
        if not all(len(place) for place in places):
            continue
        at_base, at_head = int(places[0][0]), int(places[1][0])
        rows.append(_stored(task, at_base, at_head, spread.get(task.number, 0.0)))
    rows, notices = _without_controls(rows, control_test(control))
    frame = _finish(rows, base, head, limits or Limits(), higher_better, history, base_changes)
    notices += _moved_alike(frame)
    notices.append("stored results were not interleaved: --measure settles what stays inconclusive")
    return frame, notices


def judge_rounds(
    rounds: pd.DataFrame,
    *,
    base: str = "base",
    head: str = "head",
    limits: Limits | None = None,
    control: str | None = "auto",
    higher_better: Mapping[str, bool] | None = None,
    base_changes: pd.DataFrame | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """Verdicts from rounds in which both commits were measured in turn.

    `judge_rounds` gives the table and what holds for the whole of it, one line each; `compare_rounds` the table
    alone.

    Args:
        rounds: columns machine, env, benchmark, params, version, unit, round (number), side ("base" or
            "head") and value, one for each side of each round. Rounds that lack a side are left out.
        base, head: how the commits are called in the result.
        limits, control, higher_better, base_changes: as in `compare`.

    Returns:
        The columns of `compare`. Series with fewer than four complete rounds are inconclusive.

    Raises:
        ValueError: a column is missing.
    """
    missing = sorted({*KEY_COLUMNS, "round", "side", "value"} - set(rounds.columns))
    if missing:
        raise ValueError(
            f"rounds lack {', '.join(missing)}; expected what mlxcache.remeasure.rounds.measure returns"
        )
    is_control = control_test(control)
    pairs: dict[Key, pd.DataFrame] = {}
    for names, group in rounds.groupby(list(KEY_COLUMNS), observed=True, sort=True):
        wide = group.pivot_table(index="round", columns="side", values="value", aggfunc="median")
        if {"base", "head"} <= set(wide.columns):
            pairs[Key(*map(str, names))] = wide[["base", "head"]].dropna()
    beside = [key for key in pairs if control is not None and is_control(key.benchmark)]
    rows = [
        _paired(key, wide, {c: pairs[c] for c in beside if c != key and c[:2] == key[:2]})
        for key, wide in pairs.items()
    ]
    rows, notices = _without_controls(rows, is_control)
    frame = _finish(rows, base, head, limits or Limits(), higher_better, History.of(rounds), base_changes)
    return frame, [*notices, *_moved_alike(frame)]


compare = then(judge_stored, lambda judged: judged[0], "compare")
compare_rounds = then(judge_rounds, lambda judged: judged[0], "compare_rounds")


def _resolve(table: pd.DataFrame, name: str, role: str) -> str:
    """The one commit of the table that is called, or begins with, `name`."""
    try:
        return one_beginning(sorted(set(table["commit"].astype("str"))), name, role)
    except ValueError as error:
        raise ValueError(f"{error}; measure it with `asv run` or compare with --measure") from None


def _within_run(table: pd.DataFrame, base: str, head: str) -> dict[int, float]:
    """Standard error of head against base by series, as the samples of the two runs have it."""
    rows = table[table["commit"].isin([base, head])]
    has_samples = "samples" in rows.columns
    variance: dict[int, float] = {}
    for row in rows.to_dict("records"):
        samples = row["samples"] if has_samples else None
        error = math.nan
        if samples is not None and len(samples) >= 4 and min(samples) > 0:
            logs = np.log(np.asarray(samples, dtype=np.float64))
            spread = 1.4826 * float(np.median(np.abs(logs - np.median(logs))))
            error = 1.2533 * spread / math.sqrt(len(logs))  # standard error of a median
        elif "ci99_low" in row and 0 < row["ci99_low"] <= row["ci99_high"] < math.inf:
            error = math.log(row["ci99_high"] / row["ci99_low"]) / (2 * _Z_99)
        if math.isfinite(error):
            variance[row["series"]] = variance.get(row["series"], 0.0) + error**2
    return {series: math.sqrt(v) for series, v in variance.items()}


def _stored(task: Task, at_base: int, at_head: int, within: float) -> _Row:
    values = task.values
    x, scale = on_scale(values)
    control = ""
    if scale.logs:
        usable = [c for c in task.controls if np.isfinite(c.x[[at_base, at_head]]).all()]
        x, control = divide_best(x, usable)
    if is_count(task.key.unit):
        return _counted(task.key, values[[at_base]], values[[at_head]])
    known = len(x) >= _ENOUGH_HISTORY
    assumed = _UNKNOWN if len(x) < _FEWEST_RUNS else _RUN_TO_RUN
    runs = math.sqrt(2.0) * (short_term_sigma(x) if known else assumed)
    error = max(within, runs)
    freedom = float(min(len(x) - 2, 30)) if known else 30.0 if len(x) >= _FEWEST_RUNS else 4.0
    shift = float(x[at_head] - x[at_base])
    margin = float(stdtrit(freedom, 0.975)) * error
    value_base, value_head = float(values[at_base]), float(values[at_head])
    effect = scale.effect(Shift(shift, shift - margin, shift + margin), value_base)
    return _Row(
        key=task.key,
        value_base=value_base,
        value_head=value_head,
        change=effect.relative,
        low=effect.relative_low,
        high=effect.relative_high,
        p_value=2.0 * float(stdtr(freedom, -abs(shift) / error)),
        rounds=1,
        control=control,
        note="" if known else f"{len(x)} commits measured: assumed that runs differ by {assumed:.0%}",
        shares=_shares(effect, value_base, value_head),
    )


def _shares(effect: Effect, base: float, head: float) -> tuple[float, float, float] | None:
    """The change and its interval as shares of the larger magnitude, where no relative change is there."""
    if all(map(math.isfinite, (effect.relative, effect.relative_low, effect.relative_high))):
        return None
    larger = max(abs(base), abs(head)) or 1.0
    return effect.difference / larger, effect.difference_low / larger, effect.difference_high / larger


def _paired(key: Key, wide: pd.DataFrame, controls: Mapping[Key, pd.DataFrame]) -> _Row:
    base, head = wide["base"].to_numpy(np.float64), wide["head"].to_numpy(np.float64)
    value_base = float(np.median(base)) if len(base) else math.nan
    value_head = float(np.median(head)) if len(head) else math.nan

    def undecided(note: str, change: float) -> _Row:
        return _Row(key, value_base, value_head, change, -math.inf, math.inf, 1.0, len(base), "", note)

    if is_count(key.unit) and len(base) and min(float(base.min()), float(head.min())) > 0:
        return _counted(key, base, head)
    if len(base) < MIN_PAIRS:
        return undecided(f"{len(base)} complete rounds; {MIN_PAIRS} are needed", 0.0)
    if min(float(base.min()), float(head.min())) <= 0:
        if bool((base == base[0]).all()) and bool((head == base[0]).all()):
            return _Row(key, value_base, value_head, 0.0, 0.0, 0.0, 1.0, len(base), "", "the value never moved")
        return _paired_differences(key, base, head)
    aligned = {c.benchmark: frame.reindex(wide.index) for c, frame in controls.items()}
    usable = {name: frame for name, frame in aligned.items() if bool((frame > 0).to_numpy().all())}
    result = paired_change(
        base,
        head,
        [(frame["base"].to_numpy(np.float64), frame["head"].to_numpy(np.float64)) for frame in usable.values()],
    )
    name = ("the middle one of " * (len(usable) > 1) + ", ".join(usable)) if result.divided else ""
    return _Row(
        key,
        value_base,
        value_head,
        result.change,
        result.low,
        result.high,
        result.p_value,
        result.pairs,
        name,
        "",
    )


def _counted(key: Key, base: FloatArray, head: FloatArray) -> _Row:
    """Counts of both sides: what they differ by where nothing changed is known, so a few are enough."""
    a, b = np.log(base), np.log(head)
    seen = max(float(np.ptp(side)) / 2.0 for side in (a, b)) if min(len(a), len(b)) > 1 else 0.0
    error = standard_error(len(a), len(b), seen)
    shift = float(np.median(b)) - float(np.median(a))
    return _Row(
        key,
        float(np.median(base)),
        float(np.median(head)),
        math.expm1(shift),
        math.expm1(shift - _Z_95 * error),
        math.expm1(shift + _Z_95 * error),
        two_sided_p(shift, error),
        len(base),
        "",
        f"a count: {SMALLEST:.1%} matters",
    )


def _paired_differences(key: Key, base: FloatArray, head: FloatArray) -> _Row:
    """Rounds with values at or below zero, which have no ratio: the pairs' differences are judged."""
    before, after = float(np.median(base)), float(np.median(head))
    both = np.abs(np.concatenate([base, head]))
    scale = Scale(False, float(both.max()) or 1.0)
    shift, p_value = paired_difference(base / scale.unit, head / scale.unit)
    effect = scale.effect(shift, before)
    shares = _shares(effect, before, after)
    changes = (effect.relative, effect.relative_low, effect.relative_high)
    note = "values at or below zero: judged by differences"
    return _Row(key, before, after, *changes, p_value, len(base), "", note, shares)


def _without_controls(rows: list[_Row], is_control: ControlTest) -> tuple[list[_Row], list[str]]:
    """Controls are not judged: where one moved, the machine did, and that is worth a remark."""
    notices = [
        f"the control {row.key.benchmark} moved by {row.change:+.1%}: {row.key.machine} was not steady"
        for row in rows
        if is_control(row.key.benchmark) and row.p_value < _CONTROL_MOVED
    ]
    return [row for row in rows if not is_control(row.key.benchmark)], notices


def _moved_alike(frame: pd.DataFrame) -> list[str]:
    """A remark for each machine on which nearly all series moved one way: it may be the machine that moved."""
    notices = []
    for (machine, env), rows in frame.groupby(["machine", "env"], observed=True, sort=True):
        for direction, moved in rows[rows["direction"] != "unchanged"].groupby("direction", sort=True):
            if len(rows) < _ENOUGH_SERIES or len(moved) < _MOST * len(rows):
                continue
            change = moved["change"].replace([math.inf, -math.inf], math.nan).median()
            middle = f", the middle one by {change:+.1%}" if math.isfinite(change) else ""
            notices.append(
                f"{len(moved)} of {len(rows)} series on {machine} in {env} are {_DID[str(direction)]} "
                f"alike{middle}: look at the machine and its packages, or at what all of them share"
            )
    return notices


def limits_of(unit: str, limits: Limits) -> Limits:
    """What counts for a series of this unit: a count's limits are tighter."""
    if not is_count(unit):
        return limits
    relevant = smallest_change(unit, limits.relevant)
    return dataclasses.replace(limits, relevant=relevant, tolerated=min(2 * relevant, limits.tolerated))


def _finish(
    rows: list[_Row],
    base: str,
    head: str,
    limits: Limits,
    higher_better: Mapping[str, bool] | None,
    source: History,
    base_changes: pd.DataFrame | None,
) -> pd.DataFrame:
    """Verdicts for all rows together, the worst first."""
    facts = source.benchmarks
    adjusted = adjusted_p_values([row.p_value for row in rows])
    known = _open_regressions(base_changes)
    records: list[dict[str, Any]] = []
    for row, adjusted_p in zip(rows, adjusted.tolist(), strict=True):
        better = (higher_better or {}).get(row.key.benchmark)
        if better is None:
            entry = facts.get(row.key.benchmark)
            better = higher_is_better(row.key.unit, getattr(entry, "facts", None))
        change, low, high = row.shares or (row.change, row.low, row.high)
        change, low, high = (-change, -high, -low) if better else (change, low, high)
        estimate = Estimate(change, low, high, row.p_value, row.rounds)
        its = limits_of(row.key.unit, limits)
        verdict = verdict_of(estimate, adjusted_p, its)
        significant = adjusted_p <= limits.false_share
        direction = "improvement" if estimate.worse < 0 else "regression"
        records.append(
            {
                **row.key._asdict(),
                "base": base,
                "head": head,
                "value_base": row.value_base,
                "value_head": row.value_head,
                "change": row.change,
                "ci95_low": row.low,
                "ci95_high": row.high,
                "direction": direction if significant else "unchanged",
                "p_value": row.p_value,
                "adjusted_p": adjusted_p,
                "significant": significant,
                "relevant": abs(estimate.worse) >= its.relevant,
                "verdict": str(verdict),
                "rounds": row.rounds,
                "further_rounds": further_rounds(estimate, its) if verdict == "inconclusive" else 0,
                "control": row.control,
                "already_on_base": known.get(row.key, ""),
                "note": row.note,
                "_worse": estimate.worse,
            }
        )
    frame = pd.DataFrame(records, columns=[*COLUMNS, "_worse"])
    rank = frame["verdict"].map({"regression": 0, "inconclusive": 1, "no regression": 2})
    frame = frame.assign(_rank=rank).sort_values(
        ["_rank", "_worse", "benchmark", "params"], ascending=[True, False, True, True], ignore_index=True
    )
    return frame[list(COLUMNS)]


def _open_regressions(changes: pd.DataFrame | None) -> dict[Key, str]:
    """By series, what its own history lost and did not get back."""
    if changes is None or changes.empty:
        return {}
    still = changes[(changes["direction"] == "regression") & (changes["state"] != "recovered")]
    found: dict[Key, str] = {}
    for row in still.to_dict("records"):
        key = Key(*(str(row[name]) for name in KEY_COLUMNS))
        sure = f"{row['state']}, confidence {row['confidence']:.2f}"
        much = (
            f"{row['magnitude']:+.1%}"
            if math.isfinite(row["magnitude"])
            else f"{row['difference']:+.3g} {key.unit}"
        )
        text = f"{much} since {row['after'][:8]} ({sure})"
        found[key] = "; ".join(filter(None, [found.get(key, ""), text]))
    return found
