"""Every storage dtype and quantised storage: what comes back, how exact it is, and what is refused."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from mlxcache import QuantizedPool, make_cache, update_and_attend
from mlxcache.kv.storage.pool import row_index
from tests.helpers import config

DIM = 64
# Largest error of an attention output, K and V of unit variance, relative to the dense float32 cache.
OUTPUT_BOUNDS = {8: 0.02, 4: 0.35}


def _cells(seed: int, count: int, heads: int = 2) -> mx.array:
    rng = np.random.default_rng(seed)
    return mx.array(rng.standard_normal((1, heads, count, DIM)).astype(np.float32))


def _step_of_groups(x: mx.array, group: int, bits: int) -> np.ndarray:
    """The distance of two codes of each value's group."""
    grouped = np.array(x.astype(mx.float32)).reshape(*x.shape[:3], -1, group)
    step = (grouped.max(-1) - grouped.min(-1)) / (2**bits - 1)
    return np.repeat(step, group, axis=-1)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("group", [32, 64])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_a_value_comes_back_within_one_step_of_its_group(bits: int, group: int, dtype: Any) -> None:
    """The bound that the docstring states, for each storage dtype, with the dtype's own rounding on top."""
    pool = QuantizedPool(1, 32, 2, DIM, dtype, bits, group)
    x = _cells(0, 20).astype(dtype)
    pool.write(3, x)
    got = pool.read(3, 20)
    assert got.dtype == dtype
    error = np.abs(np.array(got.astype(mx.float32) - x.astype(mx.float32)))
    eps = {mx.float32: 1e-6, mx.float16: 2**-10, mx.bfloat16: 2**-7}[dtype]
    biggest = float(np.abs(np.array(x.astype(mx.float32))).max())
    assert (error <= _step_of_groups(x, group, bits) + 4 * eps * biggest).all()


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_a_cpu_reads_what_mlx_dequantises(bits: int, dtype: Any) -> None:
    """Value by value that of `mx.dequantize`, to its rounding, from runs and from single cells."""
    pool = QuantizedPool(1, 32, 2, DIM, dtype, bits, 32)
    pool.write(3, _cells(0, 20))
    rows = row_index(np.array([[20, 4, 9]]), 2, pool.slots)
    eps = {mx.float32: 2**-23, mx.float16: 2**-10, mx.bfloat16: 2**-7}[dtype]
    for got, parts in (
        (pool.read(4, 11), [plane.read(4, 11) for plane in pool.planes]),
        (pool.gather(rows), [plane.gather(rows) for plane in pool.planes]),
    ):
        expected = mx.dequantize(*parts, group_size=32, bits=bits)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        a, b = (np.array(x.astype(mx.float32)) for x in (got, expected))
        np.testing.assert_allclose(a, b, rtol=0, atol=2 * eps * np.abs(b).max())


@pytest.mark.parametrize("bits", [8, 4])
def test_a_cell_is_quantised_once(bits: int) -> None:
    """Growth, other writes and writes by index leave a cell's value bit by bit as it was first read."""
    pool = QuantizedPool(1, 32, 2, DIM, mx.float16, bits)
    pool.write(0, _cells(0, 2))
    first = np.array(pool.read(0, 2))
    pool.write(2, _cells(1, 9))
    pool.write_cells([20, 13], _cells(2, 2))
    np.testing.assert_array_equal(np.array(pool.read(0, 2)), first)
    assert pool.slots == 32
    one = np.array(pool.read(13, 1))
    other = QuantizedPool(1, 4, 2, DIM, mx.float16, bits)
    other.write(0, _cells(2, 2)[:, :, 1:])
    np.testing.assert_array_equal(one, np.array(other.read(0, 1)))


@pytest.mark.parametrize(("bits", "share"), [(8, 0.54), (4, 0.29)])
def test_quantised_bytes(bits: int, share: float) -> None:
    """Codes, and a scale and a bias of two bytes for every 64 values: 8.5 and 4.5 bits a value for 16."""
    pool = QuantizedPool(16, 16, 2, DIM, mx.float16, bits)
    dense = 2 * 16 * DIM * 2
    assert pool.nbytes == dense * (bits + 0.5) / 16
    assert pool.nbytes < dense * share


@pytest.mark.parametrize("kind", ["sequence", "cell"])
@pytest.mark.parametrize("bits", [None, 8, 4])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("wide", [False, True], ids=["int32", "int64"])
def test_attention_over_every_storage(kind: str, bits: int | None, dtype: Any, wide: bool) -> None:
    """Flat and ring layers, chunks and single tokens, growth and a roll: outputs within the stated bound."""
    options = {"dim": DIM, "capacity": 64, "initial_capacity": 1}
    exact = make_cache(kind, config(None, 6, **options))
    stored = make_cache(kind, config(None, 6, kv_dtype=dtype, kv_bits=bits, **options))
    rounding = {mx.float32: 1e-5, mx.float16: 0.005, mx.bfloat16: 0.04}[dtype]
    bound = rounding + (OUTPUT_BOUNDS[bits] if bits else 0)
    start = 0
    for count in (5, 1, 1, 6, 1, 1, 1, 1, 4, 1):
        position = mx.arange(start, start + count).astype(mx.int64 if wide else mx.int32)
        for cache in (exact, stored):
            if kind == "cell":
                cache.begin_step([3] * count)  # type: ignore[attr-defined]
        for layer in range(2):
            q, k, v = (_cells(97 * start + 7 * layer + i, count, heads) for i, heads in enumerate((4, 2, 2)))
            outs = [update_and_attend(cache, layer, q, k, v, position, DIM**-0.5) for cache in (exact, stored)]
            assert outs[1].dtype == mx.float32
            assert float(mx.abs(outs[0] - outs[1]).max()) <= bound
        start += count


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_bits": 2}, "CacheConfig.kv_bits: got 2, expected one of 4, 8 or None"),
        ({"kv_bits": True}, "CacheConfig.kv_bits: got True"),
        ({"kv_bits": "8"}, "CacheConfig.kv_bits: got '8'"),
        ({"kv_bits": 8, "kv_group_size": 16}, "CacheConfig.kv_group_size: got 16, expected one of 32, 64, 128"),
        ({"kv_bits": 8, "kv_group_size": 128}, r"got 128 with head_dim=64 in layers\[0\], expected a divisor"),
        ({"kv_bits": 8, "kv_dtype": mx.int8}, "CacheConfig.kv_dtype: got .*int8"),
    ],
)
def test_unsupported_storage_is_refused(options: dict[str, Any], message: str) -> None:
    """By the config, before anything is allocated."""
    with pytest.raises(ValueError, match=message):
        config(None, dim=DIM, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 3}, "bits: got 3, expected 4 or 8"),
        ({"group_size": 48}, "group_size: got 48 with head_dim=64"),
        ({"group_size": 128}, "group_size: got 128 with head_dim=64"),
    ],
)
def test_a_pool_refuses_what_it_cannot_quantise(options: dict[str, int], message: str) -> None:
    """The pool by itself too."""
    with pytest.raises(ValueError, match=message):
        QuantizedPool(1, 8, 2, DIM, mx.float16, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.write(7, _cells(0, 2)), r"expected a run inside \[0, 8\)"),
        (lambda p: p.write(0, _cells(0, 2, heads=1)), r"update: got shape \(1, 1, 2, 64\)"),
        (lambda p: p.write(0, mx.zeros((1, 2, 1, 32))), r"update: got shape \(1, 2, 1, 32\)"),
        (lambda p: p.write_cells([1, 1], _cells(0, 2)), "of which some repeat"),
        (lambda p: p.write_cells([1, 8], _cells(0, 2)), r"got slots 1 to 8, expected them inside \[0, 8\)"),
        (lambda p: p.write_cells([-1], _cells(0, 1)), "got slots -1 to -1"),
        (lambda p: p.write_cells([1], _cells(0, 2)), r"of shape \(1,\), expected 2 integers, 1-D"),
        (lambda p: p.write_cells([0.5], _cells(0, 1)), "indices: got float64"),
        (lambda p: p.read(0, 9), r"read: got slots \[0, 9\)"),
    ],
)
@pytest.mark.parametrize("quantised", [False, True])
def test_a_refused_call_of_a_pool_changes_nothing(call: Any, message: str, quantised: bool) -> None:
    """Plain and quantised pools refuse alike and keep their bytes."""
    pool: Any = make_cache(
        "cell",
        config(None, dim=DIM, capacity=8, initial_capacity=2, kv_bits=8 if quantised else None),
    )._key_pools[0]
    pool.write(0, _cells(5, 2))
    before = (pool.slots, [np.array(plane.array).tobytes() for plane in pool.planes])
    with pytest.raises(ValueError, match=message):
        call(pool)
    assert (pool.slots, [np.array(plane.array).tobytes() for plane in pool.planes]) == before


def test_cells_written_by_index_are_cast_and_grow() -> None:
    """`write_cells` places each cell where its index says, in the storage dtype."""
    cache = make_cache("cell", config(None, dim=DIM, capacity=32, initial_capacity=1, kv_dtype=mx.float16))
    pool = cache._key_pools[0]
    x = _cells(1, 3)
    pool.write_cells(np.array([9, 0, 4]), x)
    assert pool.slots == 16
    got = np.array(pool.read(0, 10))
    for i, slot in enumerate((9, 0, 4)):
        np.testing.assert_array_equal(got[:, :, slot], np.array(x.astype(mx.float16))[:, :, i])
    assert not got[:, :, 1:4].any()
