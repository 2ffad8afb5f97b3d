"""A KV cache for MLX with per-token positions, and the instrument that measures it.

The names below are imported when they are first used: `mlxcache.history` works where mlx does not import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlxcache.attend import update_and_attend
    from mlxcache.cache import MLXCache
    from mlxcache.cells import MLXCellCache
    from mlxcache.layout import CacheConfig, CapacityError, LayerConfig, LayerPolicy
    from mlxcache.pool import Pool
    from mlxcache.positions import host_positions
    from mlxcache.quantized_pool import QuantizedPool
    from mlxcache.registry import cache_kinds, make_cache, register_cache
    from mlxcache.sequence import MLXSequenceCache
    from mlxcache.spec import AttendSpec, MaskKind

__version__ = "0.1.0"

__all__ = [
    "AttendSpec",
    "CacheConfig",
    "CapacityError",
    "LayerConfig",
    "LayerPolicy",
    "MLXCache",
    "MLXCellCache",
    "MLXSequenceCache",
    "MaskKind",
    "Pool",
    "QuantizedPool",
    "cache_kinds",
    "host_positions",
    "make_cache",
    "register_cache",
    "update_and_attend",
]

_HOME = {
    "AttendSpec": "spec",
    "CacheConfig": "layout",
    "CapacityError": "layout",
    "LayerConfig": "layout",
    "LayerPolicy": "layout",
    "MLXCache": "cache",
    "MLXCellCache": "cells",
    "MLXSequenceCache": "sequence",
    "MaskKind": "spec",
    "Pool": "pool",
    "QuantizedPool": "quantized_pool",
    "cache_kinds": "registry",
    "host_positions": "positions",
    "make_cache": "registry",
    "register_cache": "registry",
    "update_and_attend": "attend",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'mlxcache' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"mlxcache.{home}"), name)
    globals()[name] = found  # the next use finds it without this function
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
