"""Changes and comparisons as text, Markdown and JSON.

All three say the same; Markdown is what a pull request's comment or a job summary shows.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import pandas as pd

from mlxcache.reports.units import format_change, format_value
from mlxcache.support.names import series_name

Format = Literal["text", "json", "markdown"]
FORMATS: tuple[Format, ...] = ("text", "json", "markdown")

# More rows than this make a comment that nobody reads; JSON has them all.
MAX_ROWS = 50


# How a class shows as a parameter.
_CLASS = re.compile(r"<class '([^']+)'>")


def label(row: Mapping[Any, Any]) -> str:
    """A series as a reader calls it: its benchmark and parameters, classes by their names."""
    params = _CLASS.sub(r"\1", str(row["params"]))
    return series_name(str(row["benchmark"]), params)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows for JSON: no NaN, no infinities (they are null)."""
    return [
        {
            str(key): None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in row.items()
        }
        for row in frame.to_dict("records")
    ]


def as_json(facts: Mapping[str, Any], indent: int | None = 2) -> str:
    """A JSON document that ends with a newline; without indents nothing stands between its parts."""

    def plain(value: object) -> object:
        return value.item() if hasattr(value, "item") else str(value)

    return (
        json.dumps(facts, indent=indent, separators=None if indent else (",", ":"), default=plain, allow_nan=False)
        + "\n"
    )


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns padded with blanks; the first is flush left, the others too."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells]


def interval(low: float, high: float) -> str:
    """A 95 % interval, or "open" if it has no bounds."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return "open"
    return f"{format_change(low)} to {format_change(high)}"


def cut(frame: pd.DataFrame, limit: int = MAX_ROWS) -> tuple[pd.DataFrame, str]:
    """The first rows, and a line about those that were left out (or "")."""
    left_out = len(frame) - limit
    if left_out <= 0:
        return frame, ""
    return frame.iloc[:limit], f"and {left_out} more; --format json lists all"


def before_after(row: Mapping[Any, Any], first: str, second: str) -> str:
    """Two values in the series' unit."""
    unit = str(row["unit"])
    return f"{format_value(float(row[first]), unit)} -> {format_value(float(row[second]), unit)}"
