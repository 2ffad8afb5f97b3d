"""One layer of a shared cache in the form that a model of mlx-lm expects; see `mlxcache.mlx_lm`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx_lm.models.cache as lm_cache
import numpy as np

from mlxcache.kv.cache import LayerBytes, MLXCache
from mlxcache.kv.cells import MLXCellCache
from mlxcache.kv.masks import band_mask
from mlxcache.kv.positions import host_positions
from mlxcache.kv.sequence import MLXSequenceCache
from mlxcache.kv.spec import MaskKind, StepMask
from mlxcache.kv.step import Gather, Positions
from mlxcache.kv.storage.cell_layout import CellLayout
from mlxcache.kv.storage.layout import CacheConfig
from mlxcache.mlx_lm.prompt_state import READER, layer_state

_FLAT: Any = lm_cache.KVCache
_RING: Any = lm_cache.RotatingKVCache
# What a model does with what it is handed, so that a ring need not be in order.
_ATTENDS = Gather.BATCH


class StepPositions:
    """The positions of the step in progress, made once and read by every layer.

    Args:
        dtype: None counts them on the host; `mx.int32` or `mx.int64` hands them to every layer through an array.

    Raises ValueError for another dtype.
    """

    __slots__ = ("_wide", "array", "count", "host", "offset", "on_host", "starts", "stops")

    def __init__(self, dtype: mx.Dtype | None) -> None:
        # An mx.Dtype refuses to be compared with None.
        if dtype is not None and dtype not in (mx.int32, mx.int64):
            raise ValueError(f"position_dtype: got {dtype}, expected None, mlx.core.int32 or mlx.core.int64")
        # Not the dtype itself, which cannot be copied.
        self._wide = dtype is not None and dtype == mx.int64
        self.on_host = dtype is None
        self.forget()

    def forget(self) -> None:
        """Be of no step, so that the same positions may come again in a new one."""
        self.starts: tuple[int, ...] = ()
        self.stops: tuple[int, ...] = ()
        self.offset: int | mx.array = 0
        self.count = -1  # no step's: one of 0 tokens is asked for, and refused, like any other
        self.host: Positions = ()
        self.array: mx.array | None = None

    def take(self, starts: tuple[int, ...], count: int) -> None:
        """Be of a step of `count` tokens for each sequence, from these positions."""
        self.starts, self.count = starts, count
        self.stops = tuple([start + count for start in starts])
        self.offset = _offset(self.stops)
        if not self.on_host:
            host = [start + i for start in starts for i in range(count)]
            self.array = mx.array(host, mx.int64 if self._wide else mx.int32)
        elif count == 1:
            self.host = starts
        else:
            self.host = (np.array(starts, np.int32)[:, None] + np.arange(count, dtype=np.int32)).reshape(-1)


class LayerCache(ABC):
    """What both kinds have in common of mlx-lm's protocol.

    All layers of a prompt cache share `cache` and must be stepped and trimmed together, as models and mlx-lm's
    functions do. `copy.deepcopy` of the whole list gives a fork that shares no state with its parent.
    """

    offset: int | mx.array

    def __init__(self, cache: MLXCache, layer: int, positions: StepPositions) -> None:
        self.cache = cache
        self.layer = layer
        self._positions = positions
        self._config = cache.config
        self._window = cache.config.layer(layer).policy.window

    @abstractmethod
    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Store `[B, H, T, D]` and return what the step attends to, `[B, H, S, D]` in the dtype of `keys`.

        The keys of a sliding window come in any order; the mask of `make_mask` fits it.
        """

    @abstractmethod
    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """What this step's `update_and_fetch` returned, for layers that share a layer's keys and values.

        Raises RuntimeError where the last step has not served this layer.
        """

    def to_quantized(self, group_size: int = 64, bits: int = 4) -> LayerCache:
        """This layer, for mlx-lm's `kv_bits`, where its cache stores quantised already.

        Raises ValueError where it does not: all layers share one cache, which is made with `kv_bits`.
        """
        config = self._config
        if (config.kv_bits, config.kv_group_size) == (bits, group_size):
            return self
        stores = "does not quantise" if config.kv_bits is None else f"stores {config.kv_bits} bits in groups"
        stores += "" if config.kv_bits is None else f" of {config.kv_group_size}"
        raise ValueError(
            f"kv_bits: got {bits} with kv_group_size={group_size} for a cache that {stores}, expected a prompt "
            f"cache that is made so, with config_for(model, kv_bits=8, kv_group_size={group_size}), 4 or 8 bits; "
            "it quantises from the first token on, whatever quantized_kv_start says"
        )

    @classmethod
    def merge(cls, caches: Sequence[LayerCache]) -> Any:
        """mlx-lm's own cache of a batch with what these layers hold, copied, for its `BatchGenerator`.

        The layers here stay as they are. `cell_prompt_cache` takes a batch without a copy.
        """
        return type(caches[0].extract(0)).merge([cache.extract(0) for cache in caches])

    @abstractmethod
    def extract(self, idx: int) -> Any:
        """mlx-lm's own cache with a copy of what sequence `idx` of the batch holds. IndexError out of range."""

    def _extracted(self, stored: LayerBytes, offset: int) -> Any:
        window = self._window
        made: Any = _FLAT() if window is None else _RING(window)
        if offset:
            keys, values = self.cache.unpacked(self.layer, stored)
            held = keys.shape[2] if window is None else min(window, keys.shape[2])
            made.keys, made.values = (mx.contiguous(each[:, :, -held:]) for each in (keys, values))
            made.offset = offset
            if window is not None:
                made._idx = held
        return made

    def __copy__(self) -> LayerCache:
        raise TypeError(
            f"layer {self.layer}: got copy.copy, which would step one cache twice, expected copy.deepcopy of the "
            "whole prompt cache"
        )

    @abstractmethod
    def _step_mask(self, count: int) -> StepMask | None:
        """The mask of the next step of `count` tokens; None where every query sees all keys."""

    def make_mask(
        self, N: int, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        """The mask of the next step of N tokens: None, "causal" or bool `[B, 1, N, S]`, as mlx-lm's models ask.

        Raises ValueError for a `window_size` other than the layer's.
        """
        if window_size is not None and window_size != self._window:
            raise ValueError(
                f"window_size: got {window_size} for layer {self.layer} with window={self._window}, expected the "
                "same; make the config with LayerPolicy.ring(window_size)"
            )
        found = self._step_mask(N)
        if found is None or found.kind is MaskKind.NONE:
            return None
        if found.kind is MaskKind.EXPLICIT:
            return found.mask
        return band_mask(found.span, N, found.span) if return_array else "causal"

    def size(self) -> int:
        """Tokens held, the longest sequence's in a batch."""
        return self._length()

    def empty(self) -> bool:
        """Whether no token is held."""
        return self._length() == 0

    @property
    def nbytes(self) -> int:
        """Bytes of this layer's pools: keys and values."""
        return self.cache.layer_nbytes(self.layer)

    @property
    def meta_state(self) -> str:
        """Empty: what it would say is in `state`. For versions of mlx-lm that ask."""
        return ""

    @property
    @abstractmethod
    def state(self) -> Any:
        """Arrays from which `from_state` makes the same layer again; evaluating them evaluates the pools."""

    @abstractmethod
    def _length(self) -> int: ...


class SequenceLayerCache(LayerCache):
    """One layer of an `MLXSequenceCache`, batch 1."""

    def __init__(self, cache: MLXSequenceCache, layer: int, positions: StepPositions) -> None:
        super().__init__(cache, layer, positions)
        self.cache: MLXSequenceCache = cache
        self.offset: int = cache.length
        self._on_host = positions.on_host
        #: Whether the model asks for `keys_and_values`, so that they are kept until the next step: a ring does not
        #: hold all of a chunk's.
        self.shares = False
        self._last: tuple[mx.array, mx.array] | None = None

    @classmethod
    def over(cls, cache: MLXSequenceCache, position_dtype: mx.Dtype | None = None) -> list[SequenceLayerCache]:
        """A prompt cache: one object per layer of `cache`, going on at its length."""
        positions = StepPositions(position_dtype)
        return [cls(cache, layer, positions) for layer in range(cache.config.n_layers)]

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """See `LayerCache.update_and_fetch`."""
        if self._last is not None:
            self._last = None  # a slice of a pool that lives on would make MLX copy the pool
        count = keys.shape[2]
        positions = (self.offset,) if count == 1 and self._on_host else self._step(count)
        stored, other, _, _ = self.cache.update_and_fetch(self.layer, positions, keys, values, _ATTENDS)
        self.offset += count
        dtype = keys.dtype
        if dtype != self._config.kv_dtype:
            stored, other = stored.astype(dtype), other.astype(dtype)
        if self.shares:
            self._last = stored, other
        return stored, other

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """See `LayerCache.keys_and_values`."""
        if self._last is None:
            raise RuntimeError(
                f"layer: {self.layer} has no keys and values of this step to share, expected update_and_fetch "
                "first, and a prompt cache from make_prompt_cache(model), which finds out whether layers share"
            )
        return self._last

    def is_trimmable(self) -> bool:
        """Always: `trim` takes the tokens back or says why it cannot.

        mlx-lm asks this first and then goes on without a word where the answer is no, with tokens that were to go.
        """
        return True

    def trim(self, n: int) -> int:
        """Take back the newest `n` tokens, or all; the number taken.

        Raises ValueError, and changes nothing, where a ring layer has dropped what that many would need.
        """
        _check_trim(n)
        target = max(0, self.offset - n)
        if self.cache.length > target and not self.cache.rewind(target):
            oldest = self.cache.oldest_restart
            raise ValueError(
                f"n: got {n} tokens to take back from {self.offset}, expected at most {self.offset - oldest} "
                "(or all): a layer with a window no longer holds what came before; make the cache with a larger "
                "max_rewind, fill a new one, or use a cell cache, which keeps everything"
            )
        taken = self.offset - target
        self.offset = target
        return taken

    def extract(self, idx: int) -> Any:
        """See `LayerCache.extract`."""
        _check_row(idx, 1)
        return self._extracted(self.cache.held(self.layer)[1], self.offset)

    @property
    def state(self) -> Any:
        """See `LayerCache.state`."""
        oldest, stored = self.cache.held(self.layer)
        facts = {
            "oldest": oldest,
            "length": self.cache.length,
            "written": self.cache.written,
            "shares": self.shares,
        }
        return layer_state("sequence", self.cache.config, self.layer, stored, facts)

    @classmethod
    def from_state(cls, state: Sequence[Any], meta_state: str = "") -> SequenceLayerCache:
        """A layer from its `state`; the layers of a prompt cache come in order, and share one cache again.

        Raises ValueError for a layer out of order and a state of another kind.
        """
        return READER.read(_SequenceKind(), state)

    def _step(self, count: int) -> Positions:
        positions = self._positions
        if positions.count != count or positions.starts[0] != self.offset:
            positions.take((self.offset,), count)
        return positions.host if positions.array is None else host_positions(positions.array)

    def _step_mask(self, count: int) -> StepMask | None:
        if count == 1:
            return None  # whatever the layer: its one query sees all that is read
        return self.cache.mask_for(self.layer, self._step(count), _ATTENDS)

    def _length(self) -> int:
        return self.offset


class CellLayerCache(LayerCache):
    """One layer of an `MLXCellCache` for the sequences of a model's batch.

    The steps are declared here, at the first layer that is asked for a mask or served.
    """

    def __init__(
        self, cache: MLXCellCache, layer: int, seq_ids: tuple[int, ...], positions: StepPositions
    ) -> None:
        super().__init__(cache, layer, positions)
        self.cache: MLXCellCache = cache
        self.seq_ids = seq_ids
        #: The name of the dtype that the model computes in, where it is not the storage dtype.
        self._asked = ""
        self._go_on(tuple(cache.next_position(seq) for seq in seq_ids))

    @classmethod
    def over(
        cls, cache: MLXCellCache, seq_ids: Sequence[int], position_dtype: mx.Dtype | None = None
    ) -> list[CellLayerCache]:
        """A prompt cache for these sequences: one object per layer, going on at each one's newest position."""
        ids = tuple(CellLayout.check_seq(f"seq_ids[{i}]", seq) for i, seq in enumerate(seq_ids))
        if not ids or len(set(ids)) != len(ids):
            raise ValueError(f"seq_ids: got {list(ids)}, expected at least one id, and each once")
        positions = StepPositions(position_dtype)
        return [cls(cache, layer, ids, positions) for layer in range(cache.config.n_layers)]

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """See `LayerCache.update_and_fetch`."""
        batch, _, count, _ = keys.shape
        if batch != len(self.seq_ids):
            raise ValueError(
                f"keys: got shape {tuple(keys.shape)}, expected batch {len(self.seq_ids)} for {self.seq_ids}"
            )
        positions, update = self._step(count), self.cache.update_and_fetch
        if batch == 1:
            stored, other, _, _ = update(self.layer, positions, keys, values, Gather.BATCH)
        else:
            stored, other, _, _ = update(self.layer, positions, _flat(keys), _flat(values), Gather.BATCH)
            if stored.shape[0] != batch:
                shape = (batch, *stored.shape[1:])
                stored, other = mx.broadcast_to(stored, shape), mx.broadcast_to(other, shape)
        self._starts, self.offset = self._positions.stops, self._positions.offset
        dtype = keys.dtype
        if dtype == self._config.kv_dtype:
            return stored, other
        self._asked = str(dtype).rpartition(".")[2]
        return stored.astype(dtype), other.astype(dtype)

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """See `LayerCache.keys_and_values`."""
        stored, other, _, _ = self.cache.fetch_again(self.layer)
        if not self._asked:
            return stored, other
        dtype = getattr(mx, self._asked)
        return stored.astype(dtype), other.astype(dtype)

    def is_trimmable(self) -> bool:
        """Always: cells are kept until they are removed."""
        return True

    def trim(self, n: int) -> int:
        """Take back the newest `n` tokens of every sequence, or all it has; the most that were taken from one."""
        _check_trim(n)
        self._drop_unserved()
        targets = tuple(max(0, start - n) for start in self._starts)
        for seq, target in zip(self.seq_ids, targets, strict=True):
            if self.cache.next_position(seq) > target:
                self.cache.seq_rm(seq, target)
        taken = max(start - target for start, target in zip(self._starts, targets, strict=True))
        self._go_on(targets)
        self._positions.forget()
        return taken

    def extract(self, idx: int) -> Any:
        """See `LayerCache.extract`."""
        _check_row(idx, len(self.seq_ids))
        return self._extracted(self.cache.held(self.layer, self.seq_ids[idx]), self._starts[idx])

    @property
    def state(self) -> Any:
        """See `LayerCache.state`. Of a batch it is for evaluation only: `from_state` takes one sequence."""
        parts = [self.cache.held(self.layer, seq) for seq in self.seq_ids]
        if len(parts) > 1:
            return tuple(parts)
        facts = {"positions": self.cache.seq_positions(self.seq_ids[0]).tolist()}
        return layer_state("cell", self.cache.config, self.layer, parts[0], facts)

    @classmethod
    def from_state(cls, state: Sequence[Any], meta_state: str = "") -> CellLayerCache:
        """A layer from its `state`, as sequence 0 of a new cell cache; see `SequenceLayerCache.from_state`."""
        return READER.read(_CellKind(), state)

    def _step(self, count: int) -> Positions:
        positions, starts = self._positions, self._starts
        if (
            positions.count != count
            or positions.starts != starts
            or (self.layer == 0 and self.cache.step_served is None)  # somebody else cancelled what we declared
        ):
            self._drop_unserved()
            self.cache.begin_step([seq for seq in self.seq_ids for _ in range(count)])
            positions.take(starts, count)
        return positions.host if positions.array is None else host_positions(positions.array)

    def _drop_unserved(self) -> None:
        """Take back what we declared for a model's call that ended before its first layer."""
        if self._positions.starts == self._starts and self.cache.step_served == 0:
            self.cache.cancel_step()
            self._positions.forget()  # what is declared next may be refused

    def _step_mask(self, count: int) -> StepMask:
        if self.cache.step_served is None:
            self._positions.forget()
        kind, mask, span = self.cache.mask_for(self.layer, self._step(count), Gather.BATCH)
        if mask is not None and mask.shape[2] != count:
            mask = mask.reshape(len(self.seq_ids), 1, count, span)
        return StepMask(kind, mask, span)

    def _go_on(self, starts: tuple[int, ...]) -> None:
        self._starts = starts
        #: The next position: an int for one sequence, int32 `[B]` for a batch, as `mx.fast.rope` takes both.
        self.offset: int | mx.array = _offset(starts)

    def _length(self) -> int:
        return max(self._starts)


def _check_trim(n: int) -> None:
    if n < 0:
        raise ValueError(f"n: got {n}, expected at least 0 tokens to take back; a step adds tokens")


def _check_row(idx: int, batch: int) -> None:
    if not 0 <= idx < batch:
        raise IndexError(f"idx: got {idx}, expected 0 <= idx < {batch}, a sequence of the batch")


def _offset(starts: tuple[int, ...]) -> int | mx.array:
    return starts[0] if len(starts) == 1 else mx.array(starts, mx.int32)


def _flat(array: mx.array) -> mx.array:
    """`[B, H, T, D]` as `[1, H, B * T, D]`: the tokens of each sequence in a row."""
    batch, heads, count, dim = array.shape
    return array.transpose(1, 0, 2, 3).reshape(1, heads, batch * count, dim)


class _SequenceKind:
    kind = "sequence"

    def begin(self, config: CacheConfig) -> list[SequenceLayerCache]:
        return SequenceLayerCache.over(MLXSequenceCache(config))

    def finish(self, layers: list[SequenceLayerCache], parts: list[tuple[LayerBytes, dict[str, Any]]]) -> None:
        facts = parts[0][1]
        layers[0].cache.restore(
            facts["written"], facts["length"], [(each["oldest"], stored) for stored, each in parts]
        )
        for layer, (_, its) in zip(layers, parts, strict=True):
            layer.offset = facts["length"]
            layer.shares = bool(its.get("shares"))  # files of earlier versions do not say


class _CellKind:
    kind = "cell"

    def begin(self, config: CacheConfig) -> list[CellLayerCache]:
        return CellLayerCache.over(MLXCellCache(config), [0])

    def finish(self, layers: list[CellLayerCache], parts: list[tuple[LayerBytes, dict[str, Any]]]) -> None:
        positions, cache = parts[0][1]["positions"], layers[0].cache
        if positions:
            cache.restore(0, positions, [stored for stored, _ in parts])
        for layer in layers:
            layer._go_on((cache.next_position(0),))
