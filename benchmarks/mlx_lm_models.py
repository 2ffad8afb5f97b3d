"""mlx-lm's model modules without what its package imports first.

`import mlx_lm` brings in transformers, and torch where that is installed: 2 to 15 s in each process that asv
starts, for caches that need none of it. So the package is entered by its path, and runs its own start-up only
when somebody asks it for a name.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any


class _Package(types.ModuleType):
    """A package whose `__init__` runs when a name that it lacks is looked up."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__path__ = list(spec.submodule_search_locations or ())

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        if name.startswith("__") or spec is None or spec.loader is None or "_started" in self.__dict__:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self._started = True
        spec.loader.exec_module(self)
        return getattr(self, name)


def mlx_lm_model(name: str) -> tuple[Any, str]:
    """`mlx_lm.models.<name>` and "", or None and why it is not there: not installed, or made for another MLX."""
    if "mlx_lm" not in sys.modules:
        spec = importlib.util.find_spec("mlx_lm")
        if spec is None:
            return None, "mlx-lm is not installed"
        sys.modules["mlx_lm"] = _Package(spec)
    try:
        return importlib.import_module(f"mlx_lm.models.{name}"), ""
    except (ImportError, AttributeError) as error:
        return None, f"mlx-lm does not import beside this MLX: {error}"
