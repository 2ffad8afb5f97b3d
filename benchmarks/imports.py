"""What it costs to import: the cache as a backend does, the history where mlx must stay away."""

from __future__ import annotations


class Imports:
    """Each sample is a fresh interpreter."""

    rounds = 2
    repeat = (3, 5, 2.0)
    version = "1"

    def timeraw_cache(self) -> str:
        return "from mlxcache import MLXSequenceCache"

    def timeraw_package(self) -> str:
        return "import mlxcache"
