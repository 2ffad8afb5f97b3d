"""What every cache is to its callers: the op face of the backend, and what it hands to attention."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from mlxcache.kv.batch import SequenceRead
from mlxcache.kv.spec import AttendSpec, MaskKind, StepMask
from mlxcache.kv.step import Gather, LayerWork, Positions, Step
from mlxcache.kv.storage.layout import CacheConfig, LayerConfig, Run
from mlxcache.kv.storage.pool import Pool
from mlxcache.kv.storage.quantized_pool import QuantizedPool
from mlxcache.kv.storage.ring_moves import save_after, serve
from mlxcache.kv.tracing import refuse_tracing

# AttendSpec(...) goes through a Python-level __new__: 290 ns where this takes 180, once a layer.
_tuple = tuple.__new__
_FLOATS = frozenset((mx.float16, mx.bfloat16, mx.float32))


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
        #: By layer: the index of its group in a step's `kinds`.
        self._group_of: tuple[int, ...] = ()
        self._plain = config.kv_bits is None
        #: Layers whose dtypes have been looked at.
        self._typed: set[int] = set()
        self._step = Step(-1, -1, b"", Gather.NEVER, config.n_layers)

    @staticmethod
    def _pool(config: CacheConfig, layer: int, max_slots: int) -> Pool | QuantizedPool:
        cells = config.layer(layer)
        sizes = (config.initial_capacity, max_slots, cells.n_kv_heads, cells.head_dim, config.kv_dtype)
        if config.kv_bits is None:
            return Pool(*sizes, sliced=cells.policy.window is not None)
        return QuantizedPool(*sizes, bits=config.kv_bits, group_size=config.kv_group_size)

    def update_and_fetch(
        self, layer: int, positions: Positions, k: mx.array, v: mx.array, gather: Gather = Gather.NEVER
    ) -> AttendSpec:
        """Store one layer's K and V of a step and return what its queries attend to.

        Args:
            layer: from 0.
            positions: one per token, in the order of `k` and `v`.
            k: `[1, H, T, D]`, cast to the storage dtype.
            v: `[1, H, T, D]`, likewise.
            gather: how a step of B sequences is read. As a batch, keys and values are `[B, H, S, D]` and a mask
                `[B or 1, 1, T / B, S]`: the queries of each sequence, a B-th of the step's tokens in their order,
                meet the cells of that sequence alone. With `MaskKind.APART`, keys and values are the step's own,
                and `read_each` has what they attend to. Any but NEVER also says that the caller attends to the
                keys, in whatever order they come: `AttendSpec.order` tells.

        A value beyond the range of the storage dtype is stored as an infinity, for its own sequence alone.

        A refused step changes nothing. Raises IndexError for a layer out of range, ValueError for positions or
        shapes that do not fit and for integers, booleans and complex numbers, CapacityError for a step that has
        no room, RuntimeError under `mx.compile`, which would repeat one step's positions for ever. The dtypes of
        one token are looked at in the step's first layer, and in every layer that it is the first for.
        """
        # Every layer of a model's every token comes here: written out, since a call costs as much as five lines.
        step = self._step
        count = step.count
        if (
            not 0 <= layer < self._n_layers
            or len(positions) != count
            or positions[0] != step.first
            or step.gather is not gather
            or (count > 1 and not step.has(positions))
        ):
            step = self._step_of(layer, positions, gather)
        work = step.works[layer]
        if work is None:
            work = self._work_of(step, layer)
        shape = work.shape
        if k.shape != shape or v.shape != shape:
            check_cells(k, v, self.config.layer(layer), shape[2])
        if not step.committed:
            _check_dtypes(k, v)
            refuse_tracing(k)
        elif not step.moved and (count > 1 or layer not in self._typed):
            # Not in every layer of every token: 8 % of a decode step's instructions.
            _check_dtypes(k, v)
            self._typed.add(layer)
        # The last check is made: from here on the layer is served.
        key_pool = self._key_pools[layer]
        value_pool = self._value_pools[layer]
        if work.slots > key_pool.slots:
            key_pool.reserve(work.slots, work.most, shape[2])
            value_pool.reserve(work.slots, work.most, shape[2])
        write = work.write
        if write is None:
            spec = _store_by_call(key_pool, value_pool, work, k, v)
        else:
            # What Pool.write and Pool.read do, without their calls and checks.
            keys: mx.array = key_pool.array  # type: ignore[union-attr]
            values: mx.array = value_pool.array  # type: ignore[union-attr]
            keys[write] = k
            values[write] = v
            read = work.read
            spec = _tuple(work.spec, (keys[read], values[read], work.kind, work.mask))
        step.works[layer] = None
        if not step.committed or work.lasting:
            self._commit(step, layer, work)
        return spec

    def fetch_again(self, layer: int) -> AttendSpec:
        """What `update_and_fetch` has just returned for a layer, read again where that can be.

        Raises IndexError for a layer out of range, RuntimeError for one that this step has not served, and for a
        chunk whose oldest cells a ring layer has dropped since.
        """
        check_layer(layer, self._n_layers)
        step = self._step
        served = step.committed and step.works[layer] is None
        work = step.kinds[self._group_of[layer]] if served and step.kinds else None
        if work is None or work.kind is MaskKind.APART or work.moves is not None:
            raise RuntimeError(f"layer: {layer} was not served in the last step, expected update_and_fetch first")
        return _fetched(self._key_pools[layer], self._value_pools[layer], work)

    def fetch_each(self, layer: int) -> list[AttendSpec]:
        """What `update_and_fetch` has just stored as a batch or apart, a sequence at a time, in order of position.

        For use in its place, not beside it. Raises RuntimeError where the layer's last step was neither.
        """
        return [AttendSpec(*read.parts[0], read.kind, read.mask) for read in self.read_each(layer, ordered=True)]

    def read_each(self, layer: int, *, ordered: bool = False) -> list[SequenceRead]:
        """`fetch_each` with what is quickest to attend to, unless `ordered`: see `SequenceRead`."""
        raise RuntimeError(f"layer: {layer} of a cache of one sequence has no batch, expected a cell cache")

    def mask_for(self, layer: int, positions: Positions, gather: Gather = Gather.NEVER) -> StepMask:
        """The mask that `update_and_fetch` will hand out; changes nothing.

        For models that make their masks before their layers run. Raises what `update_and_fetch` would.
        """
        step = self._step
        if (
            not 0 <= layer < self._n_layers
            or len(positions) != step.count
            or step.gather is not gather
            or not step.has(positions)
        ):
            step = self._step_of(layer, positions, gather)
        work = step.works[layer]
        if work is None:
            work = self._work_of(step, layer)
        return StepMask(work.kind, work.mask, work.span)

    @abstractmethod
    def _step_of(self, layer: int, positions: Positions, gather: Gather) -> Step:
        """Check that `layer` may be served for these positions, and make theirs the step in progress."""

    @abstractmethod
    def _work_of(self, step: Step, layer: int) -> LayerWork:
        """Work out what a layer does in the step that has no entry in `step.works`, and keep it there."""

    @abstractmethod
    def _commit(self, step: Step, layer: int, work: LayerWork) -> None:
        """Take the step as placed, and `layer` as served."""

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

    def unpacked(self, layer: int, stored: LayerBytes) -> tuple[mx.array, mx.array]:
        """Keys and values `[1, H, n, D]` of the storage dtype from what `held` gave of a layer.

        IndexError for a layer out of range.
        """
        check_layer(layer, self._n_layers)
        return self._key_pools[layer].joined(stored.keys), self._value_pools[layer].joined(stored.values)

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
    moves = work.moves
    if moves is not None:
        run = work.run
        if run is not None:  # written as in `update_and_fetch`, and nothing else but to copy aside
            keys, values = key_pool.array, value_pool.array  # type: ignore[union-attr]
            keys[run] = k
            values[run] = v
            copied = [save_after(key_pool, moves), save_after(value_pool, moves)]  # type: ignore[arg-type]
            keys, values = mx.depends([keys, values], copied)
            return work.spec(keys, values, work.kind, work.mask)
        write, read = Run(work.at, work.shape[2]), Run(work.start, work.span)
        keys, values = serve((key_pool, value_pool), moves, (k, v), write, read, work.most)
        return work.spec(keys, values, work.kind, work.mask)
    for pool, update in ((key_pool, k), (value_pool, v)):
        if work.index is not None:
            pool.place(work.index, update)
        else:
            pool.write(work.at, update)
    if work.kind is MaskKind.APART:
        return AttendSpec(k, v, work.kind, None)
    return _fetched(key_pool, value_pool, work)


def _fetched(key_pool: Pool | QuantizedPool, value_pool: Pool | QuantizedPool, work: LayerWork) -> AttendSpec:
    if work.batch is not None:
        rows = work.batch.rows(key_pool.n_kv_heads, key_pool.slots)
        return AttendSpec(key_pool.gather(rows), value_pool.gather(rows), work.kind, work.mask)
    cells = work.start, work.span
    keys, values = key_pool.read(*cells), value_pool.read(*cells)
    if work.clean is not None:
        keys, values = work.clean(keys), work.clean(values)
    return work.spec(keys, values, work.kind, work.mask)


def check_layer(layer: int, n_layers: int) -> None:
    """Refuse a layer that the model does not have with an IndexError; negative ones too."""
    if not 0 <= layer < n_layers:
        raise IndexError(f"layer: got {layer}, expected 0 <= layer < {n_layers}")


def _check_dtypes(k: mx.array, v: mx.array) -> None:
    for name, array in (("k", k), ("v", v)):
        if array.dtype not in _FLOATS:
            raise ValueError(
                f"{name}: got dtype {array.dtype}, expected one of float16, bfloat16 and float32; cast it first"
            )


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
