"""Caches that do the same work, for `peers` and `ratios`: ours, mlx-lm's, and bare MLX.

A contender is filled with the same tokens, takes the same arrays in each step and returns the keys and values that
attention would read. `check_same_work` compares those, cell by cell, before anything is timed: a peer that stored
less, read less or computed something else cannot take part. The one evaluation is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from .common import (
    DTYPE,
    HEADS,
    PATHS,
    ROOM,
    SETTLING,
    Skip,
    attending,
    once,
    ours,
    position_tensor,
    random_tokens,
    require,
    synchronise,
)
from .mlx_lm_models import mlx_lm_model

mlx_lm_cache, WITHOUT_MLX_LM = mlx_lm_model("cache")

FLAT = ["mlxcache", "KVCache", "ConcatenateKVCache", "bare"]
RING = ["mlxcache", "RotatingKVCache"]
# Bare MLX that learns in each layer where to write, from a position tensor of that dtype, as ours does.
BARE_READING = {path: f"bare reading {path}" for path in PATHS}

Update = Callable[[int, mx.array, mx.array], tuple[mx.array, mx.array]]


class Contender:
    """One cache's step of `count` tokens behind `context`, through `layers` layers.

    `step` stores and reads all layers and evaluates once; `reset` goes back, so that each sample is the same step
    (a full ring needs no way back: each of its steps is like the last); `go_on` goes to the next position, in
    those that read positions.
    """

    def __init__(
        self, name: str, context: int, count: int, layers: int, head_dim: int, window: int | None
    ) -> None:
        self.name, self.layers = name, layers
        self.tokens = [random_tokens(count, head_dim, seed) for seed in range(2 * layers)]
        past = random_tokens(min(context, 4096), head_dim, seed=99)
        repeats = -(-context // past.shape[2])
        self.past = past if repeats == 1 else mx.concatenate([past] * repeats, axis=2)[:, :, :context]
        mx.eval(self.past)
        self.reset: Callable[[], object]
        self.go_on: Callable[[], object]
        self.update: Update
        known = {"mlxcache": self._ours, "bare": self._bare}
        known |= dict.fromkeys(BARE_READING.values(), self._bare_reading)
        known.get(name, self._mlx_lm)(context, count, head_dim, window)
        self.go_on = getattr(self, "go_on", self.reset)
        for _ in range(3):
            self.step()
            self.reset()

    def fetch(self) -> list[mx.array]:
        """All layers' keys and values of one step, not evaluated."""
        outputs, tokens = [], self.tokens
        for layer in range(self.layers):
            outputs += self.update(layer, tokens[2 * layer], tokens[2 * layer + 1])
        return outputs

    def step(self) -> None:
        """One step, evaluated once."""
        synchronise(self.fetch())

    def _ours(self, context: int, count: int, head_dim: int, window: int | None) -> None:
        host_positions = require("host_positions")
        cache = ours(0, head_dim, self.layers, window, slack=context + count + 64)
        add = attending(cache, window)
        start, settling = 0, 0 if window is None else max(0, context - SETTLING * count)
        while start < context:
            # A ring's last tokens come as a model decodes them.
            size = context if window is None else min(window, settling - start) if start < settling else count
            stop = min(context, start + size)
            piece = self.past[:, :, start:stop]
            for layer in range(self.layers):
                spec = add(layer, range(start, stop), piece, piece)
                mx.eval(spec.keys, spec.values)
                del spec
            start = stop
        self.position = position_tensor(context, count, "int32")

        def update(layer: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
            spec = add(layer, host_positions(self.position), keys, values)
            return spec[0], spec[1]

        def advance() -> None:
            self.position = position_tensor(cache.length, count, "int32")

        self.update = update
        self.reset = (lambda: cache.rewind(context)) if window is None else advance

    def _mlx_lm(self, context: int, count: int, head_dim: int, window: int | None) -> None:
        if mlx_lm_cache is None:
            raise Skip(WITHOUT_MLX_LM)
        make = getattr(mlx_lm_cache, self.name, None)
        if make is None:
            raise Skip(f"this mlx-lm has no {self.name}")
        caches: list[Any] = [make() if window is None else make(max_size=window) for _ in range(self.layers)]
        for cache in caches:
            if self.name == "KVCache":
                cache.step = max(256, context + count + 64)  # room ahead, as ours has
            cache.update_and_fetch(self.past, self.past)
            mx.eval(cache.keys, cache.values)
        kept = [(cache.keys, cache.values) for cache in caches]
        self.update = lambda layer, keys, values: caches[layer].update_and_fetch(keys, values)
        if self.name == "KVCache":
            kept.clear()  # a held array would make MLX copy it
            self.reset = lambda: [cache.trim(count) for cache in caches]
        elif self.name == "ConcatenateKVCache":

            def restore() -> None:
                for cache, (keys, values) in zip(caches, kept, strict=True):
                    cache.keys, cache.values, cache.offset = keys, values, context

            self.reset = restore
        else:
            kept.clear()
            self.reset = lambda: None

    def _bare(self, context: int, count: int, head_dim: int, window: int | None) -> None:
        stop = context + count
        pools = self._bare_pools(context, stop + 64, head_dim)

        def update(layer: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
            key_pool, value_pool = pools[2 * layer], pools[2 * layer + 1]
            key_pool[:, :, context:stop] = keys
            value_pool[:, :, context:stop] = values
            return key_pool[:, :, :stop], value_pool[:, :, :stop]

        self.update = update
        self.reset = lambda: None

    def _bare_reading(self, context: int, count: int, head_dim: int, window: int | None) -> None:
        host_positions = require("host_positions")
        path = self.name.split()[-1]
        pools = self._bare_pools(context, context + count + ROOM, head_dim)
        at = context
        position = position_tensor(at, count, path)

        def update(layer: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
            start = host_positions(position)[0]
            stop = start + count
            key_pool, value_pool = pools[2 * layer], pools[2 * layer + 1]
            key_pool[:, :, start:stop] = keys
            value_pool[:, :, start:stop] = values
            return key_pool[:, :, :stop], value_pool[:, :, :stop]

        def move(to: int) -> None:
            nonlocal at, position
            at = to
            position = position_tensor(at, count, path)

        self.update = update
        self.reset = lambda: move(context)
        self.go_on = lambda: move(at + count if at < context + ROOM else context)

    def _bare_pools(self, context: int, slots: int, head_dim: int) -> list[mx.array]:
        pools = []
        for _ in range(2 * self.layers):
            pool = mx.zeros((1, HEADS, slots, head_dim), DTYPE)
            pool[:, :, :context] = self.past
            mx.eval(pool)
            pools.append(pool)
        return pools


def contender(
    name: str, context: int, count: int = 1, layers: int = 32, head_dim: int = 128, window: int | None = None
) -> Contender:
    """A contender, made once a process and checked against ours."""
    key = (name, context, count, layers, head_dim, window)
    return once(key, lambda: check_same_work(Contender(*key)))


def beside(path: str, over: str) -> Contender:
    """What a ratio of one token at 1024 divides by; "bare reading" reads positions of the same dtype as ours."""
    return contender(BARE_READING[path] if over == "bare reading" else over, 1024)


def check_same_work(made: Contender) -> Contender:
    """Refuse a contender whose step does not return what ours returns, byte by byte.

    A ring may keep its cells in another order (attention of one token does not mind), so rings are compared as
    sets of cells. Raises RuntimeError with what differs.
    """
    outputs = made.fetch()
    mx.eval(outputs)
    expected_count = 2 * made.layers
    if len(outputs) != expected_count:
        raise RuntimeError(f"{made.name}: {len(outputs)} arrays a step, expected {expected_count}")
    span = outputs[0].shape[2]
    rotating = made.name == "RotatingKVCache" or (made.name == "mlxcache" and span < made.past.shape[2])
    # The first and the last layer: the others run the same code.
    for index in sorted({0, 1, len(outputs) - 2, len(outputs) - 1}):
        got = outputs[index]
        token = made.tokens[index]
        past = made.past
        if rotating:  # three warm-up steps and this one stored the same token
            past = mx.concatenate([past, *[token] * 3], axis=2)
            kept = past[:, :, past.shape[2] - (span - token.shape[2]) :]
        else:
            kept = past
        want = mx.concatenate([kept, token], axis=2)
        if got.shape != want.shape or got.dtype != want.dtype:
            raise RuntimeError(
                f"{made.name}: array {index} is {got.shape} {got.dtype}, expected {want.shape} {want.dtype}"
            )
        if not (_same_cells(got, want) if rotating else mx.array_equal(got, want).item()):
            raise RuntimeError(f"{made.name}: array {index} holds other cells than were stored")
    del outputs, got
    made.reset()
    return made


def _same_cells(a: mx.array, b: mx.array) -> bool:
    """Whether two arrays hold the same cells in any order, by a random projection of each cell."""
    weights = np.random.default_rng(0).standard_normal(a.shape[3])
    sums = [np.sort(np.array(x.astype(mx.float32))[0] @ weights, axis=1) for x in (a, b)]
    return bool(np.array_equal(*sums))
