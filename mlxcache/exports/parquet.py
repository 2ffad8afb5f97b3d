"""The table as Parquet, typed: one file, or a folder partitioned by machine when a fleet outgrows one computer."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

import pandas as pd

from mlxcache.exports.exporter import Asked, Folder
from mlxcache.exports.selection import ExportError, measured


def fill(asked: Asked, folder: Path) -> None:
    """Write machine=<name>/*.parquet below an empty folder; failed and skipped ones are in it, by their status.

    Numbers are numbers, texts are dictionaries in their order, dates have their zone. Raises ExportError without
    pyarrow.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise ExportError("Parquet needs pyarrow, which is not installed: `pip install 'mlxcache[parquet]'`")
    measured(asked.table)  # an empty table is a mistake
    # A number of a series means nothing outside of this table; partitions of unused machines would be made.
    plain = pd.DataFrame(asked.table.drop(columns=["series"]))
    for name in plain.columns:
        if isinstance(plain[name].dtype, pd.CategoricalDtype):
            plain[name] = plain[name].cat.remove_unused_categories()
    plain.attrs = {}
    plain.to_parquet(folder, engine="pyarrow", partition_cols=["machine"], index=False)


EXPORTER: Final = Folder("parquet", "a folder of Parquet files, one partition a machine", fill)
