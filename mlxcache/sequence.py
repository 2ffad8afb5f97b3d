"""A cache of one sequence: flat layers, ring layers, or both under one length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from mlxcache.cache import (
    AttendSpec,
    LayerBytes,
    LayerWork,
    MaskKind,
    MLXCache,
    Positions,
    StepMask,
    check_layer,
    position_array,
)
from mlxcache.layout import CacheConfig, Run, SequenceLayout, StepPlan
from mlxcache.masks import band_mask


class MLXSequenceCache(MLXCache):
    """One contiguous run of positions per step, over all layers of a model.

        cache = MLXSequenceCache(config)
        for layer in range(n_layers):
            spec = cache.update_and_fetch(layer, positions, k[layer], v[layer])

    What is the same for every layer of a step (checks of the positions, plan, index objects, mask) is done for
    the first layer of each kind and reused by the others.
    """

    def __init__(self, config: CacheConfig) -> None:
        layout = SequenceLayout(config)
        super().__init__(config, [layout.max_slots(layer) for layer in range(config.n_layers)])
        self._layout = layout
        self._group_of = layout.group_of
        self._step = _Step(-1, -1, b"", len(layout.groups))
        self._bands: dict[int, mx.array] = {}

    @property
    def length(self) -> int:
        """Tokens in the sequence."""
        return self._layout.length

    def can_extend(self, count: int) -> bool:
        """Whether `count` more tokens fit the capacity."""
        return self._layout.can_extend(count)

    def rewind(self, new_len: int) -> bool:
        """Forget the positions from `new_len` on; False, and nothing changed, where that cannot be.

        A ring layer can go back `max_write` tokens from the highest position ever written (the cells before
        may be overwritten), or to 0; a flat one to any length.
        """
        self._forget_step()
        return self._layout.rewind(new_len)

    def clear(self) -> None:
        """Forget every token; the storage is kept."""
        self._forget_step()
        self._bands.clear()
        self._layout.clear()

    @property
    def oldest_restart(self) -> int:
        """The lowest `new_len` above 0 that `rewind` takes: 0 where it takes them all."""
        return self._layout.oldest_restart()

    @property
    def written(self) -> int:
        """One more than the highest position written since the cache was last empty."""
        return self._layout.written

    def held(self, layer: int) -> tuple[int, LayerBytes]:
        """What `restore` needs of a layer: the oldest position, and the cells from it to the newest.

        Not evaluated. Drop it before the next step is evaluated, or that step copies the pool.
        """
        check_layer(layer, self._n_layers)
        oldest, runs = self._layout.held(layer)
        return oldest, self._held(layer, runs)

    def restore(self, written: int, length: int, layers: Sequence[tuple[int, LayerBytes]]) -> None:
        """Hold what another cache of the same config held, rewinds included, by its `held` of every layer.

        Raises ValueError for another number of layers, cells or sizes, and nothing has changed then.
        """
        self._check_bytes([stored for _, stored in layers], [length - oldest for oldest, _ in layers])
        self._layout.restore(length, written, [oldest for oldest, _ in layers])
        self._forget_step()
        for layer, (oldest, stored) in enumerate(layers):
            if length > oldest:
                self._put_back(layer, Run(0, length - oldest), stored)

    def update_and_fetch(self, layer: int, positions: Positions, k: mx.array, v: mx.array) -> AttendSpec:
        """See `MLXCache.update_and_fetch`; the positions are one run that starts at most at `length`.

        Raises ValueError, beyond what the base class says, for a gap, a negative start, and a start that a ring
        layer no longer holds.
        """
        step = self._step
        count = len(positions)
        if (
            not 0 <= layer < self._n_layers
            or count != step.count
            or positions[0] != step.start
            or (count > 1 and not step.is_run(positions))
        ):
            check_layer(layer, self._n_layers)
            step = self._next_step(positions)
        layout = self._layout
        served = step.served[self._group_of[layer]]
        if served is None or layout.origins[layer] != served.origin:
            served = self._serve(step, layer)
        spec = self._store(layer, served.work, k, v)
        if layout.length < step.stop or served.work.roll:
            layout.commit(layer, served.plan)
        self._step = step
        return spec

    def mask_for(self, layer: int, positions: Positions, gather: bool = False) -> StepMask:
        """See `MLXCache.mask_for`."""
        check_layer(layer, self._n_layers)
        step = self._next_step(positions)
        work = self._serve(step, layer).work
        return StepMask(work.kind, work.mask, work.span)

    def _next_step(self, positions: Positions) -> _Step:
        if len(positions) == 1 and type(positions[0]) is int:
            # A decode step without NumPy: between two steps of a model its code falls out of the CPU's caches,
            # and what takes 10 us in a loop takes 100.
            self._layout.check(positions[0], 1)
            return _Step(positions[0], 1, b"", len(self._layout.groups))
        array = position_array(positions)
        start, count = int(array[0]), len(array)
        run = np.arange(start, start + count)
        if not np.array_equal(array, run):
            index = int(np.flatnonzero(array != run)[0])
            raise ValueError(
                f"positions[{index}]: got {int(array[index])}, expected {start + index}: "
                f"the positions of one step are one run that starts at positions[0]={start}"
            )
        self._layout.check(start, count)
        return _Step(start, count, run.astype(np.int32).tobytes(), len(self._layout.groups))

    def _serve(self, step: _Step, layer: int) -> _Served:
        layout = self._layout
        group = layout.group_of[layer]
        cells = layout.groups[group]
        plan = layout.plan(layer, step.start, step.count)
        window = cells.policy.window
        kind, mask = MaskKind.CAUSAL, None
        if step.count == 1:
            kind = MaskKind.NONE
        elif window is not None and window < plan.read.length:
            kind, mask = MaskKind.EXPLICIT, self._band(window, step.count, plan.read.length)
        work = LayerWork(cells, step.count, plan.write, plan.read, kind, mask, plan.roll)
        served = _Served(plan, layout.origins[layer], work)
        step.served[group] = served
        return served

    def _band(self, window: int, count: int, span: int) -> mx.array:
        """One mask per window and shape: layers share it, and so do steps, since decoding repeats the shape."""
        band = self._bands.get(window)
        if band is None or band.shape != (1, 1, count, span):
            band = self._bands[window] = band_mask(window, count, span)
        return band

    def _forget_step(self) -> None:
        self._step = _Step(-1, -1, b"", len(self._layout.groups))


class _Step:
    """A checked run of positions and what has been worked out for it so far."""

    __slots__ = ("count", "raw", "served", "start", "stop")

    def __init__(self, start: int, count: int, raw: bytes, n_groups: int) -> None:
        self.start = start
        self.count = count
        self.stop = start + count
        self.raw = raw  # the run as int32, to know it again without looking at every entry
        self.served: list[_Served | None] = [None] * n_groups

    def is_run(self, positions: Positions) -> bool:
        """Whether `positions` are this step's, entry by entry."""
        if isinstance(positions, memoryview):
            return positions.tobytes() == self.raw
        return np.array_equal(np.asarray(positions), np.arange(self.start, self.stop))


class _Served(NamedTuple):
    """A plan and its work, for the layers of one group whose pool begins at position `origin`."""

    plan: StepPlan
    origin: int
    work: LayerWork
