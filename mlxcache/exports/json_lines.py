"""The whole table as JSON lines, an object a value: what is missing is null, dates are ISO 8601."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

from mlxcache.exports.exporter import Asked, OneFile
from mlxcache.exports.selection import measured

_ROWS: Final = 20_000  # at a time


def write(asked: Asked, path: Path) -> None:
    """Write the file: numbers with all their digits. A table without values is an ExportError."""
    measured(asked.table)
    packed = asked.out.suffix == ".gz"
    with gzip.open(path, "wt", encoding="utf-8") if packed else path.open("w", encoding="utf-8") as file:
        for start in range(0, len(asked.table), _ROWS):
            rows = asked.table.iloc[start : start + _ROWS].to_dict("records")
            file.writelines(f"{json.dumps(_plain(row), ensure_ascii=False, allow_nan=False)}\n" for row in rows)


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    # An infinite end of an interval has no JSON number: it is null, as one that is not known.
    return {str(name): _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    return value.isoformat() if isinstance(value, pd.Timestamp) else value


EXPORTER: Final = OneFile("jsonl", "all values as JSON lines (.jsonl.gz: compressed)", write)
