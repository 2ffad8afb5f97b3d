"""Reads any asv results tree as one table and judges it; imports neither mlx nor the dashboard."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlxcache.history.change_table import change_points
    from mlxcache.history.comparison import compare, compare_rounds
    from mlxcache.history.confirmations import read_confirmations
    from mlxcache.history.measuring import measure
    from mlxcache.history.problems import Problem, Problems
    from mlxcache.history.segments import Method
    from mlxcache.history.table import load, series_keys
    from mlxcache.history.verdicts import Limits, Verdict, overall

# public name -> the module that has it; imported when it is first used
_PUBLIC: dict[str, str] = {
    "Method": "segments",
    "Problem": "problems",
    "Problems": "problems",
    "Limits": "verdicts",
    "Verdict": "verdicts",
    "change_points": "change_table",
    "compare": "comparison",
    "compare_rounds": "comparison",
    "overall": "verdicts",
    "load": "table",
    "measure": "measuring",
    "read_confirmations": "confirmations",
    "series_keys": "table",
}

__all__ = [
    "Limits",
    "Method",
    "Problem",
    "Problems",
    "Verdict",
    "change_points",
    "compare",
    "compare_rounds",
    "load",
    "measure",
    "overall",
    "read_confirmations",
    "series_keys",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
