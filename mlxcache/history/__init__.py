"""Reads any asv results tree as one table and judges it; imports neither mlx nor the dashboard."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlxcache.history.analysing.ratios import ratio
    from mlxcache.history.analysing.releases import releases, side_by_side
    from mlxcache.history.analysing.tables import change_points, compare
    from mlxcache.history.asv.problems import Problem, Problems
    from mlxcache.history.changes.confirmations import read_confirmations
    from mlxcache.history.changes.segments import Method
    from mlxcache.history.comparing.comparison import compare_rounds
    from mlxcache.history.comparing.verdicts import Limits, Verdict, overall
    from mlxcache.history.loading.history import Facts, History
    from mlxcache.history.loading.table import load, read, series_keys

# public name -> the module that has it; imported when it is first used
_PUBLIC: dict[str, str] = {
    "Facts": "loading.history",
    "History": "loading.history",
    "Method": "changes.segments",
    "Problem": "asv.problems",
    "Problems": "asv.problems",
    "Limits": "comparing.verdicts",
    "Verdict": "comparing.verdicts",
    "change_points": "analysing.tables",
    "compare": "analysing.tables",
    "compare_rounds": "comparing.comparison",
    "overall": "comparing.verdicts",
    "load": "loading.table",
    "ratio": "analysing.ratios",
    "read": "loading.table",
    "releases": "analysing.releases",
    "side_by_side": "analysing.releases",
    "read_confirmations": "changes.confirmations",
    "series_keys": "loading.table",
}

__all__ = [
    "Facts",
    "History",
    "Limits",
    "Method",
    "Problem",
    "Problems",
    "Verdict",
    "change_points",
    "compare",
    "compare_rounds",
    "load",
    "overall",
    "ratio",
    "read",
    "read_confirmations",
    "releases",
    "series_keys",
    "side_by_side",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
