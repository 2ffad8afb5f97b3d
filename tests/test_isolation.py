"""What another sequence of a cell cache holds, held or writes changes nobody's output."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlxcache import Gather, MaskKind, MLXCellCache, make_cache, update_and_attend
from tests.helpers import config
from tests.isolation import HOW, run

STRANGE = [float("nan"), float("inf"), float("-inf")]


def test_random_programs_do_not_notice_what_is_not_theirs() -> None:
    """10,000 steps in all storages, read in every way, after forks, removals, cancelled steps and restores."""
    done = run(10_000, seed=0)
    assert done["steps"] == 10_000
    assert done["tokens"] > 10_000
    assert min(done[what] for what in (*HOW, "fork", "remove", "tail", "cancel", "restore")) > 100


def _step(cache: MLXCellCache, seqs: list[int], positions: list[int], values: list[float]) -> np.ndarray:
    """One step whose K are 1 and whose V are these values, one a token; the output's first component."""
    count = len(seqs)
    v = mx.broadcast_to(mx.array(values)[None, None, :, None], (1, 1, count, 8))
    ones = mx.ones((1, 1, count, 8))
    cache.begin_step(seqs)
    return np.array(update_and_attend(cache, 0, ones, ones, v, mx.array(positions), scale=1.0))[0, 0, :, 0]


@pytest.mark.parametrize("strange", STRANGE)
def test_sequences_of_one_step_keep_to_themselves(strange: float) -> None:
    """One is spoilt and says so, the other is right, however much longer it is."""
    cache = MLXCellCache(config(None, heads=1))
    _step(cache, [0, 0], [0, 1], [strange, 1.0])
    _step(cache, [1] * 6, list(range(6)), [3.0] * 6)
    bad, good = _step(cache, [0, 1], [2, 6], [1.0, 3.0])
    assert not np.isfinite(bad)
    assert good == pytest.approx(3.0)


@pytest.mark.parametrize("strange", STRANGE)
def test_a_removed_sequence_is_not_remembered(strange: float) -> None:
    """Its cells lie free between those of another one."""
    cache = MLXCellCache(config(None, heads=1))
    _step(cache, [1] * 4, list(range(4)), [3.0] * 4)
    _step(cache, [0] * 4, list(range(4)), [strange] * 4)
    _step(cache, [1] * 4, list(range(4, 8)), [3.0] * 4)
    assert cache.seq_rm(0) == 4
    assert _step(cache, [1], [8], [3.0])[0] == pytest.approx(3.0)


@pytest.mark.parametrize("strange", STRANGE)
def test_a_batch_is_padded_with_a_rows_own_cells(strange: float) -> None:
    """Cell 0 belongs to a sequence outside of the batch."""
    cache = MLXCellCache(config(None, heads=1))
    _step(cache, [9], [0], [strange])
    for seq, count, value in ((1, 2, 3.0), (2, 5, 5.0)):
        _step(cache, [seq] * count, list(range(count)), [value] * count)
    cache.begin_step([1, 2])
    v = mx.broadcast_to(mx.array([3.0, 5.0])[None, None, :, None], (1, 1, 2, 8))
    spec = cache.update_and_fetch(0, [2, 5], mx.ones((1, 1, 2, 8)), v, Gather.BATCH)
    assert spec.kind is MaskKind.EXPLICIT
    out = mx.fast.scaled_dot_product_attention(
        mx.ones((2, 1, 1, 8)), spec.keys, spec.values, scale=1.0, mask=spec.mask
    )
    np.testing.assert_allclose(np.array(out)[:, 0, 0, 0], [3.0, 5.0], rtol=1e-6)


def test_what_overflows_the_storage_dtype_is_infinite_for_its_own_sequence_alone() -> None:
    """1e6 is infinite in float16."""
    cache = MLXCellCache(config(None, heads=1, kv_dtype=mx.float16))
    _step(cache, [0, 0], [0, 1], [1e6, 1.0])
    _step(cache, [1] * 6, list(range(6)), [3.0] * 6)
    bad, good = _step(cache, [0, 1], [2, 6], [1.0, 3.0])
    assert bad == np.inf
    assert good == pytest.approx(3.0, rel=1e-3)


def test_a_shared_read_holds_zeros_where_nobody_looks() -> None:
    """With a mask over all cells: a free cell's NaN is not handed out; what two sequences meet in is finite."""
    cache = MLXCellCache(config(None, heads=1))
    _step(cache, [0, 1, 0, 1], [0, 0, 1, 1], [1.0, np.nan, 1.0, 2.0])
    k = mx.ones((1, 1, 2, 8))
    cache.begin_step([0, 1])
    spec = cache.update_and_fetch(0, [2, 2], k, k)
    assert spec.kind is MaskKind.EXPLICIT
    assert np.array(spec.values)[0, 0, :, 0].tolist() == [1.0, 0.0, 1.0, 2.0, 1.0, 1.0]
    cache.seq_rm(1)
    cache.begin_step([0])
    spec = cache.update_and_fetch(0, [3], k[:, :, :1], k[:, :, :1])
    assert np.array(spec.values)[0, 0, :, 0].tolist() == [1.0, 1.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
@pytest.mark.parametrize("kind", ["sequence", "cell"])
def test_a_long_run_is_read_from_where_it_begins_to_where_it_ends(kind: str, dtype: mx.Dtype) -> None:
    """One token behind 300 of 64 half-precision values: what an NVIDIA GPU takes cuDNN for, by the whole pool."""
    cfg = config(None, heads=1, dim=64, capacity=2048, initial_capacity=1024, kv_dtype=dtype)
    cache = make_cache(kind, cfg)
    others = [(8, 64, 7.0)] if kind == "cell" else []
    for seq, count, value in (*others, (1, 300, 3.0)):
        if kind == "cell":
            cache.begin_step([seq] * count)
        k = mx.full((1, 1, count, 64), value, dtype)
        mx.eval(update_and_attend(cache, 0, k, k, k, mx.arange(count, dtype=mx.int32), 0.1))
    begins = 64 * len(others)
    for pool in (cache._key_pools[0], cache._value_pools[0]):
        lies = mx.arange(pool.slots)[None, None, :, None]
        own = (lies >= begins) & (lies < begins + 300)
        pool.array = mx.where(own, pool.array, mx.array(float("nan"), dtype))
        mx.eval(pool.array)
    if kind == "cell":
        cache.begin_step([1])
    token = mx.full((1, 1, 1, 64), 3.0, dtype)
    out = update_and_attend(cache, 0, token, token, token, mx.array([300], mx.int32), 0.1)
    np.testing.assert_allclose(np.array(out.astype(mx.float32)), 3.0, rtol=0.02)
