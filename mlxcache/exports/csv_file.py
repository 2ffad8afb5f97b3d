"""The whole table as one CSV file: numbers with all their digits, what is missing empty, .gz compressed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pandas as pd

from mlxcache.exports.exporter import Asked, OneFile
from mlxcache.exports.selection import measured


def write(asked: Asked, path: Path) -> None:
    """Write the file; pandas, DuckDB and polars read it as it is. A table without values is an ExportError."""
    measured(asked.table)
    table = pd.DataFrame(asked.table)
    dates = "%Y-%m-%dT%H:%M:%SZ"
    if asked.out.suffix == ".gz":
        table.to_csv(path, index=False, lineterminator="\n", date_format=dates, compression="gzip")
    else:
        table.to_csv(path, index=False, lineterminator="\n", date_format=dates, compression=None)


EXPORTER: Final = OneFile("csv", "all values in one CSV file (.csv.gz: compressed)", write)
