"""What several test modules need: small caches, tokens, and a picture of a cache's whole state."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from mlxcache import CacheConfig, LayerConfig, LayerPolicy, MLXSequenceCache


def config(*windows: int | None, heads: int = 2, dim: int = 8, **changes: object) -> CacheConfig:
    """A config with one layer per window; None makes a flat one."""
    layers = [
        LayerConfig(LayerPolicy.flat() if window is None else LayerPolicy.ring(window), heads, dim)
        for window in windows or (None,)
    ]
    options: dict[str, object] = {"capacity": 64, "kv_dtype": mx.float32, "initial_capacity": 4, **changes}
    return CacheConfig(n_layers=len(layers), layers=layers, **options)  # type: ignore[arg-type]


def tokens(rng: np.random.Generator, count: int, heads: int = 2, dim: int = 8) -> mx.array:
    """Random `[1, heads, count, dim]` float32."""
    return mx.array(rng.standard_normal((1, heads, count, dim)).astype(np.float32))


def state(cache: MLXSequenceCache) -> dict[str, object]:
    """Everything a refused step must leave alone, as plain values."""
    pools = [*cache._key_pools, *cache._value_pools]
    return {
        "bytes": [np.array(pool.array.astype(mx.float32)).tobytes() for pool in pools],
        "slots": [pool.slots for pool in pools],
        "length": cache.length,
        "written": cache._layout.written,
        "origins": list(cache._layout.origins),
    }


def fill(cache: MLXSequenceCache, count: int, seed: int = 0, chunk: int = 1) -> list[mx.array]:
    """Append `count` tokens to every layer, `chunk` at a time; returns the last step's keys and values."""
    rng = np.random.default_rng(seed)
    outputs: list[mx.array] = []
    while count > 0:
        size = min(chunk, count)
        start = cache.length
        outputs = []
        for layer in range(cache.config.n_layers):
            cells = cache.config.layer(layer)
            k = tokens(rng, size, cells.n_kv_heads, cells.head_dim)
            spec = cache.update_and_fetch(layer, range(start, start + size), k, -k)
            outputs += [spec.keys, spec.values]
        mx.eval(outputs)
        count -= size
    return outputs
