"""A whole model of mlx-lm, on our caches and on mlx-lm's own: what a user's tokens per second become."""

from __future__ import annotations

import copy
from typing import Any

import mlx.core as mx
import numpy as np

from .common import Skip, Timed, interleaved, once, synchronise, timed
from .mlx_lm_models import mlx_lm_model
from .ratios import Ratio

lm_cache, WITHOUT_MLX_LM = mlx_lm_model("cache")
llama, _ = mlx_lm_model("llama")
gemma3_text, _ = mlx_lm_model("gemma3_text")
adapter: Any = None
try:
    if lm_cache is not None:
        from mlxcache import mlx_lm as adapter
except ImportError:  # a commit before the adapter
    pass

# Many layers and small matrices: the cache's share of a token is as large as a model can make it. 16 layers are
# Llama 3.2 1B's; hidden 128 keeps a token on a CPU at a few milliseconds.
LAYERS = 16
KV_HEADS = 2
HEAD_DIM = 64
CONTEXT = 320
CHUNK = 64
TOKENS = 8


def _model(name: str) -> Any:
    sizes = {
        "model_type": name,
        "hidden_size": 128,
        "num_hidden_layers": LAYERS,
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "rms_norm_eps": 1e-5,
        "vocab_size": 256,
    }
    mx.random.seed(0)
    if name == "llama":
        model = llama.Model(llama.ModelArgs(**sizes, tie_word_embeddings=False))
    else:  # two sliding layers for each full one, and a context that has wrapped the window twice
        sliding = {"sliding_window": 128, "sliding_window_pattern": 3, "query_pre_attn_scalar": 64}
        model = gemma3_text.Model(gemma3_text.ModelArgs(**sizes, **sliding))
    model.set_dtype(mx.float32)
    mx.eval(model.parameters())
    return model


class _BareLayer:
    """What any cache in Python must do under such a model: two slice assignments and two reads, no checks."""

    def __init__(self, window: int | None) -> None:
        self.max_size = window  # as mlx-lm's models ask for it
        self.offset = 0
        shape = (1, KV_HEADS, 1024, HEAD_DIM)
        self.keys, self.values = mx.zeros(shape), mx.zeros(shape)
        mx.eval(self.keys, self.values)

    def make_mask(self, N: int, return_array: bool = False, window_size: int | None = None) -> None:
        """None, since only single tokens are decoded on it."""

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Store `[1, H, T, D]`; the keys and values of the window."""
        start = self.offset
        stop = self.offset = start + keys.shape[2]
        stored, other = self.keys, self.values
        stored[:, :, start:stop] = keys
        other[:, :, start:stop] = values
        first = 0 if self.max_size is None else max(0, stop - self.max_size)
        return stored[:, :, first:stop], other[:, :, first:stop]


class Generate(Timed):
    """Eight greedy tokens behind 320, one evaluation a token; 8 / time is tokens per second."""

    # host: positions are counted on the host, as mlx-lm's models need none. int32, int64: read from an array in
    # every layer, as a backend does that gets them from a compiled program.
    params = (["llama", "gemma3_text"], ["mlx-lm", "sequence", "cell"], ["host", "int32", "int64"])
    param_names = ("model", "cache", "path")
    repeat = (3, 6, 0.15)
    rounds = 2

    def setup(self, model: str, cache: str, path: str) -> None:
        if lm_cache is None or llama is None or gemma3_text is None:
            raise Skip(WITHOUT_MLX_LM or "this mlx-lm has no llama or gemma3_text")
        if cache not in ("mlx-lm", "bare") and adapter is None:
            raise Skip("this commit of mlxcache has no adapter for mlx-lm")
        if cache == "mlx-lm" and path != "host":
            raise Skip("mlx-lm's caches read no position arrays")
        self.model = once(model, lambda: _model(model))
        # A copy for every sample, since a ring of mlx-lm's cannot be taken back; its first token pays for it.
        filled, token = once((model, cache, path), lambda: self._fill(cache, path))
        self.cache, self.token = copy.deepcopy(filled), token
        self.decode(2)

    def _fill(self, cache: str, path: str) -> tuple[Any, Any]:
        made: Any = lm_cache.make_prompt_cache(self.model)
        if cache == "bare":
            made = [_BareLayer(getattr(layer, "max_size", None)) for layer in made]
        elif cache != "mlx-lm":
            dtype = None if path == "host" else getattr(mx, path)
            config = adapter.config_for(self.model, 1024, prefill_step_size=CHUNK)
            made = adapter.make_prompt_cache(self.model, cache, config, position_dtype=dtype)
        # Random cells, the same for all: a real prompt takes a second, and decoding behind it costs the same.
        rng = np.random.default_rng(0)
        for _ in range(0, CONTEXT, CHUNK):
            for layer in made:
                keys, values = (
                    mx.array(rng.standard_normal((1, KV_HEADS, CHUNK, HEAD_DIM), dtype=np.float32))
                    for _ in range(2)
                )
                mx.eval(layer.update_and_fetch(keys, values))
        token = mx.array([[0]])
        mx.eval(token)
        return made, token

    def decode(self, count: int) -> None:
        """Greedy tokens, one evaluation each."""
        for _ in range(count):
            self.token = mx.argmax(self.model(self.token, cache=self.cache)[:, -1:], axis=-1)
            synchronise([self.token])

    def time_tokens(self, model: str, cache: str, path: str) -> None:
        self.decode(TOKENS)


class _Pair(Ratio):
    """One greedy token on our cache and one on another, each going on from 320 tokens."""

    version = "2"  # 1 divided the low quantiles of 40 pairs
    other: str

    def setup(self, model: str, cache: str, path: str) -> None:
        # Here, since asv takes a skip from setup only.
        self.mine, self.theirs = Generate(), Generate()
        self.mine.setup(model, cache, path)
        self.theirs.setup(model, self.other, "host")
        # Each setup has decoded two tokens.
        if self.mine.token.item() != self.theirs.token.item():
            raise RuntimeError(f"{model}: {cache} and {self.other} give other tokens after the same cells")

    def _measured(self) -> float:
        mine, theirs = interleaved(
            [timed(lambda: self.mine.decode(1)), timed(lambda: self.theirs.decode(1))], rounds=100
        )
        # A token takes 10 ms: of a hundred pairs the median ratio repeats within 0.4 %, a low quantile within 1.
        return float(np.median(np.array(mine) / np.array(theirs)))


class ModelRatio(_Pair):
    """One greedy token on our cache over one on mlx-lm's: below 1 is faster."""

    params = (["llama", "gemma3_text"], ["sequence", "cell"], ["host", "int32", "int64"])
    param_names = ("model", "cache", "path")
    other = "mlx-lm"

    def track_over_mlx_lm(self, model: str, cache: str, path: str) -> float:
        return self._measured()


class ModelFloor(_Pair):
    """One greedy token on our cache over one on slice assignments and reads without a check."""

    params = (["llama", "gemma3_text"], ["sequence", "cell"], ["host"])
    param_names = ("model", "cache", "path")
    other = "bare"

    def track_over_bare(self, model: str, cache: str, path: str) -> float:
        return self._measured()
