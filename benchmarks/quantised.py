"""K and V stored in 8 and 4 bits: what they save, and what reading them costs."""

from __future__ import annotations

from typing import Any

from .common import (
    DTYPE,
    HEAD_DIM,
    HEADS,
    PATHS,
    Timed,
    kv_bytes,
    need_memory,
    once,
    position_tensor,
    random_tokens,
    require,
    synchronise,
)

# Four layers: reading dequantises every cell of the context, which takes milliseconds a layer on a CPU.
LAYERS = 4


def _cache(context: int, bits: int, layers: int) -> Any:
    storage = {} if bits == 16 else {"kv_bits": bits}
    require("QuantizedPool")
    config = require("CacheConfig")(
        capacity=context + 64,
        n_layers=layers,
        layers=[require("LayerConfig")(require("LayerPolicy").flat(), HEADS, HEAD_DIM)],
        kv_dtype=DTYPE,
        initial_capacity=context + 64,
        **storage,
    )
    cache = require("MLXSequenceCache")(config)
    tokens = random_tokens(context)
    for layer in range(layers):
        spec = cache.update_and_fetch(layer, range(context), tokens, tokens)
        synchronise([spec.keys, spec.values])
        del spec
    return cache


class Quantised(Timed):
    """One token stored and attended in four layers behind a context; 16 bits is the plain pool."""

    # Contexts: one at which attention still costs more than dequantising, one at which both grow alike.
    params = (PATHS, [16, 8, 4], [256, 2048])
    param_names = ("path", "bits", "context")
    repeat = (5, 20, 0.3)

    def setup(self, path: str, bits: int, context: int) -> None:
        need_memory(4 * kv_bytes(context, layers=LAYERS))
        self.attend = require("update_and_attend")
        self.cache = once((bits, context), lambda: _cache(context, bits, LAYERS))
        self.q = once("q", lambda: random_tokens(1, heads=4 * HEADS))
        self.k = once("k", lambda: random_tokens(1, seed=1))
        self.position = once((path, context), lambda: position_tensor(context, 1, path))
        self.cache.rewind(context)
        once(("warm", bits, context), lambda: self.time_step(path, bits, context))
        self.cache.rewind(context)

    def time_step(self, path: str, bits: int, context: int) -> None:
        args = (self.q, self.k, self.k, self.position, HEAD_DIM**-0.5)
        synchronise([self.attend(self.cache, layer, *args) for layer in range(LAYERS)])


class Bytes:
    """Bytes of the cells of 2048 tokens in four layers."""

    params = ([16, 8, 4],)
    param_names = ("bits",)
    unit = "bytes"
    version = "1"

    def track_nbytes(self, bits: int) -> int:
        return int(_cache(2048, bits, LAYERS).nbytes)
