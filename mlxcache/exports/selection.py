"""Picks what an export is about: one commit of one machine for systems that are fed run by run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from mlxcache.history.asv.facts import Benchmark
from mlxcache.history.loading.direction import higher_is_better
from mlxcache.history.loading.history import facts_of
from mlxcache.support.names import series_name


class ExportError(ValueError):
    """The table holds nothing to export, or more than the format has room for."""


@dataclass(frozen=True)
class Value:
    """One series' value on the commit; `low` and `high` are asv's interval or None."""

    machine: str
    env: str
    benchmark: str
    params: str
    param_values: dict[str, str]
    version: str
    unit: str
    value: float
    low: float | None
    high: float | None
    n_samples: int
    higher_better: bool

    @property
    def name(self) -> str:
        """The series as asv writes it: benchmark(params)."""
        return series_name(self.benchmark, self.params)


def measured(df: pd.DataFrame) -> pd.DataFrame:
    """The rows that hold a finite number."""
    rows: pd.DataFrame = df[(df["status"] == "ok").to_numpy() & np.isfinite(df["value"].to_numpy(np.float64))]
    if rows.empty:
        raise ExportError("there are no values to export; `mlxcache doctor` says what the results hold")
    return rows


def on_commit(df: pd.DataFrame, commit: str | None = None) -> tuple[str, list[Value]]:
    """The commit (None: the newest that has values) and its values, sorted by name.

    Raises ExportError if it has none.
    """
    rows = measured(df)
    if commit is None:
        commit = str(rows["commit"].iloc[int(rows["commit_index"].to_numpy().argmax())])
    rows = rows[rows["commit"] == commit]
    if rows.empty:
        raise ExportError(f"commit {commit[:12]} has no values; `mlxcache coverage` lists those that have")
    benchmarks = facts_of(df).benchmarks
    columns = [name for name in rows.columns if name.startswith("param_")]
    values = [_value(row, columns, benchmarks.get(str(row["benchmark"]))) for row in rows.to_dict("records")]
    return commit, sorted(values, key=lambda value: (value.machine, value.env, value.name, value.version))


def _value(row: dict[object, object], columns: list[str], benchmark: Benchmark | None) -> Value:
    unit = str(row["unit"])
    low, high = float(str(row["ci99_low"])), float(str(row["ci99_high"]))
    both = np.isfinite(low) and np.isfinite(high)
    return Value(
        machine=str(row["machine"]),
        env=str(row["env"]),
        benchmark=str(row["benchmark"]),
        params=str(row["params"]),
        param_values={
            name.removeprefix("param_"): str(row[name])
            for name in columns
            if not pd.isna(row[name]) and row[name] != ""  # type: ignore[call-overload]
        },
        version=str(row["version"]),
        unit=unit,
        value=float(str(row["value"])),
        low=low if both else None,
        high=high if both else None,
        n_samples=int(str(row["n_samples"])),
        higher_better=higher_is_better(unit, benchmark.facts if benchmark else None),
    )


def one_run(values: list[Value]) -> list[Value]:
    """The values, if they are of one machine and one environment: by name alone others could not be told apart.

    Raises ExportError naming what there is otherwise.
    """
    for what, option in (("machine", "--machine"), ("env", "--env")):
        found = sorted({str(getattr(value, what)) for value in values})
        if len(found) > 1:
            raise ExportError(
                f"{len(found)} {what}s have values of this commit, and the format has one value a name: "
                f"choose one with {option}: {', '.join(found)}"
            )
    by_name: dict[str, Value] = {value.name: value for value in values}
    return list(by_name.values())
