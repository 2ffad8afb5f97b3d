"""Random programs on two cell caches that differ in every cell which is not a sequence's own.

    python -m tests.isolation --steps 100000 --seed 1     # as many steps as you like; CI runs 10,000

One cache is clean. Before each step every cell of the other that the step's sequences do not own is filled with
NaN, infinities or garbage, and so are cells and new tokens of some sequences of the step itself. What the other
sequences get must be equal, bit for bit, whichever way the step is read.
"""

from __future__ import annotations

import argparse
from collections import Counter
from contextlib import nullcontext
from unittest import mock

import mlx.core as mx
import numpy as np

from mlxcache import CacheConfig, Gather, LayerConfig, LayerPolicy, MaskKind, MLXCellCache, update_and_attend
from mlxcache.kv.attend import _as_batch

HOW = ("attend", "gpu", "batch", "cells")
HEADS, QUERY_HEADS, DIM, CAPACITY = 1, 2, 32, 48
STORAGE: tuple[tuple[mx.Dtype, int | None], ...] = (
    (mx.float32, None),
    (mx.float16, None),
    (mx.bfloat16, None),
    (mx.float16, 8),
    (mx.float32, 4),
)
STRANGE = (float("nan"), float("inf"), float("-inf"), -6e4)
SEQUENCES = (0, 1, 2, 3)


class Twins:
    """A clean cache and one whose other cells are filled, taken through the same steps."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        dtype, bits = STORAGE[rng.integers(len(STORAGE))]
        windows = [None, *rng.choice([None, 1, 3, 6], 1)]
        layers = [
            LayerConfig(LayerPolicy.flat() if window is None else LayerPolicy.ring(int(window)), HEADS, DIM)
            for window in windows
        ]
        self.config = CacheConfig(
            CAPACITY,
            len(layers),
            layers,
            dtype,
            initial_capacity=int(rng.choice([0, 3, CAPACITY])),
            kv_bits=bits,
            **({} if bits is None else {"kv_group_size": 32}),
        )
        self.clean, self.filled = MLXCellCache(self.config), MLXCellCache(self.config)
        self.seen: Counter[str] = Counter()

    @property
    def both(self) -> tuple[MLXCellCache, MLXCellCache]:
        """The two."""
        return self.clean, self.filled

    def change(self) -> None:
        """A fork, a removal, a step that is given up half way, or a restored sequence."""
        rng, layout = self.rng, self.clean._layout
        held = [seq for seq in SEQUENCES if layout.count(seq)]
        what = rng.choice(["fork", "remove", "tail", "cancel", "restore"])
        if not held:
            return
        seq = int(rng.choice(held))
        newest = layout.newest(seq)
        empty = [other for other in SEQUENCES if not layout.count(other)]
        if what == "fork" and empty:
            upto = newest + 1 if rng.random() < 0.7 else int(layout.positions_of(seq)[0]) + 1
            for cache in self.both:
                cache.seq_cp(seq, empty[0], upto)
        elif what == "remove":
            for cache in self.both:
                cache.seq_rm(seq)
        elif what == "tail":
            start = int(rng.choice(layout.positions_of(seq)))
            stop = None if rng.random() < 0.6 else start + 2
            for cache in self.both:
                cache.seq_rm(seq, start, stop)
        elif what == "cancel" and layout.free >= 2:
            k = self.tokens(2, HEADS, float("nan"))
            for cache in self.both:
                cache.begin_step([seq] * 2)
                cache.update_and_fetch(0, [newest + 1, newest + 2], k, k)
                cache.cancel_step()
        elif what == "restore" and layout.free >= layout.count(seq):  # a fork may keep its cells
            kept = [self.clean.held(layer, seq) for layer in range(self.config.n_layers)]
            mx.eval([stored.keys + stored.values for stored in kept])
            positions = layout.positions_of(seq)
            for cache in self.both:
                cache.seq_rm(seq)
                cache.restore(seq, positions, kept)
        else:
            return
        self.seen[str(what)] += 1

    def tokens(self, count: int, heads: int, strange: float | None = None) -> mx.array:
        """Random ones, or all of one value."""
        if strange is not None:
            return mx.full((1, heads, count, DIM), strange, mx.float32)
        return mx.array(self.rng.standard_normal((1, heads, count, DIM)).astype(np.float32))

    def fill(self, spoilt: set[int], sound: set[int]) -> None:
        """In the filled cache: the clean one's cells of `sound` sequences, something strange in all others."""
        layout = self.clean._layout
        own = np.array([bool(layout.owners(cell) & sound) for cell in range(CAPACITY)])
        strange = STRANGE[self.rng.integers(len(STRANGE))]
        for clean, filled in zip(self.pools(self.clean), self.pools(self.filled), strict=True):
            for plane, other in zip(clean.planes, filled.planes, strict=True):
                value = mx.array(0xFFFFFFFF, mx.uint32) if plane.dtype == mx.uint32 else mx.array(strange)
                mine = mx.array(own[: plane.slots])[None, None, :, None]
                other.array = mx.where(mine, plane.array, value.astype(plane.dtype))

    def pools(self, cache: MLXCellCache) -> tuple:
        """All pools."""
        return (*cache._key_pools, *cache._value_pools)

    def step(self) -> int:
        """One step of random sequences; how many of its tokens were compared."""
        rng, layout = self.rng, self.clean._layout
        ids = self.declared()
        if len(ids) > layout.free:
            for cache in self.both:
                for seq in SEQUENCES:
                    if layout.count(seq) and rng.random() < 0.5 and cache is self.clean:
                        self.drop(seq)
            return 0
        following = {seq: layout.newest(seq) + 1 for seq in ids}
        positions = []
        for seq in ids:
            following[seq] += int(rng.random() < 0.1)
            positions.append(following[seq])
            following[seq] += 1
        among = sorted(set(ids))
        spoilt = set(rng.choice(among, rng.integers(0, len(among)), replace=False).tolist())
        self.fill(spoilt, set(ids) - spoilt)
        for cache in self.both:
            cache.begin_step(ids)
        how = HOW[rng.integers(len(HOW))]
        sound = [index for index, seq in enumerate(ids) if seq not in spoilt]
        bad = mx.array([seq in spoilt for seq in ids])[None, None, :, None]
        for layer in range(self.config.n_layers):
            q, k, v = (self.tokens(len(ids), heads) for heads in (QUERY_HEADS, HEADS, HEADS))
            strange = mx.array(STRANGE[rng.integers(len(STRANGE))])
            worse = [mx.where(bad, strange, array) for array in (k, v)]
            one = self.attend(self.clean, layer, q, k, v, positions, how)
            other = self.attend(self.filled, layer, q, *worse, positions, how)
            got, want = np.array(other)[:, :, sound], np.array(one)[:, :, sound]
            if not np.array_equal(got, want):
                raise AssertionError(
                    f"{how}, layer {layer} of {self.config}: sequences {ids} with {sorted(spoilt)} spoilt got "
                    f"another output for the tokens {sound}"
                )
            if not np.isfinite(want).all():
                raise AssertionError(f"{how}: the clean cache gave what is not finite")
        self.seen[how] += 1
        return len(sound)

    def drop(self, seq: int) -> None:
        """Remove a sequence from both."""
        for cache in self.both:
            cache.seq_rm(seq)

    def declared(self) -> list[int]:
        """Ids of one, some, or all; as a batch or as they come."""
        rng = self.rng
        kind = rng.integers(4)
        if kind == 0:
            return [int(rng.choice(SEQUENCES))] * int(rng.integers(1, 5))
        among = rng.permutation(SEQUENCES)[: rng.integers(1, 5)].tolist()
        if kind == 1:
            return [seq for seq in among for _ in range(rng.integers(1, 3))]
        each = int(rng.choice([1, 1, 1, 2, 3]))
        return [seq for seq in among for _ in range(each)]

    def attend(
        self,
        cache: MLXCellCache,
        layer: int,
        q: mx.array,
        k: mx.array,
        v: mx.array,
        positions: list[int],
        how: str,
    ) -> mx.array:
        """Through `update_and_attend`, as it does it here or on a GPU, or by what a model or a backend gets."""
        if how in ("attend", "gpu"):
            on_one = mock.patch("mlxcache.kv.cells.on_gpu", return_value=True)
            with on_one if how == "gpu" else nullcontext():
                return update_and_attend(cache, layer, q, k, v, mx.array(positions, mx.int32), 0.3)
        spec = cache.update_and_fetch(
            layer, positions, k, v, gather=Gather.BATCH if how == "batch" else Gather.NEVER
        )
        assert spec.kind is not MaskKind.APART
        return _as_batch(q, spec, 0.3)


def run(steps: int, seed: int) -> Counter[str]:
    """Programs of some hundred steps each, that many steps in all; what they did, by name.

    Raises AssertionError where a sequence's output depends on cells that are not its own.
    """
    rng = np.random.default_rng(seed)
    done: Counter[str] = Counter()
    while done["steps"] < steps:
        twins = Twins(rng)
        for _ in range(min(100, steps - done["steps"])):
            if rng.random() < 0.3:
                twins.change()
            done["tokens"] += twins.step()
            done["steps"] += 1
        done += twins.seen
    return done


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(dict(run(options.steps, options.seed)))


if __name__ == "__main__":
    main()
