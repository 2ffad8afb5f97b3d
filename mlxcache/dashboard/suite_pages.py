"""Pages about one kind of question, for suites that have benchmarks to answer it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from mlxcache.dashboard.output import Output
from mlxcache.dashboard.pages import Pages


@dataclass(frozen=True)
class Section:
    """One page: its title, and what it shows."""

    title: str
    facts: Any


def suite_sections(df: pd.DataFrame) -> dict[str, Section]:
    """The pages that this table has data for, by the name of their file."""
    return {}


def write_suite_pages(pages: Pages, out: Output, df: pd.DataFrame, sections: dict[str, Section]) -> None:
    """Write them."""
