"""What a history says, in sentences with numbers in them: for notebooks, and for whoever reads no table.

Each function returns one sentence. Where the results do not have what a sentence needs, it says that.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from mlxcache.history.analysing.ratios import ratio
from mlxcache.history.analysing.releases import releases, side_by_side
from mlxcache.history.loading.series_table import has_number
from mlxcache.history.statistics.noise import short_term_sigma

_LEAST_VALUES = 6  # of a series, to say how much it moves


def place(df: pd.DataFrame) -> str:
    """Which machine, newest commit and packages a table is of."""
    rows = df[has_number(df)]
    if rows.empty:
        return "The table has no values."
    newest = rows[(rows["commit_index"] == rows["commit_index"].max()).to_numpy()]
    machines = sorted(set(newest["machine"].astype("str")))
    packages = [
        f"{name.removeprefix('req_')} {', '.join(said)}"
        for name in newest.columns
        if name.startswith("req_") or name == "python"
        if (said := sorted(set(newest[name].astype("str")) - {""}))
    ]
    commit = str(newest["commit"].iloc[0])[:8]
    return f"{' and '.join(machines)}: newest commit {commit}, with {', '.join(packages) or 'no packages named'}."


def cost_of(df: pd.DataFrame, column: str, of: str, over: str, *, by: str = "") -> str:
    """What `of` costs over `over`, as a geometric mean, and where most and least by a parameter."""
    try:
        whole = ratio(df, column, of, over, by=[]).iloc[0]
    except ValueError as error:
        return f"The cost of {of} over {over} is not in these results: {error}."
    of_what = "one pair" if whole["pairs"] == 1 else f"{whole['pairs']} pairs"
    told = f"{of} costs {whole['ratio']:.3f} of {over}{_interval(whole)}, over {of_what} of series"
    if not by or by not in df.columns:
        return f"{told}."
    parts = ratio(df, column, of, over, by=[by]).dropna(subset=[by])
    if len(parts) < 2:
        return f"{told}."
    ratios = parts["ratio"].to_numpy(np.float64)
    low, high = parts.iloc[int(ratios.argmin())], parts.iloc[int(ratios.argmax())]
    name = by.removeprefix("param_")
    return (
        f"{told}; least at {name} {low[by]} ({low['ratio']:.3f}), most at {name} {high[by]} ({high['ratio']:.3f})."
    )


def moved(changes: pd.DataFrame, df: pd.DataFrame, commits: int) -> str:
    """What changed within the newest `commits` commits of the table, and which commits did it."""
    first = int(df["commit_index"].max()) - commits + 1 if len(df) else 0
    recent = changes[(changes["after_index"] >= first).to_numpy()]
    if recent.empty:
        return f"Nothing that could be told moved in the newest {commits} commits."
    worse = recent[(recent["direction"] == "regression").to_numpy()]
    largest = recent.iloc[int(recent["magnitude"].abs().to_numpy().argmax())]
    by_commit = recent["after"].astype("str").value_counts()
    return (
        f"In the newest {commits} commits {len(worse)} series got worse and {len(recent) - len(worse)} better; "
        f"most moved at {by_commit.index[0][:8]} ({by_commit.iloc[0]}), the largest is {largest['benchmark']} "
        f"({largest['magnitude']:+.1%} at {str(largest['after'])[:8]}, confidence {largest['confidence']:.2f})."
    )


def between_releases(df: pd.DataFrame, package: str) -> str:
    """The newest release of a package over the oldest, at one commit."""
    try:
        lines = side_by_side(df, package)
    except ValueError as error:
        return f"Releases of {package} cannot be compared: {error}."
    ordered = list(lines["release"].cat.categories)
    newest = lines[(lines["release"] == ordered[-1]).to_numpy() & (lines["ratio"] > 0).to_numpy()]
    mean = math.exp(float(np.log(newest["ratio"]).mean()))
    worst = newest.loc[newest["ratio"].idxmax()]
    others = sorted({text for text in newest["others"] if text})
    differs = f" ({'; '.join(others)} differs too)" if others else ""
    what = f"{package} {ordered[-1]} takes {mean:.3f} of {ordered[0]}{differs}"
    return (
        f"At {newest['commit'].iloc[0][:8]}, {what}, the geometric mean of {len(newest)} series; most of all "
        f"{worst['benchmark']} ({worst['ratio']:.2f}). One run each: single series may be noise. "
        f"Releases measured: {', '.join(ordered)}."
    )


def noise(df: pd.DataFrame) -> str:
    """How much values move from commit to commit where nothing changed, and what that hides."""
    rows = df[has_number(df) & (df["value"].to_numpy(np.float64) > 0)]
    sigmas = [
        short_term_sigma(np.log(group["value"].to_numpy(np.float64)))
        for _, group in rows.sort_values("commit_index").groupby("series")
        if len(group) >= _LEAST_VALUES
    ]
    total = rows["series"].nunique()
    if not sigmas:
        return (
            f"None of the {total} series has {_LEAST_VALUES} values, so how much they move by chance is not known."
        )
    typical, wide = (float(np.quantile(sigmas, q)) for q in (0.5, 0.9))
    return (
        f"{len(sigmas)} of {total} series have {_LEAST_VALUES} values or more; from commit to commit half of them "
        f"move by {typical:.1%} or less by chance, nine in ten by {wide:.1%} or less, so a single commit's change "
        f"below about {2.8 * typical:.1%} is hidden in the middle one."
    )


def counts_beside_seconds(df: pd.DataFrame) -> str:
    """How much quieter instruction counts are than seconds, over benchmarks and parameters that have both."""
    if "instructions" not in set(df["unit"].astype("str")):
        return "These results hold no instruction counts; `mlxcache bench --count REGEX` takes them."
    keys = ("machine", "benchmark", "params")
    moves: dict[str, dict[tuple[str, ...], float]] = {"instructions": {}, "seconds": {}}
    for unit, found in moves.items():
        rows = df[(df["unit"] == unit).to_numpy() & has_number(df) & (df["value"].to_numpy(np.float64) > 0)]
        for _, group in rows.sort_values("commit_index").groupby("series"):
            if len(group) >= _LEAST_VALUES:
                key = tuple(str(group[name].iloc[0]).replace(".count_", ".time_") for name in keys)
                sigma = short_term_sigma(np.log(group["value"].to_numpy(np.float64)))
                found[key] = min(sigma, found.get(key, math.inf))  # the quieter of two environments
    both = sorted(set(moves["instructions"]) & set(moves["seconds"]))
    if not both:
        return (
            f"{len(moves['instructions'])} series of counts and {len(moves['seconds'])} of seconds have "
            f"{_LEAST_VALUES} values or more, and no benchmark has both, so they cannot be laid beside each other."
        )
    counts, seconds = (float(np.median([found[key] for key in both])) for found in moves.values())
    return (
        f"{len(both)} benchmarks have both with {_LEAST_VALUES} values or more. From commit to commit counts move "
        f"by {counts:.2%} (the middle one) and seconds by {seconds:.2%}: real changes of the code are in both, "
        "other work on the machine almost only in the seconds."
    )


def cost_in_counts_and_seconds(df: pd.DataFrame, benchmark: str, column: str, of: str, over: str) -> str:
    """What `of` costs over `over` by a benchmark's instruction counts, and by seconds of the same parameters."""
    names = df["benchmark"].astype("str")
    counted = df[(names == benchmark.replace(".time_", ".count_")).to_numpy() & has_number(df)]
    if counted.empty:
        return f"No instruction counts of {benchmark} are in these results."
    same = df["params"].isin(set(counted["params"])).to_numpy()
    timed = df[(names == benchmark).to_numpy() & has_number(df) & same]
    return (
        f"By instructions {cost_of(counted, column, of, over)} By seconds of the same parameters "
        f"{cost_of(timed, column, of, over)}"
    )


def measured_with(df: pd.DataFrame, package: str) -> str:
    """Which releases of a package each machine has results with."""
    try:
        found = releases(df, package)
    except ValueError as error:
        return f"Releases of {package}: {error}."
    by_machine = found.groupby("machine", observed=True)["release"].unique()
    parts = [f"{machine}: {', '.join(map(str, said))}" for machine, said in by_machine.items()]
    return "; ".join(parts) + "."


def _interval(row: pd.Series[Any]) -> str:
    low, high = float(str(row["ci95_low"])), float(str(row["ci95_high"]))
    if math.isnan(low):
        return f" ({row['note']})"
    return f" (the next run's with 95 % in {low:.3f} to {high:.3f})"
