"""The cell cache against the oracle, the fused path, and every refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from unittest import mock

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mlxcache import (
    AttendSpec,
    CapacityError,
    MaskKind,
    MLXCellCache,
    MLXSequenceCache,
    host_positions,
    make_cache,
    update_and_attend,
)
from mlxcache.kv.attend import _as_batch
from mlxcache.kv.cache import LayerBytes
from mlxcache.kv.step import Gather
from tests.cell_oracle import CellOracle
from tests.helpers import config, tokens
from tests.oracle import attend

# How a program attends: see `CellProgram.attend`.
HOW = ["attend", "gpu", "batch", "cells"]


@contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """The ways that are taken on a GPU, on this device."""
    with mock.patch("mlxcache.kv.cells.on_gpu", return_value=True):
        yield


def state(cache: MLXCellCache) -> dict[str, object]:
    """Everything a refused call must leave alone, as plain values."""
    layout, step = cache._layout, cache._step
    return {
        "bytes": [np.array(p.array).tobytes() for p in (*cache._key_pools, *cache._value_pools)],
        "slots": [p.slots for p in (*cache._key_pools, *cache._value_pools)],
        "cells": [(layout.position(c), layout.owners(c)) for c in range(layout.capacity)],
        "sequences": [(layout.count(s), layout.newest(s), layout._tails[s]) for s in range(64)],
        "numbers": (layout.free, layout.used_end, layout._full_until),
        "step": (step.seq_ids, step.layers_served, step.in_progress, step.committed),
    }


def serve(
    cache: MLXCellCache, seq_ids: Sequence[int], positions: Sequence[int], seed: int = 0
) -> list[AttendSpec]:
    """One whole step with random tokens; the specs of all layers, evaluated."""
    rng = np.random.default_rng(seed)
    cache.begin_step(seq_ids)
    specs = []
    for layer in range(cache.config.n_layers):
        k = tokens(rng, len(seq_ids))
        specs.append(cache.update_and_fetch(layer, positions, k, -k))
    mx.eval([spec[:2] for spec in specs])
    return specs


@contextmanager
def all_others_filled(cache: MLXCellCache, own: list[bool], strange: float | None) -> Iterator[None]:
    """During one step: this value in every cell but a few; what they held is put back. None fills nothing."""
    if strange is None:
        yield
        return
    pools = (*cache._key_pools, *cache._value_pools)
    kept = []
    for pool in pools:
        kept.append(np.array(pool.array))
        mine = mx.array(own[: pool.slots])[None, None, :, None]
        pool.array = mx.where(mine, pool.array, mx.array(strange, pool.dtype))
        mx.eval(pool.array)
    yield
    placed = set(cache._step.placement.cells.tolist())
    for pool, before in zip(pools, kept, strict=True):
        after = np.array(pool.array)
        others = [cell for cell in range(before.shape[2]) if not own[cell] and cell not in placed]
        after[:, :, others] = before[:, :, others]
        pool.array = mx.array(after)


class CellProgram(RuleBasedStateMachine):
    """Random steps, forks, removals and refusals over random models, compared through attention outputs."""

    @initialize(
        windows=st.lists(st.one_of(st.none(), st.integers(1, 6)), min_size=1, max_size=3),
        initial=st.sampled_from([0, 1, 5, 64]),
        capacity=st.integers(8, 50),
        seed=st.integers(0, 2**16),
        strange=st.sampled_from([None, np.nan, np.nan, np.inf, -1e30]),
    )
    def build(self, windows, initial, capacity, seed, strange) -> None:
        self.strange = strange
        self.config = config(*windows, initial_capacity=initial, capacity=capacity)
        self.cache = MLXCellCache(self.config)
        self.oracle = CellOracle(self.config)
        self.rng = np.random.default_rng(seed)

    @rule(
        wanted=st.lists(st.tuples(st.sampled_from([0, 1, 2, 63]), st.sampled_from([0, 0, 0, 0, 2])), max_size=7),
        wide=st.booleans(),
        ask_first=st.booleans(),
        how=st.sampled_from(HOW),
    )
    def interleaved_step(self, wanted, wide, ask_first, how) -> None:
        if wanted:
            self.step([seq for seq, _ in wanted], [gap for _, gap in wanted], wide, ask_first, how)

    @rule(
        seqs=st.lists(st.sampled_from([0, 1, 2, 63]), min_size=1, max_size=4, unique=True),
        count=st.integers(1, 3),
        ask_first=st.booleans(),
        how=st.sampled_from(HOW),
    )
    def batch_step(self, seqs, count, ask_first, how) -> None:
        ids = [seq for seq in seqs for _ in range(count)]
        self.step(ids, [0] * len(ids), False, ask_first, how)

    @rule(seq=st.sampled_from([0, 1, 2, 63]), count=st.integers(1, 9), wide=st.booleans())
    def run_step(self, seq, count, wide) -> None:
        self.step([seq] * count, [0] * count, wide, False, "cells")

    @rule(seq=st.sampled_from([0, 1, 2, 63]), count=st.integers(1, 6), how=st.sampled_from(HOW))
    def decode(self, seq, count, how) -> None:
        for _ in range(count):
            self.step([seq], [0], False, False, how)

    def attend(self, layer, q, k, v, position, how: str) -> mx.array:
        """Through `update_and_attend`, as it does it here or on a GPU, or by what a model or a backend gets."""
        if how in ("attend", "gpu"):
            with as_on_a_gpu() if how == "gpu" else nullcontext():
                return update_and_attend(self.cache, layer, q, k, v, position, 0.3)
        spec = self.cache.update_and_fetch(
            layer, host_positions(position), k, v, gather=Gather.BATCH if how == "batch" else Gather.NEVER
        )
        assert spec.mask is None or how == "batch" or spec.mask.shape == (1, 1, q.shape[2], spec.keys.shape[2])
        return _as_batch(q, spec, 0.3)

    def step(self, seq_ids: list[int], gaps: list[int], wide: bool, ask_first: bool, how: str) -> None:
        cache, oracle = self.cache, self.oracle
        if len(seq_ids) > oracle.free:
            self.refused(CapacityError, "cells free", lambda: cache.begin_step(seq_ids))
            return
        newest = {seq: oracle.newest(seq) for seq in seq_ids}
        positions = []
        for seq, gap in zip(seq_ids, gaps, strict=True):
            newest[seq] += 1 + gap
            positions.append(newest[seq])
        position = mx.array(positions, mx.int64 if wide else mx.int32)
        cache.begin_step(seq_ids)
        own = [bool(owners & set(seq_ids)) for owners in oracle.cells]
        oracle.place(seq_ids, positions)
        with all_others_filled(cache, own, self.strange):
            self.all_layers(seq_ids, positions, position, ask_first, how)

    def all_layers(self, seq_ids, positions, position, ask_first, how) -> None:
        cache, oracle = self.cache, self.oracle
        for layer in range(self.config.n_layers):
            q, k, v = (tokens(self.rng, len(seq_ids), heads) for heads in (4, 2, 2))
            oracle.store(layer, seq_ids, positions, np.array(k)[0], np.array(v)[0])
            if ask_first:
                for gather in (Gather.CHEAPER, Gather.BATCH, Gather.NEVER):
                    kind, mask, _ = cache.mask_for(layer, positions, gather)
                    assert (kind is MaskKind.EXPLICIT) == (mask is not None)
            out = np.array(self.attend(layer, q, k, v, position, how))[0]
            for i, (seq, at) in enumerate(zip(seq_ids, positions, strict=True)):
                keys, values = oracle.attended(layer, seq, at)
                sees = np.ones((1, keys.shape[1]), bool)
                expected = attend(np.array(q)[0][:, i : i + 1], keys, values, sees, 0.3)
                np.testing.assert_allclose(out[:, i : i + 1], expected, atol=2e-5)

    @rule(src=st.sampled_from([0, 1, 2, 63]), dst=st.integers(0, 3), upto=st.one_of(st.none(), st.integers(0, 9)))
    def fork(self, src, dst, upto) -> None:
        if self.oracle.copy(src, dst, upto):
            self.cache.seq_cp(src, dst, upto)
        else:
            self.refused(ValueError, r"(src|dst): got", lambda: self.cache.seq_cp(src, dst, upto))

    @rule(
        seq=st.sampled_from([0, 1, 2, 3, 63]),
        start=st.one_of(st.just(0), st.integers(0, 12)),
        stop=st.one_of(st.none(), st.integers(0, 12)),
    )
    def remove(self, seq, start, stop) -> None:
        freed = self.oracle.remove(seq, start, stop)
        if freed is None:
            self.refused(ValueError, "seq: got", lambda: self.cache.seq_rm(seq, start, stop))
        else:
            assert self.cache.seq_rm(seq, start, stop) == freed

    @rule(seq=st.sampled_from([0, 1, 63]), shift=st.sampled_from([0, 5]))
    def restore(self, seq, shift) -> None:
        """Between two of its decode steps a sequence is removed and restored, at its positions or others."""
        self.decode(seq, 1, "cells")
        cache, oracle, layers = self.cache, self.oracle, range(self.config.n_layers)
        held, before = [cache.held(layer, seq) for layer in layers], sorted(oracle.positions[seq])
        mx.eval([stored.keys + stored.values for stored in held])
        if not before:
            return
        stored_tokens = [[oracle.tokens[seq][layer][p] for p in before] for layer in layers]
        after = [p + shift for p in before]
        assert cache.seq_rm(seq) == oracle.remove(seq, 0, None)
        if len(after) > oracle.free:
            self.refused(CapacityError, "cells free", lambda: cache.restore(seq, after, held))
            return
        cache.restore(seq, after, held)
        oracle.place([seq] * len(after), after)
        for layer in layers:
            oracle.tokens[seq][layer].update(zip(after, stored_tokens[layer], strict=True))
        self.decode(seq, 1, "cells")

    @rule(seq=st.sampled_from([0, 1, 2]), back=st.integers(0, 2))
    def old_position(self, seq, back) -> None:
        newest = self.oracle.newest(seq)
        if newest < back or not self.oracle.free:
            return
        self.cache.begin_step([seq])
        k = tokens(self.rng, 1)
        self.refused(ValueError, r"positions\[0\]", lambda: self.cache.update_and_fetch(0, [newest - back], k, k))
        self.cache.cancel_step()

    @rule()
    def cancelled_half_way(self) -> None:
        if not self.oracle.free or self.config.n_layers == 1:
            return
        before = {key: value for key, value in state(self.cache).items() if key in ("cells", "sequences")}
        self.cache.begin_step([0])
        k = tokens(self.rng, 1)
        self.cache.update_and_fetch(0, [self.oracle.newest(0) + 1], k, k)
        self.cache.cancel_step()
        after = state(self.cache)
        assert {key: after[key] for key in before} == before

    def refused(self, error: type[Exception], message: str, call: Callable[[], object]) -> None:
        before = state(self.cache)
        with pytest.raises(error, match=message):
            call()
        assert state(self.cache) == before

    @invariant()
    def cells_are_where_the_oracle_has_them(self) -> None:
        if not hasattr(self, "cache"):
            return
        layout = self.cache._layout
        assert [layout.owners(c) for c in range(layout.capacity)] == [frozenset(o) for o in self.oracle.cells]
        assert layout.free == self.oracle.free
        assert layout.used_end == 1 + max((c for c, o in enumerate(self.oracle.cells) if o), default=-1)
        for seq in (0, 1, 2, 3, 63):
            expected = self.oracle.positions[seq]
            assert dict(
                zip(layout.positions_of(seq).tolist(), layout.cells_of(seq).tolist(), strict=True)
            ) == dict(sorted(expected.items()))


CellProgram.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestCellProgram = CellProgram.TestCase


def test_one_sequence_gives_what_the_sequence_cache_gives() -> None:
    """Chunks and single tokens over flat and windowed layers: equal keys, values, kinds and masks, bit by bit."""
    cfg = config(None, 5, 3)
    cells, sequence = MLXCellCache(cfg), MLXSequenceCache(cfg)
    rng = np.random.default_rng(1)
    position = 0
    for count in (3, 1, 1, 2, 3, 1, 1, 3, 1, 1, 1):
        positions = range(position, position + count)
        cells.begin_step([7] * count)
        for layer in range(3):
            k, v = tokens(rng, count), tokens(rng, count)
            one = cells.update_and_fetch(layer, positions, k, v)
            other = sequence.update_and_fetch(layer, positions, k, v)
            assert one.kind is other.kind
            assert mx.array_equal(one.keys, other.keys)
            assert mx.array_equal(one.values, other.values)
            assert one.mask is other.mask or mx.array_equal(one.mask, other.mask)
        position += count


def test_64_sequences_share_one_pool() -> None:
    """Every sequence sees itself only; a sixty-fifth id is refused."""
    cache = MLXCellCache(config(None, 2, capacity=130))
    ids = list(range(64))
    for position in (0, 1):
        specs = serve(cache, ids, [position] * 64, seed=position)
    for spec, window in zip(specs, (2, 2), strict=True):
        sees = np.array(spec.mask)[0, 0]
        assert sees.sum(axis=1).tolist() == [window] * 64
        assert all(sees[s, s] and sees[s, 64 + s] for s in ids)
    assert cache.free == 2
    with pytest.raises(ValueError, match=r"seq_ids\[0\]: got 64, expected a sequence id, 0 <= id < 64"):
        cache.begin_step([64])


def test_a_fork_of_every_sequence_shares_the_cells() -> None:
    """One prefix, 63 forks: no cell more is used, and every fork goes on by itself."""
    cache = MLXCellCache(config(None, capacity=80))
    serve(cache, [0] * 10, range(10))
    for seq in range(1, 64):
        cache.seq_cp(0, seq, upto=8)
    assert cache.free == 70
    (spec,) = serve(cache, list(range(64)), [10] + [8] * 63)
    sees = np.array(spec.mask)[0, 0]
    assert sees[0].sum() == 11
    assert (sees[1:].sum(axis=1) == 9).all()
    assert cache.seq_rm(0) == 3  # positions 8 and 9, which no fork has, and 10
    assert cache.seq_len(5) == 9


def test_one_sequence_at_its_own_tail_is_fused_wherever_it_lies() -> None:
    """The run need not begin at cell 0, nor be owned alone; a windowed layer needs only its window to be a run."""
    cache = MLXCellCache(config(None, 3))
    serve(cache, [0] * 4, range(4))
    serve(cache, [1] * 4, range(4))
    flat, windowed = serve(cache, [1], [4])
    assert (flat.kind, flat.keys.shape[2]) == (MaskKind.NONE, 5)
    assert (windowed.kind, windowed.keys.shape[2]) == (MaskKind.NONE, 3)
    flat, windowed = serve(cache, [1] * 3, [5, 6, 7])
    assert (flat.kind, flat.keys.shape[2]) == (MaskKind.CAUSAL, 8)
    assert (windowed.kind, windowed.keys.shape[2]) == (MaskKind.EXPLICIT, 5)  # the band of a run, not of cells
    cache.seq_cp(1, 2)
    flat, _ = serve(cache, [2], [8])
    assert (flat.kind, flat.keys.shape[2]) == (MaskKind.NONE, 9)
    # Sequence 1 now continues behind a cell of sequence 2: two runs.
    flat, windowed = serve(cache, [1], [8])
    assert (flat.kind, windowed.kind) == (MaskKind.EXPLICIT, MaskKind.EXPLICIT)
    for position in (9, 10):
        flat, windowed = serve(cache, [1], [position])
    assert (flat.kind, windowed.kind) == (MaskKind.EXPLICIT, MaskKind.NONE)


def test_layers_of_one_window_share_their_mask() -> None:
    """One mask per distinct window and step, however many layers there are."""
    cache = MLXCellCache(config(None, 2, None, 2))
    serve(cache, [0, 1], [0, 0])
    specs = serve(cache, [0, 1], [1, 1])
    assert specs[0].mask is specs[2].mask
    assert specs[1].mask is specs[3].mask
    assert specs[0].mask is not specs[1].mask


def test_a_fragmented_pool_fills_its_holes_first() -> None:
    """Each token takes the lowest free cell, in and behind the holes, and nothing is renumbered."""
    cache = MLXCellCache(config(None, capacity=12, initial_capacity=1))
    serve(cache, [0, 1] * 4, [0, 0, 1, 1, 2, 2, 3, 3])
    kept = {cell: cache._layout.position(cell) for cell in (1, 3, 5, 7)}
    assert cache.seq_rm(0) == 4
    assert (cache.free, cache.used_end) == (8, 8)
    serve(cache, [2] * 6, range(6))
    assert cache._layout.cells_of(2).tolist() == [0, 2, 4, 6, 8, 9]
    assert {cell: cache._layout.position(cell) for cell in kept} == kept
    assert cache.seq_rm(2, 5) == 1
    assert cache.used_end == 9


def test_growth_never_renumbers() -> None:
    """Pools double and are capped; the cells written before hold what they held."""
    cache = MLXCellCache(config(None, capacity=11, initial_capacity=1))
    slots = []
    for position in range(11):
        (spec,) = serve(cache, [0], [position], seed=position)
        slots.append(cache._key_pools[0].slots)
    assert slots == [1, 2, 4, 4, 8, 8, 8, 8, 11, 11, 11]
    rows = [np.array(tokens(np.random.default_rng(seed), 1))[0, :, 0] for seed in range(11)]
    np.testing.assert_array_equal(np.array(spec.keys)[0], np.stack(rows, axis=1))
    assert not cache.can_extend(1)


def test_a_batch_has_a_row_for_each_sequence() -> None:
    """Each sequence's cells apart, padded on the left with a cell of its own."""
    cache = MLXCellCache(config(None, 3))
    for seq, count in ((0, 6), (1, 4), (2, 6)):
        serve(cache, [seq] * count, range(count))
    rng = np.random.default_rng(0)
    cache.begin_step([0, 1])
    for layer, span in enumerate((7, 3)):
        k = tokens(rng, 2)
        keys, _, kind, mask = cache.update_and_fetch(layer, [6, 4], k, k, gather=Gather.BATCH)
        assert keys.shape == (2, 2, span, 8)
        if layer == 0:
            np.testing.assert_array_equal(np.array(keys)[1, :, 1], np.array(keys)[1, :, 2])
            sees = np.array(mask)[:, 0, 0]
            assert sees.sum(axis=1).tolist() == [7, 5]
            assert sees[:, -1].all()
        else:  # both windows are full: nothing to hide
            assert kind is MaskKind.NONE
        np.testing.assert_array_equal(np.array(keys)[:, :, -1], np.array(k)[0].transpose(1, 0, 2))
    # A fork's past too, though the rows are then more than the pool.
    cache = MLXCellCache(config(None, 3))
    serve(cache, [0] * 10, range(10))
    for seq in (3, 4):
        cache.seq_cp(0, seq)
    cache.begin_step([0, 3, 4])
    for layer in range(2):
        k = tokens(rng, 3)
        spec = cache.update_and_fetch(layer, [10] * 3, k, k, gather=Gather.BATCH)
        assert spec.keys.shape[0] == 3


def test_a_batch_also_comes_a_sequence_at_a_time() -> None:
    """Each without padding: a run of cells as a view of the pool, fused masks, an explicit one over a gap."""
    cache = MLXCellCache(config(None))
    for seq, count in ((0, 6), (1, 4), (2, 5), (0, 1), (9, 12)):
        start = cache.next_position(seq)
        serve(cache, [seq] * count, range(start, start + count))
    cache.seq_rm(2, 1, 3)
    cache.seq_rm(9)
    rng = np.random.default_rng(0)
    for ids, positions, spans in (([1, 0, 2], [4, 7, 5], [5, 8, 4]), ([2, 2, 0, 0], [6, 7, 8, 9], [6, 10])):
        cache.begin_step(ids)
        k = tokens(rng, len(ids))
        batch = cache.update_and_fetch(0, positions, k, -k, gather=Gather.BATCH)
        if batch.keys.shape[0] == 1:
            pytest.fail("the step was no batch")
        each = cache.fetch_each(0)
        assert [spec.keys.shape for spec in each] == [(1, 2, span, 8) for span in spans]
        for index, (spec, span) in enumerate(zip(each, spans, strict=True)):
            whole = np.array(batch.keys)[index][:, -span:]
            np.testing.assert_array_equal(np.array(spec.keys)[0], whole)
            np.testing.assert_array_equal(np.array(spec.values)[0], -whole)
        kinds = [spec.kind for spec in each]
        if len(ids) == 3:
            assert kinds == [MaskKind.NONE] * 3
        else:
            assert kinds == [MaskKind.EXPLICIT, MaskKind.CAUSAL]
            assert np.array(each[0].mask)[0, 0].tolist() == [[True] * 5 + [False], [True] * 6]


def test_only_a_step_that_came_as_a_batch_comes_a_sequence_at_a_time() -> None:
    """Before the layer is served, after a step that was no batch, and on a cache of one sequence: errors."""
    cache = MLXCellCache(config(None, None))
    with pytest.raises(RuntimeError, match="layer: 0 has no batch in this step"):
        cache.fetch_each(0)
    for seq in (0, 1, 2):
        serve(cache, [seq] * 6, range(6))
    cache.begin_step([0, 1])
    k = tokens(np.random.default_rng(0), 2)
    assert cache.update_and_fetch(0, [6, 6], k, k, gather=Gather.BATCH).keys.shape[0] == 2
    with pytest.raises(RuntimeError, match="layer: 1 has no batch"):
        cache.fetch_each(1)
    with pytest.raises(IndexError, match="layer: got 2"):
        cache.fetch_each(2)
    assert cache.update_and_fetch(1, [6, 6], k, k).keys.shape[0] == 1
    with pytest.raises(RuntimeError, match="layer: 1 has no batch"):
        cache.fetch_each(1)
    with pytest.raises(RuntimeError, match="of one sequence has no batch"):
        MLXSequenceCache(config(None)).fetch_each(0)


def test_a_gpu_takes_sequences_as_a_batch_and_a_cpu_one_at_a_time() -> None:
    """A step of as many tokens each; where they differ, one at a time on both, and a model's batch is masked."""
    for gpu, as_batch in ((False, MaskKind.APART), (True, MaskKind.EXPLICIT)):
        with as_on_a_gpu() if gpu else mock.patch("mlxcache.kv.cells.on_gpu", return_value=False):
            for ids, positions, kinds in (
                ([0, 1], [6, 3], (as_batch, MaskKind.EXPLICIT)),
                ([0, 1, 1], [6, 3, 4], (MaskKind.APART, MaskKind.EXPLICIT)),
            ):
                cache = MLXCellCache(config(None))
                for seq, count in ((0, 6), (1, 3)):
                    serve(cache, [seq] * count, range(count))
                cache.begin_step(ids)
                found = [cache.mask_for(0, positions, gather).kind for gather in (Gather.CHEAPER, Gather.BATCH)]
                assert tuple(found) == kinds
                k = tokens(np.random.default_rng(0), len(ids))
                spec = cache.update_and_fetch(0, positions, k, -k, Gather.CHEAPER)
                if spec.kind is MaskKind.APART:
                    assert spec.keys is k
                    assert spec.mask is None


def test_a_gpu_reads_long_sequences_where_they_lie() -> None:
    """From `LONG` tokens on, as on a CPU: in two parts, with the same attention as one batch."""
    outs = []
    for long in (9, 8):
        cache = MLXCellCache(config(None))
        for seq in (0, 1):
            serve(cache, [seq] * 6, range(6))
        serve(cache, [0, 1], [6, 6])
        cache.begin_step([0, 1])
        k = tokens(np.random.default_rng(0), 2)
        with as_on_a_gpu(), mock.patch("mlxcache.kv.cells.LONG", long):
            kind = cache.mask_for(0, [7, 7], Gather.CHEAPER).kind
            assert (kind is MaskKind.APART) == (long == 8)
            outs.append(update_and_attend(cache, 0, k, k, -k, mx.array([7, 7]), 0.3))
            if long == 8:
                assert [len(read.parts) for read in cache.read_each(0)] == [2, 2]
    assert np.allclose(np.array(outs[0]), np.array(outs[1]), rtol=0, atol=1e-5)


def test_one_scattered_sequence_comes_in_order() -> None:
    """Gathered, its cells lie as in a cache of its own, and the mask is fused; one query sees all, gaps or not."""
    cache = MLXCellCache(config(None, 3))
    serve(cache, [0, 1, 2] * 3, [0, 0, 0, 1, 1, 1, 2, 2, 2])
    for positions, kinds in (([3], [MaskKind.NONE] * 2), ([4, 5], [MaskKind.CAUSAL, MaskKind.EXPLICIT])):
        cache.begin_step([0] * len(positions))
        for layer, kind in enumerate(kinds):
            k = tokens(np.random.default_rng(0), len(positions))
            spec = cache.update_and_fetch(layer, positions, k, k, gather=Gather.BATCH)
            assert spec.kind is kind
            assert spec.keys.shape[0] == 1
            np.testing.assert_array_equal(np.array(spec.keys)[:, :, -1], np.array(k)[:, :, -1])
    cache.seq_rm(0, 1, 2)
    cache.begin_step([0])
    k = tokens(np.random.default_rng(0), 1)
    assert cache.update_and_fetch(0, [6], k, k, gather=Gather.BATCH).kind is MaskKind.NONE
    assert cache.update_and_fetch(1, [6], k, k, gather=Gather.BATCH).kind is MaskKind.NONE


def _declared(count: int = 1) -> MLXCellCache:
    cache = MLXCellCache(config(None, 4, capacity=10))
    serve(cache, [0] * 3, range(3))
    serve(cache, [1] * 2, range(2))
    if count:
        cache.begin_step([0] * count)
    return cache


def _k(count: int = 1, heads: int = 2, dim: int = 8) -> mx.array:
    return mx.ones((1, heads, count, dim))


def _held(cache: MLXCellCache, count: int) -> list[LayerBytes]:
    """The first cells of sequence 0."""
    return [
        LayerBytes(*((plane[:, :, :count],) for (plane,) in cache.held(layer, 0)))
        for layer in range(cache.config.n_layers)
    ]


@pytest.mark.parametrize(
    ("declared", "call", "error", "message"),
    [
        (0, lambda c: c.update_and_fetch(1, [3], _k(), _k()), RuntimeError, "already in this step|served already"),
        (1, lambda c: c.begin_step([0]), RuntimeError, r"begin_step: a step of 1 tokens is declared and 0 of 2"),
        (1, lambda c: c.seq_cp(0, 5), RuntimeError, r"seq_cp: .* cancel_step\(\)"),
        (1, lambda c: c.seq_rm(0), RuntimeError, r"seq_rm: .* cancel_step\(\)"),
        (0, lambda c: c.begin_step([]), ValueError, "seq_ids: got 0 tokens"),
        (0, lambda c: c.begin_step([0, -1]), ValueError, r"seq_ids\[1\]: got -1, expected .* id < 64"),
        (0, lambda c: c.begin_step([0, 64]), ValueError, r"seq_ids\[1\]: got 64"),
        (0, lambda c: c.begin_step([True]), ValueError, r"seq_ids\[0\]: got True"),
        (0, lambda c: c.begin_step([0] * 6), CapacityError, "got 6 tokens with 5 of 10 cells free"),
        (1, lambda c: c.update_and_fetch(0, [3, 4], _k(2), _k(2)), ValueError, "got 2 for the 1 tokens declared"),
        (1, lambda c: c.update_and_fetch(0, [], _k(), _k()), ValueError, "positions: got 0 tokens"),
        (1, lambda c: c.update_and_fetch(0, [2], _k(), _k()), ValueError, r"\[0\]: got 2 .* expected at least 3"),
        (1, lambda c: c.update_and_fetch(0, [-1], _k(), _k()), ValueError, r"positions\[0\]: got -1"),
        (1, lambda c: c.update_and_fetch(0, [0.5], _k(), _k()), ValueError, "got dtype float64"),
        (2, lambda c: c.update_and_fetch(0, [4, 4], _k(2), _k(2)), ValueError, r"\[1\]: got 4 .* at least 5"),
        (1, lambda c: c.update_and_fetch(0, [2**31 - 1], _k(), _k()), ValueError, "got 2147483647 .* at most"),
        (2, lambda c: c.update_and_fetch(0, [3, 2**31], _k(2), _k(2)), ValueError, r"1\]: got 2147483648"),
        (0, lambda c: c.restore(0, [2**31], _held(c, 1)), ValueError, r"\[0\]: got 2147483648"),
        (1, lambda c: c.update_and_fetch(2, [3], _k(), _k()), IndexError, "layer: got 2, expected 0 <= layer < 2"),
        (1, lambda c: c.update_and_fetch(-1, [3], _k(), _k()), IndexError, "layer: got -1"),
        (1, lambda c: c.update_and_fetch(0, [3], _k(2), _k()), ValueError, r"k: got shape \(1, 2, 2, 8\)"),
        (1, lambda c: c.update_and_fetch(0, [3], _k(), _k(heads=1)), ValueError, r"v: got shape \(1, 1, 1, 8\)"),
        (1, lambda c: c.update_and_fetch(0, [3], _k(dim=1), _k()), ValueError, r"k: got shape \(1, 2, 1, 1\)"),
        (0, lambda c: c.seq_cp(0, 1), ValueError, r"dst: got 1, which holds 2 cells, .* seq_rm\(1\)"),
        (0, lambda c: c.seq_cp(0, 0), ValueError, "dst: got 0, the same as src"),
        (0, lambda c: c.seq_cp(9, 5), ValueError, "src: got 9, which holds no cells"),
        (0, lambda c: c.seq_cp(0, 5, upto=0), ValueError, "no cells below position 0"),
        (0, lambda c: c.seq_cp(64, 5), ValueError, "src: got 64"),
        (0, lambda c: c.seq_cp(0, 64), ValueError, "dst: got 64"),
        (0, lambda c: c.seq_rm(7), ValueError, r"seq: got 7 .* holds no cells"),
        (0, lambda c: c.seq_rm(0, 3), ValueError, r"\[3, end\).* it holds 3 cells up to position 2"),
        (0, lambda c: c.seq_rm(0, 2, 2), ValueError, r"\[2, 2\)"),
        (0, lambda c: c.seq_rm(0, -1), ValueError, "start: got -1"),
        (0, lambda c: c.seq_rm(-1), ValueError, "seq: got -1"),
    ],
)
def test_a_refused_call_changes_nothing(declared, call, error, message) -> None:
    """Cells, bytes, slots, sequences and the declaration stay; the declaration still serves a right step."""
    cache = _declared(declared)
    before = state(cache)
    with pytest.raises(error, match=message) as caught:
        call(cache)
    assert caught.type is error
    assert state(cache) == before
    cache.cancel_step()
    assert serve(cache, [0], [3])[0].keys.shape[2] == 6


def test_a_restored_sequence_decodes_on_from_its_own_positions() -> None:
    """Where it took the cells of one that has just decoded, at other positions, every layer is served."""
    cache = MLXCellCache(config(None, 3))
    serve(cache, [0] * 4, range(4))
    serve(cache, [0], [4])
    held = [cache.held(layer, 0) for layer in range(2)]
    mx.eval([stored.keys + stored.values for stored in held])
    cache.seq_rm(0)
    cache.restore(0, range(10, 15), held)
    assert [spec.keys.shape[2] for spec in serve(cache, [0], [15])] == [6, 3]
    assert cache.seq_positions(0).tolist() == list(range(10, 16))


def test_a_step_without_a_declaration_is_refused() -> None:
    """The first step of a cache has to be declared like any other."""
    cache = make_cache("cell", config(None))
    with pytest.raises(RuntimeError, match=r"none is declared, expected begin_step\(seq_ids\)"):
        cache.update_and_fetch(0, [0], _k(), _k())


def test_a_layer_served_twice_is_refused() -> None:
    """Within a step and after it: a declaration is used once by each layer."""
    cache = _declared(1)
    cache.update_and_fetch(0, [3], _k(), _k())
    before = state(cache)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="layer: 0 was served already"):
            cache.update_and_fetch(0, [3], _k(), _k())
        assert state(cache) == before
    with pytest.raises(ValueError, match=r"positions: got \[4\], expected those that the first layer .*: \[3\]"):
        cache.update_and_fetch(1, [4], _k(), _k())
    assert state(cache) == before
    cache.update_and_fetch(1, [3], _k(), _k())
    with pytest.raises(RuntimeError, match="layer: 1 was served already"):
        cache.update_and_fetch(1, [3], _k(), _k())


def test_clear_forgets_sequences_and_the_declaration() -> None:
    """The storage stays, and a new sequence starts at cell 0."""
    cache = _declared(2)
    slots = cache._key_pools[0].slots
    cache.clear()
    assert (cache.free, cache.used_end, cache.seq_len(0), cache.next_position(0)) == (10, 0, 0, 0)
    assert cache._key_pools[0].slots == slots
    assert serve(cache, [0] * 2, range(2))[0].kind is MaskKind.CAUSAL


def test_decoding_writes_in_place_in_a_fragmented_pool() -> None:
    """A step's peak is one mask and small arrays, not a copy of the pool, whether cells are scattered or not."""
    cache = MLXCellCache(config(None, heads=4, dim=64, capacity=8192, initial_capacity=8192))
    rng = np.random.default_rng(0)
    for seq_ids in ([0, 1] * 3, [0, 1]):
        cache.begin_step(seq_ids)
        positions = [cache.next_position(s) + i // 2 for i, s in enumerate(seq_ids)]
        k = tokens(rng, len(seq_ids), 4, 64)
        mx.eval(cache.update_and_fetch(0, positions, k, k)[:2])
    cache.seq_rm(0, 1, 3)
    cache.begin_step([0, 1, 1])
    k = tokens(rng, 3, 4, 64)
    mx.eval(k)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    spec = cache.update_and_fetch(0, [cache.next_position(0), *(cache.next_position(1) + i for i in (0, 1))], k, k)
    mx.eval(spec.keys, spec.values)
    assert cache._step.kinds[0].index is not None
    pool = cache._key_pools[0].nbytes
    assert mx.get_peak_memory() - before < pool / 4


def test_holes_below_a_later_one_are_still_filled_first() -> None:
    """Two removals, the second one higher: what follows starts in the first hole and stays inside the pool."""
    cache = MLXCellCache(config(None, capacity=12, initial_capacity=12))
    for seq in (0, 1, 2):
        serve(cache, [seq] * 4, range(4))
    cache.seq_rm(0)
    cache.seq_rm(2, 2)
    serve(cache, [3], [0])
    serve(cache, [3] * 5, range(1, 6))
    assert cache._layout.cells_of(3).tolist() == [0, 1, 2, 3, 10, 11]
    assert (cache.free, cache.used_end) == (0, 12)


def test_a_step_goes_on_only_at_the_next_position_behind_the_same_cells() -> None:
    """A sequence that comes back as part of another run, or with other positions, is planned anew."""
    cache = MLXCellCache(config(None, 4))
    serve(cache, [0] * 3, range(3))
    serve(cache, [0], [3])
    serve(cache, [0], [5])  # position 4 is left out
    flat, windowed = serve(cache, [0], [6])
    assert (flat.kind, np.array(flat.mask)[0, 0, 0].tolist()) == (MaskKind.EXPLICIT, [True] * 6)
    assert np.array(windowed.mask)[0, 0, 0].tolist() == [False] * 3 + [True] * 3
    cache.clear()
    serve(cache, [1] * 3, range(3))
    serve(cache, [1], [3])
    cache.seq_rm(1, 0, 2)  # its run has lost its front, and the next token goes there
    assert np.array(serve(cache, [1], [4])[0].mask)[0, 0, 0].tolist() == [True, False, True, True]


@pytest.mark.parametrize("kind", ["sequence", "cell"])
@pytest.mark.parametrize(
    "dtype", [mx.int8, mx.int16, mx.int32, mx.int64, mx.uint8, mx.uint16, mx.uint32, mx.bool_, mx.complex64]
)
def test_what_is_no_real_number_is_not_stored(kind: str, dtype: mx.Dtype) -> None:
    """As K or as V, in the first step and in one that goes on; nothing has changed then."""
    for steps in (0, 3):
        cache = make_cache(kind, config(None, None))
        good, bad = mx.ones((1, 2, 1, 8)), mx.ones((1, 2, 1, 8)).astype(dtype)
        for position in range(steps):
            if kind == "cell":
                cache.begin_step([0])
            mx.eval([cache.update_and_fetch(layer, [position], good, good)[:2] for layer in (0, 1)])
        if kind == "cell":
            cache.begin_step([0])
        for name, k, v in (("k", bad, good), ("v", good, bad)):
            with pytest.raises(
                ValueError, match=rf"{name}: got dtype .*{str(dtype)[9:]}, expected one of float16"
            ):
                cache.update_and_fetch(0, [steps], k, v)
        spec = cache.update_and_fetch(0, [steps], good, good)
        assert spec.keys.shape[2] == steps + 1
        assert bool(mx.all(spec.keys == 1))


@pytest.mark.parametrize("kind", ["sequence", "cell"])
def test_a_step_under_compile_is_refused(kind: str) -> None:
    """With positions that the function does not take as an argument, at a first step and at a later one."""
    cache = make_cache(kind, config(None))
    k = mx.ones((1, 2, 1, 8))
    for position in range(3):
        at = mx.array([position], mx.int32)
        if kind == "cell":
            cache.begin_step([0])
        with pytest.raises(RuntimeError, match=r"placeholder of mx\.compile"):
            mx.compile(lambda k, at=at: update_and_attend(cache, 0, k, k, k, at, 1.0))(k)
        mx.eval(update_and_attend(cache, 0, k, k, k, at, 1.0))
    mx.disable_compile()
    try:
        if kind == "cell":
            cache.begin_step([0])
        out = mx.compile(lambda k: update_and_attend(cache, 0, k, k, k, mx.array([3], mx.int32), 1.0))(k)
        mx.eval(out)
    finally:
        mx.enable_compile()
    assert (cache.seq_len(0) if kind == "cell" else cache.length) == 4


def test_a_pool_of_cells_is_never_a_whole_number_of_blocks() -> None:
    """Whatever its first size: on an NVIDIA GPU MLX takes a slice of such a pool for its beginning."""
    for capacity, initial in ((2048, 512), (1000, 256), (2048, 1), (300, 0)):
        cache = MLXCellCache(config(None, capacity=capacity, initial_capacity=initial))
        sizes = [cache._key_pools[0].slots]
        while cache.can_extend(64):
            serve(cache, [0] * 64, range(cache.next_position(0), cache.next_position(0) + 64))
            sizes.append(cache._key_pools[0].slots)
        assert [size for size in sizes if size and size % 256 == 0] == []
        assert sizes[-1] <= capacity + 1
