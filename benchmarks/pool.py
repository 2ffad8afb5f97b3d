"""The byte layer alone: what `Pool.write` adds to a bare slice assignment."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

from .common import DTYPE, HEAD_DIM, HEADS, LAYERS, Skip, random_tokens, ratio, synchronise, timed
from .ratios import Ratio

try:
    from mlxcache import Pool
except ImportError:  # a commit before the pool
    Pool = None  # type: ignore[assignment, misc]

CONTEXT = 1024


class Write(Ratio):
    """Tokens written behind 1024 into 32 pools, one evaluation, over the same with bare arrays."""

    params = [1, 128]
    param_names = ("tokens",)

    def setup(self, tokens: int) -> None:
        if Pool is None:
            raise Skip("this commit of mlxcache has no Pool")

    def track_over_bare(self, tokens: int) -> float:
        return ratio(timed(pool_writes(tokens)), timed(_bare_writes(tokens)))


def pool_writes(tokens: int) -> Callable[[], None]:
    """A step of one write into each of 32 pools."""
    slots = CONTEXT + tokens
    pools = [Pool(slots, slots, HEADS, HEAD_DIM, DTYPE) for _ in range(LAYERS)]
    update = random_tokens(tokens)

    def step() -> None:
        for pool in pools:
            pool.write(CONTEXT, update)
        synchronise([pool.array for pool in pools])

    return step


def _bare_writes(tokens: int) -> Callable[[], None]:
    slots = CONTEXT + tokens
    arrays = [mx.zeros((1, HEADS, slots, HEAD_DIM), DTYPE) for _ in range(LAYERS)]
    mx.eval(arrays)
    update = random_tokens(tokens)

    def step() -> None:
        for array in arrays:
            array[:, :, CONTEXT:slots] = update
        synchronise(arrays)

    return step
