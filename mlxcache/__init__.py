"""A KV cache for MLX with per-token positions, and the instrument that measures it.

The names below are imported when they are first used: `mlxcache.history` works where mlx does not import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlxcache.kv.attend import update_and_attend
    from mlxcache.kv.cache import MLXCache
    from mlxcache.kv.cells import MLXCellCache
    from mlxcache.kv.positions import host_positions
    from mlxcache.kv.registry import cache_kinds, make_cache, register_cache
    from mlxcache.kv.sequence import MLXSequenceCache
    from mlxcache.kv.spec import AttendSpec, MaskKind
    from mlxcache.kv.storage.layout import CacheConfig, CapacityError, LayerConfig, LayerPolicy
    from mlxcache.kv.storage.pool import Pool
    from mlxcache.kv.storage.quantized_pool import QuantizedPool

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
    "AttendSpec": "kv.spec",
    "CacheConfig": "kv.storage.layout",
    "CapacityError": "kv.storage.layout",
    "LayerConfig": "kv.storage.layout",
    "LayerPolicy": "kv.storage.layout",
    "MLXCache": "kv.cache",
    "MLXCellCache": "kv.cells",
    "MLXSequenceCache": "kv.sequence",
    "MaskKind": "kv.spec",
    "Pool": "kv.storage.pool",
    "QuantizedPool": "kv.storage.quantized_pool",
    "cache_kinds": "kv.registry",
    "host_positions": "kv.positions",
    "make_cache": "kv.registry",
    "register_cache": "kv.registry",
    "update_and_attend": "kv.attend",
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
