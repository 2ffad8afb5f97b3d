"""How steady the machine was while two commits were compared, in words for whoever reads the verdict."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mlxcache.history.loading.series_table import control_test
from mlxcache.history.statistics.control import LOUD


def noise_lines(rows: pd.DataFrame, rounds: pd.DataFrame | None = None, control: str | None = "auto") -> list[str]:
    """One line for each thing that is known about the noise; empty if nothing is.

    Args:
        rows: what `compare` or `compare_rounds` returned.
        rounds: the rounds behind them, if both commits were measured in turn.
        control: which benchmarks are controls, as in `compare`.
    """
    lines = _controls(rounds, control) if rounds is not None else []
    ends = rows.loc[
        np.isfinite(rows["ci95_low"]) & np.isfinite(rows["ci95_high"]), ["ci95_low", "ci95_high"]
    ].to_numpy(np.float64)
    half = (ends[:, 1] - ends[:, 0]) / 2.0
    if len(half):
        lines.append(
            f"half of the {len(half)} intervals are narrower than ±{np.median(half):.1%}, "
            f"the widest is ±{half.max():.1%}"
        )
    return lines


def _controls(rounds: pd.DataFrame, control: str | None) -> list[str]:
    is_control = control_test(control)
    beside = rounds[[is_control(str(name)) for name in rounds["benchmark"]]]
    lines = []
    for names, group in beside.groupby(["machine", "benchmark", "params"], observed=True, sort=True):
        values = np.log(group.loc[group["value"] > 0, "value"].to_numpy(np.float64))
        if len(values) < 4:
            continue
        low, high = np.quantile(values, [0.1, 0.9])
        spread = float(np.expm1(high - low))
        loud = " (loud: what is below that was seen through pairs only)" if spread > LOUD else ""
        lines.append(f"the control {names[1]}, which never changes, moved within {spread:.1%} on {names[0]}{loud}")
    return lines
