"""Caches by kind, so that a backend need not know their classes."""

from __future__ import annotations

from collections.abc import Callable

from mlxcache.kv.cache import MLXCache
from mlxcache.kv.cells import MLXCellCache
from mlxcache.kv.sequence import MLXSequenceCache
from mlxcache.kv.storage.layout import CacheConfig

_KINDS: dict[str, Callable[[CacheConfig], MLXCache]] = {"cell": MLXCellCache, "sequence": MLXSequenceCache}


def make_cache(kind: str, config: CacheConfig) -> MLXCache:
    """Build a cache of a kind that is named above. Raises ValueError for another kind."""
    make = _KINDS.get(kind)
    if make is None:
        raise ValueError(f"kind: got {kind!r}, expected one of {', '.join(sorted(_KINDS))}")
    return make(config)
