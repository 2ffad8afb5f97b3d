"""One layer of one step, from the tensors of a model to its attention output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import mlx.core as mx
import numpy as np

from mlxcache.kv.batch import SequenceRead
from mlxcache.kv.cache import MLXCache
from mlxcache.kv.positions import host_positions
from mlxcache.kv.spec import AttendSpec, MaskKind
from mlxcache.kv.step import Gather


def update_and_attend(
    cache: MLXCache | None,
    layer: int | None,
    q: mx.array,
    k: mx.array,
    v: mx.array,
    position: mx.array,
    scale: float | None,
    out_dtype: mx.Dtype | None = None,
) -> mx.array:
    """Store K and V and attend to what the cache then holds.

    Args:
        cache: a cache from `make_cache`.
        layer: from 0.
        q: `[1, H_q, T, D]`; H_q is a multiple of the layer's `n_kv_heads`.
        k: `[1, H, T, D]`.
        v: `[1, H, T, D]`.
        position: `[T]`, int32 or int64; one per query token.
        scale: what the scores are multiplied by, usually `D ** -0.5`.
        out_dtype: of the result; None leaves q's.

    Returns:
        `[1, H_q, T, D]`, not evaluated.

    Raises:
        ValueError: a missing cache, layer or scale, shapes or counts that do not agree, a position dtype other
            than int32 and int64. Also what the cache's `update_and_fetch` raises; nothing has changed then.
    """
    if cache is None:
        raise ValueError("cache: got None, expected a cache; make one with make_cache(kind, config)")
    if layer is None:
        raise ValueError("layer: got None, expected the index of the layer, from 0")
    if scale is None:
        raise ValueError("scale: got None, expected a number, usually head_dim ** -0.5")
    q_shape = q.shape
    if len(q_shape) != 4:
        raise ValueError(f"q: got shape {q_shape}, expected [1, n_heads, tokens, head_dim]")
    positions = host_positions(position)
    count = len(positions)
    k_shape, v_shape = k.shape, v.shape
    if not (len(k_shape) == len(v_shape) == 4 and count == q_shape[2] == k_shape[2] == v_shape[2]):
        raise ValueError(
            f"position: got {count} positions for q of shape {q_shape}, k of shape {k_shape} and v of shape "
            f"{v_shape}, expected one position per query token and as many tokens in k and v (axis 2)"
        )
    if q_shape[0] != 1 or q_shape[3] != k_shape[3] or q_shape[1] % k_shape[1] != 0:
        raise ValueError(
            f"q: got shape {q_shape} with k of shape {k_shape}, expected batch 1, the head_dim of k, and a "
            "number of heads that is a multiple of k's"
        )
    spec = cache.update_and_fetch(layer, positions, k, v, Gather.CHEAPER)
    if spec.kind is MaskKind.APART:
        out = _one_at_a_time(q, cache.read_each(layer), scale)
    elif spec.keys.shape[0] == 1:
        out = _attend(q, spec, scale)
    else:
        out = _as_batch(q, spec, scale)
    return out if out_dtype is None or out.dtype == out_dtype else out.astype(out_dtype)


def _as_batch(q: mx.array, spec: AttendSpec, scale: float) -> mx.array:
    """Attention with the tokens of each sequence as one of a batch."""
    batch, (_, heads, count, dim) = spec.keys.shape[0], q.shape
    each = q.reshape(heads, batch, count // batch, dim).transpose(1, 0, 2, 3)
    return _attend(each, spec, scale).transpose(1, 0, 2, 3).reshape(q.shape)


def _one_at_a_time(q: mx.array, reads: list[SequenceRead], scale: float) -> mx.array:
    """Attention of each sequence's tokens on its own cells."""
    order = [token for read in reads for token in read.tokens]
    in_order = order == list(range(len(order)))
    queries: Sequence[mx.array]
    if in_order:
        stops = list(accumulate(len(read.tokens) for read in reads))
        queries = mx.split(q, stops[:-1], axis=2)  # type: ignore[assignment]  # the stubs name one array
    else:
        queries = [q[:, :, mx.array(list(read.tokens))] for read in reads]
    outs = [_attend_to(own, read, scale) for own, read in zip(queries, reads, strict=True)]
    out = outs[0] if len(outs) == 1 else mx.concatenate(outs, axis=2)
    return out if in_order else out[:, :, mx.array(np.argsort(order))]


def _attend_to(q: mx.array, read: SequenceRead, scale: float) -> mx.array:
    if len(read.parts) == 1:
        return _attend(q, AttendSpec(*read.parts[0], read.kind, read.mask), scale)
    # One query, and cells in two places. Fused attention would want them copied together; the scores alone are
    # joined here, and the cells read where they lie.
    parts = [(keys.astype(q.dtype), values.astype(q.dtype)) for keys, values in read.parts]
    heads = parts[0][0].shape[1]
    scaled = (q * scale).reshape(1, heads, q.shape[1] // heads, q.shape[3])
    scores = mx.concatenate([scaled @ keys.swapaxes(-1, -2) for keys, _ in parts], axis=-1)
    first, second = mx.split(mx.softmax(scores, axis=-1, precise=True), [parts[0][0].shape[2]], axis=-1)
    return (first @ parts[0][1] + second @ parts[1][1]).reshape(q.shape)


def _attend(q: mx.array, spec: AttendSpec, scale: float) -> mx.array:
    keys, values, kind, mask = spec
    dtype = q.dtype
    if keys.dtype != dtype:
        keys, values = keys.astype(dtype), values.astype(dtype)
    chosen: mx.array | str | None = None
    if kind is MaskKind.CAUSAL:
        chosen = "causal"
    elif kind is MaskKind.EXPLICIT:
        if mask is None:
            raise ValueError("mask: got None with MaskKind.EXPLICIT, expected bool [1, 1, tokens, keys]")
        chosen = mask
    return mx.fast.scaled_dot_product_attention(q, keys, values, scale=scale, mask=chosen)
