"""What was measured of two commits in turn, however it was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from mlxcache.history.statistics.noise import FloatArray


def both_sides(rows: pd.DataFrame) -> tuple[FloatArray, FloatArray] | None:
    """Base and head of one series' rounds, pair by pair; None where one of the two gave no value at all."""
    wide = rows.pivot_table(index="round", columns="side", values="value", aggfunc="median")
    if not {"base", "head"} <= set(wide.columns):
        return None
    complete = wide[["base", "head"]].dropna()
    return complete["base"].to_numpy(np.float64), complete["head"].to_numpy(np.float64)


@dataclass(frozen=True)
class Rounds:
    """What was measured of two commits in turn.

    table: one row for each value: machine, env, benchmark, params, version, unit, round, side ("base" or "head"),
        value (in `unit`; the lower quartile of four samples or more, else asv's own value; one process each) and
        samples (their number). What failed or was skipped has no row.
    failures: which benchmark failed, where and why.
    lost: series that base's suite has and head cannot give, each with the reason.
    notices: what else a reader must know, such as a Python that is missing.
    higher_better: benchmark name to whether more is better, by its own declaration or its unit.
    proof: for each side and environment the commit that was installed, the suite that ran and the seed.
    cut: None, or the benchmarks that the time did not suffice for.
    """

    table: pd.DataFrame
    failures: tuple[str, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    higher_better: Mapping[str, bool] = field(default_factory=dict)
    proof: tuple[Mapping[str, Any], ...] = ()
    cut: tuple[str, ...] | None = None

    def series(self, benchmark: str, params: str) -> tuple[FloatArray, FloatArray] | None:
        """One series' pairs in the first environment that has it; None where one side gave no value."""
        fits = self.table[(self.table["benchmark"] == benchmark) & (self.table["params"] == params)]
        if not fits.empty:
            fits = fits[fits["env"] == fits["env"].iloc[0]]
        return both_sides(fits)
