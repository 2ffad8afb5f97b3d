"""Tables: the same rows as a table of a page and as a CSV file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mlxcache.dashboard.output import Output
from mlxcache.reports.plain_text import clean

Raw = str | int | float | None
Kind = Literal["text", "number", "code", "worse", "better", "muted", "hidden"]

# A spreadsheet takes a cell that begins like this for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Cell:
    """What a page shows, what the CSV file holds (the same unless `raw` says otherwise), and a link."""

    text: str
    raw: Raw = None
    kind: Kind = "text"
    link: str = ""

    @property
    def value(self) -> Raw:
        """What the CSV file holds."""
        return self.text if self.raw is None else self.raw


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a caption; `path` is its CSV file, relative to the site.

    `names` are the columns of the CSV file. Cells of the kind "hidden" are in it only, so `header` has one name
    for each of the others. A page shows the first `most` rows.
    """

    path: str
    caption: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    names: tuple[str, ...] = ()
    most: int = 1000

    @property
    def shown(self) -> list[list[Cell]]:
        """What a page has of it."""
        return [[cell for cell in row if cell.kind != "hidden"] for row in self.rows[: self.most]]

    @property
    def n_left_out(self) -> int:
        """How many rows only the CSV file has."""
        return max(0, len(self.rows) - self.most)


def number(text: str, value: float | int | None, kind: Kind = "number") -> Cell:
    """A cell with a number, unrounded in the CSV file."""
    missing = value is None or (isinstance(value, float) and not math.isfinite(value))
    return Cell(text, "" if missing else value, kind)


def write_csv(out: Output, table: Table) -> None:
    """Write the table's file."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(table.names or table.header)
    writer.writerows([_safe(cell.value) for cell in row] for row in table.rows)
    out.text(table.path, text.getvalue())


def _safe(value: Raw) -> Raw:
    if not isinstance(value, str):
        return value
    value = clean(value)
    return f"'{value}" if value.startswith(_FORMULA) else value
