"""mlxcache under mlx-lm's models: prompt caches whose layers share one cache.

    from mlx_lm.generate import generate_step
    from mlxcache.mlx_lm import make_prompt_cache

    prompt_cache = make_prompt_cache(model)
    for token, _ in generate_step(prompt, model, prompt_cache=prompt_cache):
        ...

A model of mlx-lm holds one cache object per layer and tells it neither its layer nor the positions. Each object
here knows its layer and counts; the shared cache does the work. mlx-lm's `save_prompt_cache`, `trim_prompt_cache`
and `load_prompt_cache` work on them (the last finds classes by name in mlx-lm's module: importing this module
puts ours there).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import mlx.core as mx
import mlx_lm.models.cache as lm_cache

from mlxcache.kv.cells import MLXCellCache
from mlxcache.kv.sequence import MLXSequenceCache
from mlxcache.kv.storage.layout import CacheConfig, LayerConfig, LayerPolicy
from mlxcache.kv.storage.pool import GROWTH
from mlxcache.mlx_lm.layer_caches import CellLayerCache, SequenceLayerCache

# Tokens that a trim can take back once a window has dropped some: more than any draft, and an eighth of a whole
# chunk, each of whose tokens would cost a cell of every ring. mlx-lm's own rings then take nothing back.
TAKEN_BACK = 256

for _class in (SequenceLayerCache, CellLayerCache):
    setattr(lm_cache, _class.__qualname__, _class)  # what a file names that an earlier version has saved
    # mlx-lm saves this name and looks it up: where it is missing, its error says what to import.
    _class.__name__ = f"{_class.__qualname__} (import mlxcache.mlx_lm)"
    setattr(lm_cache, _class.__name__, _class)


def config_for(
    model: Any,
    capacity: int = 32768,
    *,
    prefill_step_size: int = 2048,
    **options: Any,
) -> CacheConfig:
    """The config of a cache for a model of mlx-lm.

    Args:
        model: its layers' kinds are those of the caches that mlx-lm makes for it, and its sizes are read off one
            token's graph, which is not evaluated.
        capacity: the most tokens, or the cells of a cell cache.
        prefill_step_size: the largest chunk of a prompt, as in mlx-lm's `generate_step`.
        options: further fields of `CacheConfig`. Unless given here, `kv_dtype` is the model's own, and
            `max_rewind`, what a trim can take back once a window has dropped tokens, is 256, or a chunk if that is
            less: each costs a cell of every ring.

    Raises ValueError for a model with layers that hold something other than K and V of one head_dim, or that see
    fewer tokens than they keep. docs/models.md has the architectures that run and those that are refused.
    """
    caches, asked = _asked(model)
    layers, dtypes = [], []
    for index, cache in enumerate(caches):
        kind = type(cache).__name__
        if kind == "KVCache":
            policy = LayerPolicy.flat()
        elif kind == "RotatingKVCache" and cache.keep == 0:
            policy = LayerPolicy.ring(cache.max_size)
        else:
            raise ValueError(
                f"model: layer {index} uses mlx-lm's {kind}, expected KVCache or a RotatingKVCache of keep=0"
            )
        if strange := asked[index].windows - {None, policy.window}:
            raise ValueError(
                f"model: layer {index} uses mlx-lm's {kind} of window={policy.window} with masks of windows "
                f"{sorted(map(str, strange))}, expected the same window"
            )
        keys, values = cache.keys, cache.values
        if keys is None or keys.shape[-1] != values.shape[-1]:
            shapes = "none" if keys is None else f"{keys.shape} and {values.shape}"
            raise ValueError(f"model: layer {index} stores {shapes}, expected keys and values of one head_dim")
        layers.append(LayerConfig(policy, keys.shape[1], keys.shape[3]))
        dtypes.append(keys.dtype)
    # As many cells as mlx-lm's caches begin with.
    options = {"kv_dtype": dtypes[0], "max_write": prefill_step_size, "initial_capacity": GROWTH, **options}
    if any(layer.policy.window is not None for layer in layers):
        options.setdefault("max_rewind", min(prefill_step_size, TAKEN_BACK))
    return CacheConfig(capacity, len(layers), layers, **options)


class _Asked:
    """What a model asks of one of mlx-lm's caches: noted while it makes the graph of one token."""

    def __init__(self, cache: Any) -> None:
        self.windows: set[int | None] = set()
        self._stores = 0
        self._reads = 0
        if not isinstance(cache, (lm_cache.KVCache, lm_cache.RotatingKVCache)):
            return
        store: Any = cache.update_and_fetch
        read: Any = cache.keys_and_values
        mask: Any = cache.make_mask

        def update_and_fetch(*args: Any) -> Any:
            self._stores += 1
            return store(*args)

        def keys_and_values() -> Any:
            self._reads += 1
            return read()

        def make_mask(*args: Any, **options: Any) -> Any:
            self.windows.add(options.get("window_size"))
            return mask(*args, **options)

        vars(cache).update(update_and_fetch=update_and_fetch, keys_and_values=keys_and_values, make_mask=make_mask)

    @property
    def shares(self) -> bool:
        """Whether another layer reads what this one's update has returned already."""
        return self._reads > self._stores


def _asked(model: Any) -> tuple[list[Any], list[_Asked]]:
    caches = lm_cache.make_prompt_cache(model)
    asked = [_Asked(cache) for cache in caches]
    model(mx.zeros((1, 1), mx.int32), cache=caches)
    return caches, asked


def make_prompt_cache(
    model: Any,
    kind: Literal["sequence", "cell"] = "sequence",
    config: CacheConfig | None = None,
    *,
    position_dtype: mx.Dtype | None = None,
) -> list[SequenceLayerCache] | list[CellLayerCache]:
    """A prompt cache for mlx-lm: one object per layer over one new cache.

    Args:
        model: of mlx-lm.
        kind: "sequence", or "cell" for sequence 0 of a new cell cache.
        config: None means `config_for(model)`.
        position_dtype: `mx.int32` or `mx.int64` sends every step's positions through an array and
            `host_positions` once a layer, as a backend does that gets them from a compiled program; None counts
            them on the host.

    Raises ValueError for an unknown kind and for what `config_for` refuses.
    """
    config = config_for(model) if config is None else config
    if kind == "sequence":
        layers = SequenceLayerCache.over(MLXSequenceCache(config), position_dtype)
        for layer, asked in zip(layers, _asked(model)[1], strict=False):
            layer.shares = asked.shares
        return layers
    if kind == "cell":
        return CellLayerCache.over(MLXCellCache(config), [0], position_dtype)
    raise ValueError(f"kind: got {kind!r}, expected 'sequence' or 'cell'")


def cell_prompt_cache(
    cache: MLXCellCache, seq_ids: Sequence[int], *, position_dtype: mx.Dtype | None = None
) -> list[CellLayerCache]:
    """A prompt cache for a batch of sequences of one cell cache, in the order of the model's batch.

    The model takes tokens `[B, T]`, B = `len(seq_ids)`, and gives logits `[B, T, vocabulary]`, each sequence going
    on from its own position. Make one for each group that steps together; making it costs nothing:

        fill = cell_prompt_cache(cache, [3])           # the prompt of one sequence
        model(prompt[None], cache=fill)
        together = cell_prompt_cache(cache, [0, 1, 3]) # then one token for each of three
        logits = model(tokens[:, None], cache=together)[:, -1]

    Raises ValueError for ids out of range, repeated, or none.
    """
    return CellLayerCache.over(cache, seq_ids, position_dtype)
