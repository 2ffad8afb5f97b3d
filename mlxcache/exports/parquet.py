"""The tidy table as Parquet, partitioned by machine: the way out when a fleet outgrows one computer's memory."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas as pd

from mlxcache.exports.selection import ExportError, measured


def write(df: pd.DataFrame, folder: Path) -> None:
    """Write machine=<name>/*.parquet below an empty folder; failed and skipped ones are in it, by their status.

    Raises ExportError without pyarrow.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise ExportError("Parquet needs pyarrow, which is not installed: `pip install 'mlxcache[parquet]'`")
    measured(df)  # an empty table is a mistake
    plain = df.drop(columns=["series"]).copy()
    # Codes of a category mean nothing outside of this table, and partitions of unused ones would be made.
    for name in plain.columns:
        if isinstance(plain[name].dtype, pd.CategoricalDtype):
            plain[name] = plain[name].astype("str") if plain[name].notna().all() else plain[name].astype("object")
    plain.to_parquet(folder, engine="pyarrow", partition_cols=["machine"], index=False)
