"""The step that outgrows its pool: more cells are allocated and the old ones copied."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from .common import (
    DTYPE,
    HEAD_DIM,
    HEADS,
    Skip,
    Timed,
    kv_bytes,
    need_memory,
    random_tokens,
    require,
    synchronise,
)

try:
    from mlx_lm.models.cache import KVCache
except ImportError:  # without mlx-lm, or before it
    KVCache = None


class Growth(Timed):
    """One token written behind a full pool of one layer."""

    # Slots: the default initial capacity, and a pool whose copy costs more than everything around it.
    params = ([512, 8192],)
    param_names = ("slots",)
    repeat = (5, 20, 0.2)
    rounds = 2

    def setup(self, slots: int) -> None:
        need_memory(kv_bytes(3 * slots, layers=1))
        self.pool = require("Pool")(slots, 4 * slots, HEADS, HEAD_DIM, DTYPE)
        self.token = random_tokens(1)

    def time_grow(self, slots: int) -> None:
        self.pool.write(slots, self.token)
        synchronise([self.pool.read(slots, 1)])


class GrowingCache(Timed):
    """The token for which a cache of eight layers grows, on ours and on mlx-lm's; and the most that it holds."""

    # A page and a book: mlx-lm's takes 256 more cells at either, and so do pools of ours from 512 cells on.
    params = (["ours", "mlx-lm"], [1024, 16384])
    param_names = ("cache", "context")
    layers = 8
    repeat = (5, 20, 0.5)
    rounds = 2

    def setup(self, cache: str, context: int) -> None:
        if cache == "mlx-lm" and KVCache is None:
            raise Skip("mlx-lm is not installed")
        need_memory(kv_bytes(3 * context, layers=self.layers))
        self.update, self.token = self._full(cache, context), random_tokens(1)

    def _full(self, cache: str, context: int) -> Any:
        """A step of a cache whose cells are all taken, as a function of a token."""
        prompt = random_tokens(context)
        if cache == "mlx-lm":
            caches = [KVCache() for _ in range(self.layers)]

            def update(token: mx.array) -> list[mx.array]:
                return [array for each in caches for array in each.update_and_fetch(token, token)]
        else:
            layer = require("LayerConfig")(require("LayerPolicy").flat(), HEADS, HEAD_DIM)
            made = require("CacheConfig")(2 * context, self.layers, [layer], DTYPE, initial_capacity=context)
            sequence = require("MLXSequenceCache")(made)

            def update(token: mx.array) -> list[mx.array]:
                at = range(sequence.length, sequence.length + token.shape[2])
                specs = [sequence.update_and_fetch(layer, at, token, token) for layer in range(self.layers)]
                return [array for spec in specs for array in (spec.keys, spec.values)]

        synchronise(update(prompt))
        return update

    def time_grow(self, cache: str, context: int) -> None:
        synchronise(self.update(self.token))

    def track_peak(self, cache: str, context: int) -> float:
        """Bytes at the peak of that step, over those of the cells that it fills."""
        held = kv_bytes(context + 1, layers=self.layers)
        mx.clear_cache()
        before = mx.get_active_memory() - 2 * self.layers * random_tokens(context).nbytes
        mx.reset_peak_memory()
        synchronise(self.update(self.token))
        return float(mx.get_peak_memory() - before) / held

    track_peak.unit = "cells"  # type: ignore[attr-defined]
