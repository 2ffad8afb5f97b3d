"""What a run ends with on the terminal: what was measured, how quiet it was, the headline numbers, the files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from mlxcache.history import load
from mlxcache.history.loading.history import facts_of
from mlxcache.history.statistics.control import LOUD, is_control
from mlxcache.runner.estimator import disturbance, low_quantile
from mlxcache.runner.facts import Machine, State


def summarise(
    results: Path, files: Sequence[Path], machine: Machine, before: State, thermal: str | None = None
) -> str:
    """The summary of one run as text of a few lines.

    Args:
        results: asv's results folder.
        files: the results files that the run wrote.
        machine: what was measured.
        before: the machine's state before the run; afterwards it shows the load that the run made.
        thermal: the worst thermal pressure during the run.
    """
    lines = ["", f"machine   {machine.key}", f"          MLX on {machine.device} ({machine.why})"]
    table = load(results / machine.key, samples=True, cache=False, show_progress=False)
    table = table[
        table["file"].astype(str).map(lambda name: Path(name).resolve()).isin([p.resolve() for p in files])
    ]
    counts = table["status"].astype(str).value_counts()
    told = ", ".join(f"{counts[name]} {name}" for name in ("ok", "skipped", "failed") if name in counts)
    lines.append(
        f"suite     {table['benchmark'].nunique()} benchmarks, {len(table)} parameter sets: {told or 'nothing'}"
    )
    problems = facts_of(table).problems
    if problems:
        lines.append(
            f"          {len(problems)} results could not be read: `mlxcache doctor {results}` lists them"
        )
    table = table.assign(
        low=[_low(value, samples) for value, samples in zip(table["value"], table["samples"], strict=True)]
    )
    counted = (table["unit"].astype(str) == "instructions").to_numpy(np.bool_)
    lines += _counts(table[counted])
    lines += _noise(table[~counted], before, thermal)
    lines += _headlines(table)
    lines += ["results   " + "\n          ".join(str(path) for path in files)]
    return "\n".join(lines)


def _counts(table: pd.DataFrame) -> list[str]:
    """How many counts there are and how well they repeat, by half of what each one's samples span."""
    fine = table[table["samples"].notna() & (table["status"] == "ok")]
    if fine.empty:
        return []
    halves = [
        float(np.ptp(np.asarray(samples))) / 2.0 / float(value)
        for value, samples in zip(fine["value"], fine["samples"], strict=True)
    ]
    return [
        f"counts    {len(fine)} counted in instructions, repeated within {np.median(halves):.2%} in the middle, "
        f"{max(halves):.2%} at most"
    ]


def _low(value: float, samples: object) -> float:
    return value if samples is None else low_quantile(np.asarray(samples))


def _noise(table: pd.DataFrame, before: State, thermal: str | None) -> list[str]:
    controls = table[table["benchmark"].astype(str).map(is_control).astype(bool) & table["samples"].notna()]
    found = [
        (str(name).rpartition(".")[2], float(low), disturbance(np.asarray(samples)))
        for name, low, samples in zip(controls["benchmark"], controls["low"], controls["samples"], strict=True)
    ]
    lines = [f"control   {name:12} {duration(low):>9}, median {noise:+.1%} above it" for name, low, noise in found]
    worst = max((noise for _, _, noise in found), default=math.nan)
    if worst > LOUD:
        lines.append(
            f"LOUD      a control's median lies {worst:.0%} above its low quantile: differences below about "
            f"{worst:.0%} mean little here"
        )
    warnings = before.warnings()
    if thermal not in (None, "nominal", before.thermal):
        warnings.append(f"thermal pressure rose to {thermal} during the run: let it cool down and measure again")
    return lines + [f"warning   {warning}" for warning in warnings]


def _headlines(table: pd.DataFrame) -> list[str]:
    """The step that a user waits for, by path."""
    step = table[
        (table["benchmark"] == "decode.Decode.time_step")
        & (table["status"] == "ok")
        & (table["params"].astype(str).isin([f"'{path}', 128, 1024" for path in ("int32", "int64")]))
    ]
    lows = {str(params).split("'")[1]: low for params, low in zip(step["params"], step["low"], strict=True)}
    lines = []
    if "int32" in lows:
        lines.append(
            "decode    one token, 32 layers, head 128, context 1024: "
            + ", ".join(f"{path} positions {duration(low)}" for path, low in lows.items())
        )
    if len(lows) == 2:
        lines.append(f"          int64 costs {lows['int64'] / lows['int32']:.3f} of int32")
    return lines


def duration(seconds: float) -> str:
    """Seconds as people say them, with three digits: 446 us."""
    if not math.isfinite(seconds):
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
