"""The same steps on other caches: mlx-lm's three, and bare MLX as the floor; all checked to do the same work."""

from __future__ import annotations

from .common import Timed
from .contenders import FLAT, RING, contender


class Decode(Timed):
    """One token through 32 layers, one evaluation."""

    # Contexts: where dispatch decides, and where a cache that copies its past starts to pay for it.
    params = (FLAT, [1024, 4096])
    param_names = ("cache", "context")

    def setup(self, cache: str, context: int) -> None:
        self.contender = contender(cache, context)
        self.contender.reset()

    def time_step(self, cache: str, context: int) -> None:
        self.contender.step()


class Prefill(Timed):
    """A chunk through 32 layers behind 1024 tokens."""

    params = (FLAT, [128, 2048])
    param_names = ("cache", "tokens")
    repeat = (4, 8, 0.15)
    rounds = 2

    def setup(self, cache: str, tokens: int) -> None:
        self.contender = contender(cache, 1024, tokens)
        self.contender.reset()

    def time_chunk(self, cache: str, tokens: int) -> None:
        self.contender.step()


class Ring(Timed):
    """One token through 32 full rings."""

    params = (RING, [256, 4096])
    param_names = ("cache", "window")

    def setup(self, cache: str, window: int) -> None:
        self.contender = contender(cache, 2 * window + window // 4, window=window)
        self.contender.reset()

    def time_step(self, cache: str, window: int) -> None:
        self.contender.step()
