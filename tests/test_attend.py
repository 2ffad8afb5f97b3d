"""update_and_attend: from a model's tensors to its attention output."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlxcache import MLXSequenceCache, update_and_attend
from mlxcache.kv.spec import AttendSpec, MaskKind
from mlxcache.kv.step import Gather
from tests.helpers import config, fill, state, tokens
from tests.oracle import OracleCache, attend

SCALE = 0.35


@pytest.mark.parametrize("dtype", [mx.int32, mx.int64])
@pytest.mark.parametrize("query_heads", [2, 4, 6])
@pytest.mark.parametrize("window", [None, 5])
def test_chunked_prefill_and_decode_equal_attention_by_definition(
    dtype: mx.Dtype, query_heads: int, window: int | None
) -> None:
    """Chunks of several sizes, then single tokens, for both position dtypes and grouped queries."""
    rng = np.random.default_rng(0)
    cfg = config(window)
    cache, oracle = MLXSequenceCache(cfg), OracleCache(cfg)
    start = 0
    for count in (1, 5, 3, 4, 1, 1, 2, 1):
        q, k, v = tokens(rng, count, heads=query_heads), tokens(rng, count), tokens(rng, count)
        position = mx.arange(start, start + count).astype(dtype)
        out = update_and_attend(cache, 0, q, k, v, position, SCALE)
        oracle.update(0, start, np.array(k)[0], np.array(v)[0])
        oracle.finish(start + count)
        keys, values = oracle.read(0, start, count)
        expected = attend(np.array(q)[0], keys, values, oracle.sees(0, start, count), SCALE)
        np.testing.assert_allclose(np.array(out)[0], expected, atol=2e-5)
        start += count


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cache": None}, "cache: got None"),
        ({"layer": None}, "layer: got None"),
        ({"scale": None}, "scale: got None"),
        ({"position": mx.array([10], dtype=mx.uint32)}, "position: got dtype mlx.core.uint32"),
        ({"position": mx.array([True])}, "position: got dtype mlx.core.bool"),
        ({"position": mx.array([[10]])}, r"position: got shape \(1, 1\), expected 1-D"),
        ({"position": mx.array([10, 11])}, r"position: got 2 positions for q of shape \(1, 2, 1, 8\)"),
        ({"position": mx.array([2**31], dtype=mx.int64)}, r"position\[0\]: got 2147483648"),
        ({"q": mx.ones((1, 2, 2, 8))}, r"position: got 1 positions for q of shape \(1, 2, 2, 8\)"),
        ({"k": mx.ones((1, 2, 2, 8))}, r"k of shape \(1, 2, 2, 8\)"),
        ({"v": mx.ones((1, 2, 3, 8))}, r"v of shape \(1, 2, 3, 8\)"),
        ({"q": mx.ones((1, 3, 1, 8))}, r"q: got shape \(1, 3, 1, 8\).*multiple of k's"),
        ({"q": mx.ones((2, 2, 1, 8))}, r"q: got shape \(2, 2, 1, 8\).*batch 1"),
        ({"q": mx.ones((1, 2, 1, 4))}, r"q: got shape \(1, 2, 1, 4\).*head_dim of k"),
        ({"q": mx.ones((2, 1, 8))}, r"q: got shape \(2, 1, 8\), expected \[1, n_heads, tokens, head_dim\]"),
    ],
)
def test_what_does_not_fit_is_refused_unchanged(change: dict[str, object], message: str) -> None:
    """Each refusal names the argument with all numbers; the cache's bytes, slots and length stay."""
    cache = MLXSequenceCache(config(None))
    fill(cache, 10)
    one = mx.ones((1, 2, 1, 8))
    arguments = {
        "cache": cache,
        "layer": 0,
        "q": one,
        "k": one,
        "v": one,
        "position": mx.array([10]),
        "scale": SCALE,
    }
    before = state(cache)
    with pytest.raises(ValueError, match=message):
        update_and_attend(**{**arguments, **change})  # type: ignore[arg-type]
    assert state(cache) == before


@pytest.mark.parametrize("storage", [mx.float16, mx.bfloat16, mx.float32])
@pytest.mark.parametrize("compute", [mx.float16, mx.float32])
def test_keys_follow_the_querys_dtype_and_out_dtype_casts_the_result(storage: mx.Dtype, compute: mx.Dtype) -> None:
    """The result has q's dtype, or out_dtype where one is given."""
    cache = MLXSequenceCache(config(None, kv_dtype=storage))
    x = tokens(np.random.default_rng(0), 3).astype(compute)
    position = mx.arange(3)
    assert update_and_attend(cache, 0, x, x, x, position, SCALE).dtype == compute
    assert update_and_attend(cache, 0, x, x, x, position, SCALE, out_dtype=mx.bfloat16).dtype == mx.bfloat16


def test_an_explicit_mask_must_be_there() -> None:
    """A cache that says EXPLICIT and gives no mask is an error, not unmasked attention."""

    class Careless(MLXSequenceCache):
        def update_and_fetch(self, layer, positions, k, v, gather=Gather.NEVER) -> AttendSpec:
            return AttendSpec(k, v, MaskKind.EXPLICIT, None)

    one = mx.ones((1, 2, 1, 8))
    with pytest.raises(ValueError, match=r"mask: got None with MaskKind\.EXPLICIT"):
        update_and_attend(Careless(config(None)), 0, one, one, one, mx.array([0]), SCALE)


def test_neither_the_positions_nor_the_tokens_of_the_caller_change() -> None:
    """A step leaves the caller's arrays as they were, and mutating them afterwards does not reach the cache."""
    rng = np.random.default_rng(0)
    cache = MLXSequenceCache(config(None))
    k, v, position = tokens(rng, 3), tokens(rng, 3), mx.arange(3)
    kept = [np.array(x) for x in (k, v, position)]
    mx.eval(update_and_attend(cache, 0, k, k, v, position, SCALE))
    for array, value in zip((k, v, position), kept, strict=True):
        np.testing.assert_array_equal(np.array(array), value)
    k[:] = 0
    position += 5
    spec = cache.update_and_fetch(0, [3], tokens(rng, 1), tokens(rng, 1))
    np.testing.assert_array_equal(np.array(spec.keys)[:, :, :3], kept[0])
