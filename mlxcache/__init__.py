"""A KV cache for MLX with per-token positions, and the instrument that measures it.

The names below are imported when they are first used: `mlxcache.history` works where mlx does not import.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlxcache.kv.attend import update_and_attend
    from mlxcache.kv.cache import MLXCache
    from mlxcache.kv.cells import MLXCellCache
    from mlxcache.kv.positions import host_positions
    from mlxcache.kv.registry import make_cache
    from mlxcache.kv.sequence import MLXSequenceCache
    from mlxcache.kv.spec import AttendSpec, MaskKind
    from mlxcache.kv.step import Gather
    from mlxcache.kv.storage.layout import CacheConfig, CapacityError, LayerConfig, LayerPolicy
    from mlxcache.kv.storage.pool import Pool
    from mlxcache.kv.storage.quantized_pool import QuantizedPool

__version__ = "0.1.0"

__all__ = [
    "AttendSpec",
    "CacheConfig",
    "CapacityError",
    "Gather",
    "LayerConfig",
    "LayerPolicy",
    "MLXCache",
    "MLXCellCache",
    "MLXSequenceCache",
    "MaskKind",
    "Pool",
    "QuantizedPool",
    "host_positions",
    "make_cache",
    "update_and_attend",
]

_HOME = {
    "AttendSpec": "kv.spec",
    "CacheConfig": "kv.storage.layout",
    "CapacityError": "kv.storage.layout",
    "Gather": "kv.step",
    "LayerConfig": "kv.storage.layout",
    "LayerPolicy": "kv.storage.layout",
    "MLXCache": "kv.cache",
    "MLXCellCache": "kv.cells",
    "MLXSequenceCache": "kv.sequence",
    "MaskKind": "kv.spec",
    "Pool": "kv.storage.pool",
    "QuantizedPool": "kv.storage.quantized_pool",
    "host_positions": "kv.positions",
    "make_cache": "kv.registry",
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


# Programs written when the cache's modules lay side by side in `mlxcache` import them from there.
_MOVED = {
    "kv": "attend batch cache cells device masks positions registry sequence spec step",
    "kv.storage": "cell_layout layout pool quantized_pool",
    "mlx_lm": "layer_caches prompt_state",
}
_FORMER = {
    f"mlxcache.{name}": f"mlxcache.{room}.{name}" for room, names in _MOVED.items() for name in names.split()
}


class _Former:
    """Finds a module under its former name: the same module, not a second one with classes of its own."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _FORMER:
            return None
        return importlib.util.spec_from_loader(name, _Former())  # type: ignore[arg-type]  # it needs no base class

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_FORMER[spec.name])
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import has put the former name in its place


sys.meta_path.append(_Former)
