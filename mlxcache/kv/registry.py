"""Caches by kind, so that a backend need not know their classes."""

from __future__ import annotations

from collections.abc import Callable

from mlxcache.kv.cache import MLXCache
from mlxcache.kv.cells import MLXCellCache
from mlxcache.kv.sequence import MLXSequenceCache
from mlxcache.kv.storage.layout import CacheConfig

_KINDS: dict[str, Callable[[CacheConfig], MLXCache]] = {"cell": MLXCellCache, "sequence": MLXSequenceCache}


def register_cache(kind: str, make: Callable[[CacheConfig], MLXCache]) -> None:
    """Let `make_cache(kind, config)` call `make`. Raises ValueError for a kind that is taken."""
    if kind in _KINDS:
        raise ValueError(f"kind: got {kind!r}, which is registered already; expected a new name")
    _KINDS[kind] = make


def cache_kinds() -> tuple[str, ...]:
    """The kinds that `make_cache` knows."""
    return tuple(sorted(_KINDS))


def make_cache(kind: str, config: CacheConfig) -> MLXCache:
    """Build a cache of a registered kind. Raises ValueError for another kind."""
    make = _KINDS.get(kind)
    if make is None:
        raise ValueError(f"kind: got {kind!r}, expected one of {', '.join(cache_kinds())}")
    return make(config)
