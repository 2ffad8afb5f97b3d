"""What a cache holds in memory, by MLX's own count, and from which thread it may be used."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import partial

import mlx.core as mx
import numpy as np
import pytest

from mlxcache import CacheConfig, LayerConfig, LayerPolicy, MLXSequenceCache, Pool
from tests.helpers import config, fill, tokens

MIB = 2**20


def _cache(policy: LayerPolicy, capacity: int, heads: int = 2, **options: int) -> MLXSequenceCache:
    layers = [LayerConfig(policy, heads, 64)]
    return MLXSequenceCache(CacheConfig(capacity, 1, layers, mx.float16, **options))


def _decode(cache: MLXSequenceCache, count: int) -> None:
    k = mx.ones((1, 2, 1, 64), mx.float16)
    for _ in range(count):
        spec = cache.update_and_fetch(0, [cache.length], k, k)
        mx.eval(spec.keys, spec.values)
        mx.synchronize()  # CUDA holds a finished step's arrays until its stream has caught up
        del spec  # a slice that lives on would make MLX copy the pool


def _active() -> int:
    mx.synchronize()  # a stream lets go of arrays when it has caught up
    gc.collect()
    mx.clear_cache()
    return int(mx.get_active_memory())


def test_a_growth_step_holds_the_old_cells_and_the_new_ones() -> None:
    """A block more than before, and no third copy."""
    pool = Pool(4096, 65536, 8, 64, mx.float16)
    old = pool.nbytes
    token = mx.ones((1, 8, 1, 64), mx.float16)
    mx.eval(token)
    pool.write(4095, token)
    mx.eval(pool.array)
    others = _active() - old
    mx.reset_peak_memory()
    pool.write(4096, token)
    mx.eval(pool.array)
    assert pool.slots == 4096 + 256
    assert mx.get_peak_memory() - others <= old + pool.nbytes + old // 16 + MIB // 4


def _peak(update: Callable[[mx.array], object], length: int, chunk: int, held: int) -> int:
    """Bytes at the peak of filling a cache to `length`, the last tokens by chunks, and of one token more."""
    others = _active() - held
    mx.reset_peak_memory()
    done = 0
    for size in (max(0, length - 5 * chunk), *[chunk] * 5, 1):
        count = min(size, length + 1 - done)
        if count > 0:
            mx.eval(update(mx.ones((1, 8, count, 64), mx.float16)))
            mx.synchronize()
            done += count
    return int(mx.get_peak_memory()) - others


@pytest.mark.parametrize("length", [1, 257, 600, 1025, 5001, 16388])
@pytest.mark.parametrize("chunk", [1, 100, 2048])
def test_a_cache_of_any_length_peaks_no_higher_than_mlx_lms(length: int, chunk: int) -> None:
    """The least of some tries each, since it is a matter of luck when a stream lets go of what it has read."""
    lm = pytest.importorskip("mlx_lm.models.cache")
    ours, theirs = [], []
    for _ in range(12):
        own = lm.KVCache()
        theirs.append(_peak(partial(_twice, own.update_and_fetch), length, chunk, 0))
        del own
        cache = _cache(LayerPolicy.flat(), 65536, initial_capacity=256, heads=8)  # as `config_for` has it
        ours.append(_peak(partial(_step, cache), length, chunk, cache.nbytes))
        del cache
        if min(ours) <= min(theirs):
            break
    block = 2 * 256 * 8 * 64 * 2  # what both may take or leave at the first write
    assert min(ours) <= min(theirs) + block


def _twice(update: Callable[[mx.array, mx.array], object], cells: mx.array) -> object:
    return update(cells, cells)


def _step(cache: MLXSequenceCache, cells: mx.array) -> object:
    at = range(cache.length, cache.length + cells.shape[2])
    return cache.update_and_fetch(0, at, cells, cells)[:2]


@pytest.mark.parametrize("policy", [LayerPolicy.flat(), LayerPolicy.ring(64)])
def test_memory_is_flat_over_2000_steps(policy: LayerPolicy) -> None:
    """Decoding into allocated slots keeps the active memory where it was."""
    cache = _cache(policy, 4096, initial_capacity=4096)
    _decode(cache, 200)
    before = _active()
    _decode(cache, 2000)
    assert _active() - before <= MIB // 16


def test_memory_is_flat_over_50_rounds_of_create_and_drop() -> None:
    """A dropped cache gives all of its memory back."""
    _decode(_cache(LayerPolicy.flat(), 2048, initial_capacity=1024), 3)
    before = _active()
    for _ in range(50):
        _decode(_cache(LayerPolicy.flat(), 2048, initial_capacity=1024), 3)
    assert _active() - before <= MIB // 16


def test_a_ring_holds_2_1_windows_at_most() -> None:
    """A full ring's pools, and what is active after many laps, stay within 2.1 windows."""
    window = 256
    cell = 2 * 2 * 64 * 2
    before = _active()
    cache = _cache(LayerPolicy.ring(window), 100_000)
    _decode(cache, 5 * window)
    assert cache.nbytes <= 2.1 * window * cell
    assert _active() - before <= 2.1 * window * cell + MIB // 16


def test_a_step_updates_the_pool_in_place() -> None:
    """Decoding at a large context allocates no second pool: the peak stays below 1.5 pools."""
    cache = _cache(LayerPolicy.flat(), 65536, initial_capacity=65536)
    _decode(cache, 4)
    others = _active() - cache.nbytes
    mx.reset_peak_memory()
    _decode(cache, 20)
    assert mx.get_peak_memory() - others < 1.5 * cache.nbytes


def test_the_cache_keeps_no_slice_of_its_pools() -> None:
    """A returned slice is the caller's alone: once dropped, the pool is updated in place again."""
    cache = _cache(LayerPolicy.flat(), 65536, initial_capacity=65536)
    k = mx.ones((1, 2, 1, 64), mx.float16)
    spec = cache.update_and_fetch(0, [0], k, k)
    mx.eval(spec.keys, spec.values)
    held = spec
    others = _active() - cache.nbytes
    mx.reset_peak_memory()
    spec = cache.update_and_fetch(0, [1], k, k)
    mx.eval(spec.keys, spec.values)
    assert mx.get_peak_memory() - others > 1.5 * cache.nbytes  # MLX copies while `held` lives: the test can fail
    del held, spec
    test_a_step_updates_the_pool_in_place()


def test_many_lazy_steps_under_one_eval_do_not_pile_up_pools() -> None:
    """64 steps evaluated at once hold one pool, not one a step, and store every token."""
    cache = _cache(LayerPolicy.flat(), 65536, initial_capacity=65536)
    _decode(cache, 1)
    others = _active() - cache.nbytes
    mx.reset_peak_memory()
    for i in range(64):
        k = mx.full((1, 2, 1, 64), i, mx.float16)
        spec = cache.update_and_fetch(0, [cache.length], k, k)
    mx.eval(spec.keys, spec.values)
    assert mx.get_peak_memory() - others < 1.5 * cache.nbytes
    assert np.array(spec.keys)[0, 0, 1:, 0].tolist() == list(range(64))


@pytest.mark.parametrize("filled", [0, 9], ids=["fresh", "filled"])
@pytest.mark.parametrize("window", [None, 4])
def test_a_cache_can_be_used_from_another_thread(window: int | None, filled: int) -> None:
    """Made (and filled) here, decoded in a worker thread, decoded on here: MLX's streams are thread-local."""
    cfg = config(window, 4, None)
    cache, alone = MLXSequenceCache(cfg), MLXSequenceCache(cfg)
    fill(cache, filled, chunk=3)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            fill(cache, 12, seed=1, chunk=2)
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            failures.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert not failures
    fill(alone, filled, chunk=3)
    fill(alone, 12, seed=1, chunk=2)
    for got, want in zip(fill(cache, 6, seed=2, chunk=2), fill(alone, 6, seed=2, chunk=2), strict=True):
        np.testing.assert_array_equal(np.array(got), np.array(want))


def test_a_held_spec_is_not_changed_by_later_steps() -> None:
    """Whoever keeps a spec keeps its values: later writes go elsewhere."""
    cache = MLXSequenceCache(config(4))
    fill(cache, 6)
    k = tokens(np.random.default_rng(7), 1)
    spec = cache.update_and_fetch(0, [6], k, k)
    kept = np.array(spec.keys)
    fill(cache, 20, seed=8)
    np.testing.assert_array_equal(np.array(spec.keys), kept)
