"""A prompt cache's layers as arrays, and back: what mlx-lm's `save_prompt_cache` writes of them.

A layer's state is `(keys, values, header)`: the stored bytes of its cells, one array a plane, and JSON in a uint8
array. mlx-lm saves and loads layers one by one, so every header says the whole config, and the layers that are
read one after the other become one cache again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import mlx.core as mx
import numpy as np

from mlxcache.kv.cache import LayerBytes
from mlxcache.kv.storage.layout import CacheConfig, LayerConfig, LayerPolicy

VERSION = 1


def layer_state(kind: str, config: CacheConfig, layer: int, stored: LayerBytes, facts: dict[str, Any]) -> Any:
    """A layer's cells, with what its cache's kind says of them in `facts`, as a tree of arrays."""
    said: dict[str, Any] = {
        "version": VERSION,
        "kind": kind,
        "layer": layer,
        "facts": facts,
        "config": {
            "capacity": config.capacity,
            "layers": [[each.policy.window, each.n_kv_heads, each.head_dim] for each in config.layers],
            "n_layers": config.n_layers,
            "kv_dtype": str(config.kv_dtype).rpartition(".")[2],
            "initial_capacity": config.initial_capacity,
            "max_write": config.max_write,
            "kv_bits": config.kv_bits,
            "kv_group_size": config.kv_group_size,
        },
    }
    if config.max_rewind is not None:  # left out where it is not used: older readers know nothing of it
        said["config"]["max_rewind"] = config.max_rewind
    return stored.keys, stored.values, mx.array(np.frombuffer(json.dumps(said).encode(), np.uint8))


def _config(said: dict[str, Any]) -> CacheConfig:
    layers = [
        LayerConfig(LayerPolicy.flat() if window is None else LayerPolicy.ring(window), heads, dim)
        for window, heads, dim in said["layers"]
    ]
    return CacheConfig(**{**said, "layers": layers, "kv_dtype": getattr(mx, said["kv_dtype"])})


Layer = TypeVar("Layer")


class LayerKind(Protocol[Layer]):
    """How one kind of layer is made again."""

    kind: str

    def begin(self, config: CacheConfig) -> list[Layer]:
        """The layers of a new cache, empty."""

    def finish(self, layers: list[Layer], parts: list[tuple[LayerBytes, dict[str, Any]]]) -> None:
        """Fill the cache with what was read of each layer."""


class StateReader(threading.local):
    """Puts layers together again that are read one by one, in order, each thread its own."""

    def __init__(self) -> None:
        self._said: dict[str, Any] = {}
        self._layers: list[Any] = []
        self._parts: list[tuple[LayerBytes, dict[str, Any]]] = []

    def read(self, kind: LayerKind[Layer], state: Sequence[Any]) -> Layer:
        """One layer from its state; its cache is filled when the last layer has been read.

        Raises ValueError for what `layer_state` did not make for this kind, and for a layer out of order.
        """
        try:
            keys, values, header = state
            said = json.loads(np.array(header).tobytes())
            config, layer, facts = said["config"], int(said["layer"]), said["facts"]
            found = (said["version"], said["kind"])
        except (TypeError, ValueError, KeyError) as error:
            raise ValueError(f"state: got no state of a prompt cache's layer: {error}") from error
        if found != (VERSION, kind.kind):
            raise ValueError(
                f"state: got version and kind {found}, expected {(VERSION, kind.kind)}; it is another cache's"
            )
        if layer == 0:
            self._said, self._layers, self._parts = config, kind.begin(_config(config)), []
        if layer != len(self._parts) or config != self._said:
            raise ValueError(
                f"state: got layer {layer}, expected layer {len(self._parts)} of the same cache; "
                "read the layers in order"
            )
        self._parts.append((LayerBytes(tuple(keys), tuple(values)), facts))
        layers: list[Layer] = self._layers
        mine = layers[layer]
        if len(self._parts) == len(layers):
            parts, self._layers, self._parts, self._said = self._parts, [], [], {}
            kind.finish(layers, parts)
        return mine


READER = StateReader()
