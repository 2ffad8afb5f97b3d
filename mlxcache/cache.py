"""What every cache is to its callers: the op face of the backend, and what it hands to attention."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from mlxcache.layout import CacheConfig, LayerConfig, Run
from mlxcache.pool import Pool, row_index
from mlxcache.quantized_pool import QuantizedPool

_FULL = slice(None)
# AttendSpec(...) goes through a Python-level __new__: 290 ns where this takes 140, once a layer.
_tuple = tuple.__new__

# What `host_positions` returned, or any sequence of integers.
Positions = memoryview | np.ndarray | Sequence[int]


class MaskKind(enum.Enum):
    """Which mask attention applies to the keys it is handed."""

    NONE = "none"
    #: Lower-right aligned, as MLX's fused attention does it: the last query sees every key.
    CAUSAL = "causal"
    EXPLICIT = "explicit"


class AttendSpec(NamedTuple):
    """What one layer attends to in one step.

    `keys` and `values` are `[1, H, S, D]` in the storage dtype, oldest first; `mask` is bool `[1, 1, T, S]`,
    true where a query sees a key, and None unless `kind` is EXPLICIT. Drop a spec before the next step is
    evaluated: while a slice of a pool is alive, MLX copies the pool instead of updating it.
    """

    keys: mx.array
    values: mx.array
    kind: MaskKind
    mask: mx.array | None


class LayerWork:
    """What every layer of one kind does in one step, with ready index objects and the shape to expect.

    Args:
        cells: the layers' configuration.
        count: tokens of the step.
        write: where they go, as one run, or as an index of distinct cells, uint32 `[1, 1, count, 1]`.
        read: what attention reads.
        kind: which mask it applies.
        mask: for EXPLICIT.
        roll: cells that move from the pool's front to its back first.
        rows: the cells to read as a batch, `[B, S]`, in place of `read`.
    """

    __slots__ = (
        "_row_index",
        "index",
        "kind",
        "mask",
        "read",
        "read_run",
        "roll",
        "rows",
        "shape",
        "slots",
        "span",
        "write",
        "write_run",
    )

    def __init__(
        self,
        cells: LayerConfig,
        count: int,
        write: Run | mx.array,
        read: Run,
        kind: MaskKind,
        mask: mx.array | None,
        roll: int = 0,
        rows: np.ndarray | None = None,
    ) -> None:
        self.shape = (1, cells.n_kv_heads, count, cells.head_dim)
        self.slots = read.stop
        # MLX indexes 20 % faster with (:, :, run) than with (..., run, :).
        self.read = (_FULL, _FULL, slice(read.start, read.stop))
        self.read_run = read
        self.span = read.length if rows is None else rows.shape[1]
        self.write: tuple[slice, slice, slice] | None = None
        self.index: mx.array | None = None
        if isinstance(write, Run):
            self.write_run = write
            if rows is None:  # written and read as runs: the short way
                self.write = (_FULL, _FULL, slice(write.start, write.stop))
        else:
            self.index = write
        self.rows = rows
        self._row_index: tuple[int, mx.array] | None = None
        self.kind = kind
        self.mask = mask
        self.roll = roll

    def row_index(self, slots: int) -> mx.array | None:
        """`rows` as the index for pools of `slots` slots: made once, since the layers of a kind grow alike."""
        if self.rows is None:
            return None
        if self._row_index is None or self._row_index[0] != slots:
            self._row_index = slots, row_index(self.rows, self.shape[1], slots)
        return self._row_index[1]


class StepMask(NamedTuple):
    """The mask of a step on a layer: see `AttendSpec`; `span` is the number of keys, S."""

    kind: MaskKind
    mask: mx.array | None
    span: int


class LayerBytes(NamedTuple):
    """One layer's cells as they are stored, `[1, H, n, width]` a plane: one plane, or three if quantised."""

    keys: tuple[mx.array, ...]
    values: tuple[mx.array, ...]


class MLXCache(ABC):
    """The pools of a model's layers and the two faces of a cache.

    The application holds the control face (`capacity`, `can_extend`, `rewind`, `clear`, `nbytes`), the backend
    the op face (`update_and_fetch`). Nothing is evaluated here: the caller evaluates a step as a whole.
    """

    def __init__(self, config: CacheConfig, max_slots: Sequence[int]) -> None:
        self.config = config
        self.capacity = config.capacity
        pools = [(self._pool(config, i, most), self._pool(config, i, most)) for i, most in enumerate(max_slots)]
        self._key_pools = [keys for keys, _ in pools]
        self._value_pools = [values for _, values in pools]
        self._n_layers = config.n_layers
        self._plain = config.kv_bits is None

    @staticmethod
    def _pool(config: CacheConfig, layer: int, max_slots: int) -> Pool | QuantizedPool:
        cells = config.layer(layer)
        sizes = (config.initial_capacity, max_slots, cells.n_kv_heads, cells.head_dim, config.kv_dtype)
        if config.kv_bits is None:
            return Pool(*sizes)
        return QuantizedPool(*sizes, bits=config.kv_bits, group_size=config.kv_group_size)

    def _store(self, layer: int, work: LayerWork, k: mx.array, v: mx.array) -> AttendSpec:
        """Write one layer's K and V and read what its queries attend to, or refuse their shapes.

        The last check of a step is made here, before the first write: call it with everything else checked,
        and take the step as done after it.
        """
        shape = work.shape
        if k.shape != shape or v.shape != shape:
            check_cells(k, v, self.config.layer(layer), shape[2])
        key_pool = self._key_pools[layer]
        value_pool = self._value_pools[layer]
        if work.slots > key_pool.slots or work.roll:
            for pool in (key_pool, value_pool):
                if work.roll:
                    pool.roll(work.roll)
                pool.reserve(work.slots)
        write = work.write
        if write is None or not self._plain:
            return _store_by_call(key_pool, value_pool, work, k, v)
        # What Pool.write and Pool.read do, without their calls and checks: this is a model's every decode step.
        keys: mx.array = key_pool.array  # type: ignore[union-attr]
        values: mx.array = value_pool.array  # type: ignore[union-attr]
        keys[write] = k
        values[write] = v
        read = work.read
        return _tuple(AttendSpec, (keys[read], values[read], work.kind, work.mask))

    @property
    def nbytes(self) -> int:
        """Bytes of all cells allocated now."""
        return sum(self.layer_nbytes(layer) for layer in range(self._n_layers))

    def layer_nbytes(self, layer: int) -> int:
        """Bytes of one layer's cells allocated now, keys and values. IndexError for a layer out of range."""
        check_layer(layer, self._n_layers)
        return self._key_pools[layer].nbytes + self._value_pools[layer].nbytes

    def _held(self, layer: int, runs: Sequence[Run] | np.ndarray) -> LayerBytes:
        """The stored bytes of cells, as runs or by index, in that order."""
        return LayerBytes(
            *(
                tuple(_taken(plane, runs) for plane in pools[layer].planes)
                for pools in (self._key_pools, self._value_pools)
            )
        )

    def _check_bytes(self, layers: Sequence[LayerBytes], counts: Sequence[int]) -> None:
        """Refuse what `_put_back` could not write, `counts[i]` cells on layer i, with a ValueError."""
        if len(layers) != self._n_layers:
            raise ValueError(f"layers: got {len(layers)}, expected {self._n_layers}")
        for layer, (stored, count) in enumerate(zip(layers, counts, strict=True)):
            for pools, parts in ((self._key_pools, stored.keys), (self._value_pools, stored.values)):
                planes = pools[layer].planes
                expected = [((1, plane.n_kv_heads, count, plane.head_dim), plane.dtype) for plane in planes]
                got = [(tuple(part.shape), part.dtype) for part in parts]
                if got != expected:
                    raise ValueError(f"layers[{layer}]: got cells {got}, expected {expected}")

    def _put_back(self, layer: int, where: Run | np.ndarray, stored: LayerBytes) -> None:
        """Write what `_held` gave to a run of slots, or to slots by index."""
        for pools, parts in ((self._key_pools, stored.keys), (self._value_pools, stored.values)):
            for plane, part in zip(pools[layer].planes, parts, strict=True):
                if isinstance(where, Run):
                    plane.write(where.start, part)
                else:
                    plane.write_cells(where, part)

    @abstractmethod
    def update_and_fetch(self, layer: int, positions: Positions, k: mx.array, v: mx.array) -> AttendSpec:
        """Store one layer's K and V of a step and return what its queries attend to.

        Args:
            layer: from 0.
            positions: one per token, in the order of `k` and `v`.
            k: `[1, H, T, D]`, cast to the storage dtype.
            v: `[1, H, T, D]`, likewise.

        A refused step changes nothing. Raises IndexError for a layer out of range, ValueError for positions or
        shapes that do not fit, CapacityError for a step that has no room.
        """

    def update_and_gather(self, layer: int, positions: Positions, k: mx.array, v: mx.array) -> AttendSpec:
        """`update_and_fetch`, but a step of B sequences may come back as a batch, where that is cheaper.

        Keys and values are then `[B, H, S, D]` and a mask `[B or 1, 1, T / B, S]`: the queries of each sequence, a
        B-th of the step's tokens in their order, meet the cells of that sequence alone.
        """
        return self.update_and_fetch(layer, positions, k, v)

    @abstractmethod
    def mask_for(self, layer: int, positions: Positions, gather: bool = False) -> StepMask:
        """The mask that `update_and_fetch`, or `update_and_gather`, will hand out; changes nothing.

        For models that make their masks before their layers run. Raises what `update_and_fetch` would.
        """

    @abstractmethod
    def can_extend(self, count: int) -> bool:
        """Whether `count` more tokens fit."""

    @abstractmethod
    def clear(self) -> None:
        """Forget every token; the storage is kept."""


def _taken(plane: Pool, runs: Sequence[Run] | np.ndarray) -> mx.array:
    if isinstance(runs, np.ndarray):
        return plane.array[:, :, mx.array(runs.astype(np.uint32))]
    parts = [plane.read(*run) for run in runs]
    return parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=2)


def _store_by_call(
    key_pool: Pool | QuantizedPool, value_pool: Pool | QuantizedPool, work: LayerWork, k: mx.array, v: mx.array
) -> AttendSpec:
    for pool, update in ((key_pool, k), (value_pool, v)):
        if work.index is not None:
            pool.place(work.index, update)
        else:
            pool.write(work.write_run.start, update)
    rows = work.row_index(key_pool.slots)
    if rows is not None:
        return AttendSpec(key_pool.gather(rows), value_pool.gather(rows), work.kind, work.mask)
    read = work.read_run
    return AttendSpec(key_pool.read(*read), value_pool.read(*read), work.kind, work.mask)


def check_layer(layer: int, n_layers: int) -> None:
    """Refuse a layer that the model does not have with an IndexError; negative ones too."""
    if not 0 <= layer < n_layers:
        raise IndexError(f"layer: got {layer}, expected 0 <= layer < {n_layers}")


def check_cells(k: mx.array, v: mx.array, cells: LayerConfig, count: int) -> None:
    """Refuse K and V that are not `[1, H, count, D]` of the layer with a ValueError.

    MLX's slice assignment would broadcast an H or T of 1 without a word, so this is the only guard.
    """
    expected = (1, cells.n_kv_heads, count, cells.head_dim)
    for name, array in (("k", k), ("v", v)):
        if tuple(array.shape) != expected:
            raise ValueError(
                f"{name}: got shape {tuple(array.shape)}, expected {expected}: "
                f"[1, n_kv_heads, tokens, head_dim] for {count} positions"
            )


def position_array(positions: Positions) -> np.ndarray:
    """The positions as a 1-D integer array on the host, with at least one entry.

    Raises ValueError for anything else.
    """
    try:
        array = np.asarray(positions)
    except (TypeError, ValueError) as error:
        raise ValueError(f"positions: got {positions!r}, expected a 1-D sequence of integers") from error
    if array.ndim != 1:
        raise ValueError(f"positions: got shape {array.shape}, expected 1-D, one position per token")
    if array.size == 0:
        raise ValueError("positions: got 0 tokens, expected at least 1")
    if array.dtype.kind not in "iu":
        raise ValueError(f"positions: got dtype {array.dtype}, expected integers")
    return array
