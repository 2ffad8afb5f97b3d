"""Reads any asv results tree as one table and judges it; imports neither mlx nor the dashboard."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlxcache.history.problems import Problem, Problems
    from mlxcache.history.table import load, series_keys

# public name -> the module that has it; imported when it is first used
_PUBLIC: dict[str, str] = {
    "Problem": "problems",
    "Problems": "problems",
    "load": "table",
    "series_keys": "table",
}

__all__ = ["Problem", "Problems", "load", "series_keys"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
