"""Many sequences over one pool of cells: what sharing costs where it is not needed, and saves where it is."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from .common import (
    DTYPE,
    HEAD_DIM,
    HEADS,
    LAYERS,
    PATHS,
    ROOM,
    Step,
    Timed,
    kv_bytes,
    need_memory,
    once,
    ours,
    random_tokens,
    ratio,
    require,
    synchronise,
    timed,
)
from .contenders import beside
from .ratios import Ratio


def _cells(cells: int, layers: int) -> Any:
    config = require("CacheConfig")(
        capacity=cells,
        n_layers=layers,
        layers=[require("LayerConfig")(require("LayerPolicy").flat(), HEADS, HEAD_DIM)],
        kv_dtype=DTYPE,
        initial_capacity=cells,
    )
    return require("MLXCellCache")(config)


def _following(cache: Any, seq_ids: list[int]) -> list[int]:
    """The next positions of a step's tokens."""
    following = {seq: cache.next_position(seq) for seq in seq_ids}
    positions = []
    for seq in seq_ids:
        positions.append(following[seq])
        following[seq] += 1
    return positions


def _append(cache: Any, seq_ids: list[int]) -> None:
    """Tokens at the next positions of their sequences, through all layers."""
    positions = _following(cache, seq_ids)
    cache.begin_step(seq_ids)
    tokens = random_tokens(len(seq_ids))
    for layer in range(cache.config.n_layers):
        spec = cache.update_and_fetch(layer, positions, tokens, tokens)
        mx.eval(spec.keys, spec.values)
        del spec


class _CellStep:
    """One token for each of `seq_ids` through all layers, declared, stored, fetched and evaluated."""

    def __init__(self, cache: Any, seq_ids: list[int], path: str, attend: bool = False) -> None:
        self.cache, self.seq_ids, self.attend = cache, seq_ids, attend
        self.host_positions = require("host_positions")
        self.update_and_attend = require("update_and_attend")
        self.path = path
        self.before = {seq: cache.next_position(seq) for seq in seq_ids}
        self.position = mx.array(_following(cache, seq_ids), getattr(mx, path))
        self.keys = [random_tokens(len(seq_ids), seed=i) for i in range(cache.config.n_layers)]
        mx.eval(self.position)
        for _ in range(3):
            self()
            self.rewind()

    def rewind(self) -> None:
        """Take the step back, so that every sample measures the same one."""
        for seq, position in self.before.items():
            if self.cache.next_position(seq) > position:
                self.cache.seq_rm(seq, position)

    def go_on(self) -> None:
        """On to the next positions, as decoding does; back where the room ends."""
        if not self.cache.can_extend(len(self.seq_ids)):
            self.rewind()
        self.position = mx.array(_following(self.cache, self.seq_ids), getattr(mx, self.path))

    def __call__(self) -> None:
        synchronise(self.build())

    def build(self) -> list[mx.array]:
        """The step, not evaluated."""
        cache, position, outputs = self.cache, self.position, []
        cache.begin_step(self.seq_ids)
        for layer, token in enumerate(self.keys):
            if self.attend:
                out = self.update_and_attend(cache, layer, token, token, token, position, HEAD_DIM**-0.5)
                outputs.append(out)
            else:
                spec = cache.update_and_fetch(layer, self.host_positions(position), token, token)
                outputs.append(spec.keys)
                outputs.append(spec.values)
        return outputs


class _SeparateSteps:
    """The same tokens on a sequence cache each, in one evaluation."""

    def __init__(self, count: int, context: int, layers: int, path: str) -> None:
        self.caches = [ours(context, layers=layers) for _ in range(count)]
        self.context, self.layers = context, layers
        self.update_and_attend = require("update_and_attend")
        self.position = mx.array([context], getattr(mx, path))
        self.keys = [random_tokens(1, seed=i) for i in range(layers)]
        mx.eval(self.position)
        for _ in range(3):
            self()
            self.rewind()

    def rewind(self) -> None:
        for cache in self.caches:
            cache.rewind(self.context)

    def __call__(self) -> None:
        synchronise(self.build())

    def build(self) -> list[mx.array]:
        """The steps, not evaluated."""
        position, outputs = self.position, []
        for layer, token in enumerate(self.keys):
            for cache in self.caches:
                out = self.update_and_attend(cache, layer, token, token, token, position, HEAD_DIM**-0.5)
                outputs.append(out)
        return outputs


class OneSequence(Timed):
    """One sequence's decode step on either cache: what the second costs where the first would do."""

    # Contexts as in decode.py: one where Python dominates, one where a copy of the pool would.
    params = (PATHS, ["sequence", "cell"], [1024, 4096])
    param_names = ("path", "cache", "context")

    def setup(self, path: str, cache: str, context: int) -> None:
        self.step = once((path, cache, context), lambda: self.made(path, cache, context))
        self.step.rewind()

    @staticmethod
    def made(path: str, cache: str, context: int, room: int = 64) -> Any:
        """The step of that cache, with room to go on for so many tokens."""
        if cache == "sequence":
            return Step(path, context, room=room)
        need_memory(kv_bytes(context + room))
        cells = _cells(context + room, LAYERS)
        _append(cells, [0] * context)
        return _CellStep(cells, [0], path)

    def time_step(self, path: str, cache: str, context: int) -> None:
        self.step()


class CellRatio(Ratio):
    """One sequence's decode step on the cell cache over that on the sequence cache, and on bare MLX.

    All but the bare loop that knows where to write go on from token to token, as decoding does.
    """

    params = (PATHS, ["sequence", "bare", "bare reading"])
    param_names = ("path", "over")
    version = "2"  # 1 took every step back, which cost more than the step declares and left the caches cold

    def track_decode(self, path: str, over: str) -> float:
        mine = OneSequence.made(path, "cell", 1024, ROOM)
        if over != "sequence":
            bare = beside(path, over)
            return ratio(timed(mine, mine.go_on), timed(bare.step, bare.go_on))
        other = OneSequence.made(path, "sequence", 1024, ROOM)
        return ratio(timed(mine, mine.go_on), timed(other, other.go_on))


class BatchRatio(Ratio):
    """B sequences in one shared step over a cache each, attention included."""

    params = [1, 4, 8]
    param_names = ("sequences",)

    def track_over_separate(self, sequences: int) -> float:
        shared, separate = (Batch.made("int32", how, sequences) for how in ("shared", "separate"))
        return ratio(timed(shared, shared.rewind), timed(separate, separate.rewind), rounds=30)


class LongBatchRatio(Ratio):
    """B long sequences in one shared step over a cache each, attention included; every one has decoded before.

    What another sequence's decoding does to the layout is what costs: a sequence's newest cells lie among those of
    the others, its prompt in one run.
    """

    # A page and a short book of a small server's users. One layer, since a layer costs what the next one costs.
    params = ([4, 8], [1000, 16000])
    param_names = ("sequences", "context")
    timeout = 600

    def track_over_separate(self, sequences: int, context: int) -> float:
        require("MLXCellCache")
        need_memory(kv_bytes(2 * sequences * (context + 64), layers=1))
        cells = _cells(sequences * (context + 32), 1)
        for seq in range(sequences):
            _append(cells, [seq] * (context - 16))
        for _ in range(16):
            _append(cells, list(range(sequences)))
        shared = _CellStep(cells, list(range(sequences)), "int32", attend=True)
        separate = _SeparateSteps(sequences, context, 1, "int32")
        # A CPU takes seconds for a step of the long ones.
        rounds = 10 if context < 4000 else 3
        return ratio(timed(shared, shared.rewind), timed(separate, separate.rewind), rounds=rounds)


class Batch(Timed):
    """B sequences of 256 tokens, one token each, stored and attended: one shared step, or a cache each.

    The shared step makes one call a layer where the others make B, and copies each sequence's cells together
    before it attends: comparing every query with the cells of all took ten times as long at B = 32.
    """

    # Eight layers, to keep 32 caches in memory. B: a user, a household, a small server, a full one.
    params = (PATHS, ["shared", "separate"], [1, 4, 8, 32])
    param_names = ("path", "caches", "sequences")

    def setup(self, path: str, caches: str, sequences: int) -> None:
        self.step = once((path, caches, sequences), lambda: self.made(path, caches, sequences))
        self.step.rewind()

    @staticmethod
    def made(path: str, caches: str, sequences: int) -> Any:
        """The step of that many sequences."""
        require("MLXCellCache")
        need_memory(kv_bytes(sequences * 384, layers=8))
        if caches == "separate":
            return _SeparateSteps(sequences, 256, 8, path)
        cells = _cells(sequences * 272, 8)
        for seq in range(sequences):
            _append(cells, [seq] * 256)
        return _CellStep(cells, list(range(sequences)), path, attend=True)

    def time_step(self, path: str, caches: str, sequences: int) -> None:
        self.step()


class Fork(Timed):
    """A second sequence with the same past: cells shared, or pools copied. 32 layers."""

    # A page and a document: sharing looks at host integers, copying moves 128 and 512 MiB.
    params = (["share", "copy"], [1024, 4096])
    param_names = ("how", "context")
    repeat = (2, 4, 0.2)
    rounds = 2

    def setup(self, how: str, context: int) -> None:
        need_memory(kv_bytes(4 * context))
        self.cache = once(context, lambda: self._make(context))
        if self.cache.seq_len(1):
            self.cache.seq_rm(1)

    @staticmethod
    def _make(context: int) -> Any:
        cells = _cells(context + 64, LAYERS)
        _append(cells, [0] * context)
        return cells

    def time_fork(self, how: str, context: int) -> None:
        if how == "share":
            self.cache.seq_cp(0, 1)
        else:
            copies = []
            for pool in (*self.cache._key_pools, *self.cache._value_pools):
                fresh = mx.zeros(pool.array.shape, DTYPE)
                fresh[:, :, :context] = pool.array[:, :, :context]
                copies.append(fresh)
            synchronise(copies)


class Fragmented(Timed):
    """A step of four tokens of one sequence: at the end of a fresh pool, or into the holes of a used one."""

    params = (PATHS, ["fresh", "holes"])
    param_names = ("path", "pool")

    def setup(self, path: str, pool: str) -> None:
        self.step = once((path, pool), lambda: self._make(path, pool))
        self.step.rewind()

    @staticmethod
    def _make(path: str, pool: str) -> Any:
        need_memory(kv_bytes(2200))
        cells = _cells(2112, LAYERS)
        if pool == "fresh":
            _append(cells, [0] * 1024)
        else:  # 1024 tokens of sequence 0, a cell between any two of them, which sequence 1 has left
            _append(cells, [0, 1] * 1024)
            cells.seq_rm(1)
        return _CellStep(cells, [0] * 4, path)

    def time_step(self, path: str, pool: str) -> None:
        self.step()
