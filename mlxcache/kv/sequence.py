"""A cache of one sequence: flat layers, ring layers, or both under one length."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from mlxcache.kv.cache import LayerBytes, MLXCache, check_layer
from mlxcache.kv.masks import TurningMasks, band_mask, run_mask
from mlxcache.kv.spec import MaskKind
from mlxcache.kv.step import Gather, LayerWork, Positions, Step, TurningWork, as_int32, position_array
from mlxcache.kv.storage.layout import CacheConfig, Run, SequenceLayout
from mlxcache.kv.storage.ring_moves import taken


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
        members = [[i for i, of in enumerate(layout.group_of) if of == g] for g in range(len(layout.groups))]
        self._members = tuple(map(tuple, members))
        self._windows = [cells.policy.window for cells in layout.groups]
        self._bands: dict[int, mx.array] = {}
        self._turning_masks: dict[int, TurningMasks] = {}

    @property
    def length(self) -> int:
        """Tokens in the sequence."""
        return self._layout.length

    def can_extend(self, count: int) -> bool:
        """Whether `count` more tokens fit the capacity."""
        return self._layout.can_extend(count)

    def rewind(self, new_len: int) -> bool:
        """Forget the positions from `new_len` on; False, and nothing changed, where that cannot be.

        A ring layer can go back `max_rewind` tokens from the highest position ever written (the cells before
        may be overwritten), or to 0; a flat one to any length.
        """
        self._forget_step()
        if not self._layout.rewind(new_len):
            return False
        if new_len == 0:
            self._begin_again()
        return True

    def clear(self) -> None:
        """Forget every token; the storage is kept, but for what a ring layer has aside."""
        self._forget_step()
        self._bands.clear()
        self._turning_masks.clear()
        self._layout.clear()
        self._begin_again()

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

        Not evaluated. Cells that are one run come as a view, which pins the layer's whole pool: drop it before the
        next step is evaluated, or that step copies the pool; `mx.contiguous` makes a copy that pins nothing.
        """
        check_layer(layer, self._n_layers)
        self._settle()
        oldest, pieces = self._layout.held(layer)
        pools = self._key_pools[layer], self._value_pools[layer]
        keys, values = (tuple(taken(plane, pieces) for plane in pool.planes) for pool in pools)
        return oldest, LayerBytes(keys, values)

    def restore(self, written: int, length: int, layers: Sequence[tuple[int, LayerBytes]]) -> None:
        """Hold what another cache of the same config held, rewinds included, by its `held` of every layer.

        Raises ValueError for another number of layers, cells or sizes, and nothing has changed then.
        """
        self._check_bytes([stored for _, stored in layers], [length - oldest for oldest, _ in layers])
        self._layout.restore(length, written, [oldest for oldest, _ in layers])
        self._forget_step()
        self._begin_again()
        for layer, (oldest, stored) in enumerate(layers):
            if length > oldest:
                self._put_back(layer, Run(0, length - oldest), stored)

    def _step_of(self, layer: int, positions: Positions, gather: Gather) -> Step:
        """See `MLXCache._step_of`; the positions are one run that starts at most at `length`.

        Raises ValueError, beyond what `update_and_fetch` says, for a gap, a negative start, and a start that a
        ring layer no longer holds.
        """
        check_layer(layer, self._n_layers)
        # A step that goes on as the last one did takes no NumPy: between two steps of a model its code falls out
        # of the CPU's caches, and what takes 10 us in a loop takes 100.
        step, count = self._step, len(positions)
        if count == 1 and type(positions[0]) is int:
            start, raw = positions[0], b""
            if start == step.first + step.count and self._moves_on(step, 1, gather):
                step.advance(self._windows, self._layout.group_of)
                return step
        else:
            if self._moves_on(step, count, gather):
                following = array("i", range(step.first + count, step.first + 2 * count)).tobytes()
                if as_int32(positions) == following:
                    step.advance(self._windows, self._layout.group_of, following)
                    return step
            given = position_array(positions)
            start = int(given[0])
            if start > self.capacity:  # refused here, since NumPy may not count so far
                self._layout.check(start, count)
            run = np.arange(start, start + count)
            if not np.array_equal(given, run):
                index = int(np.flatnonzero(given != run)[0])
                raise ValueError(
                    f"positions[{index}]: got {int(given[index])}, expected {start + index}: "
                    f"the positions of one step are one run that starts at positions[0]={start}"
                )
            raw = run.astype(np.int32).tobytes()
        self._layout.check(start, count)
        self._settle()
        step = self._step = Step(start, count, raw, gather, self._n_layers)
        return step

    def _work_of(self, step: Step, layer: int) -> LayerWork:
        layout = self._layout
        if step.moved or layer in step.planned:
            self._again(step)
        group, lies = layout.group_of[layer], layout.lies(layer)
        cells = layout.groups[group]
        window = cells.policy.window
        plan = layout.plan(layer, step.first, step.count, self._any_order(step, window))
        work: LayerWork
        if plan.turning is None or window is None:
            kind, mask = run_mask(window, step.count, plan.read.length, self._band)
            work = LayerWork(cells, step.count, plan.write, plan.read, kind, mask, plain=self._plain)
            work.take(plan, window)
        else:
            masks = self._masks_of(window, step.count)
            kind, mask = (MaskKind.EXPLICIT, masks.at(plan.write.start)) if masks else (MaskKind.NONE, None)
            work = TurningWork(cells, step.count, plan.write, plan.read, kind, mask, plain=self._plain)
            work.turn(plan, layout.ring_of(layer), layout.written, masks)
        # The layers of a kind do the same, but for one that has missed a step, or has served this one already.
        works, members = step.works, self._members[group]
        alike = [other for other in members if layout.lies(other) == lies]
        for other in alike:
            works[other] = work
        step.planned.update(alike)
        if not step.kinds:
            step.kinds = [None] * len(layout.groups)
        step.kinds[group] = work if len(alike) == len(members) else None
        return work

    def _again(self, step: Step) -> None:
        """A served layer is asked for the same step again: work out anew what each of them does."""
        self._settle()
        step.works = [None] * self._n_layers
        step.kinds = []
        step.planned.clear()
        step.uniform.clear()
        step.moved = False

    def _any_order(self, step: Step, window: int | None) -> bool:
        """Whether the step's cells of a window may come as they are stored."""
        if window is None or step.gather is Gather.NEVER:
            return False
        if step.count == 1:
            return True
        # A model asks one layer for the mask of all of a window: it fits if they lie alike, or are read in order.
        uniform = step.uniform.get(window)
        if uniform is None:
            layout = self._layout
            layers = [i for i, of in enumerate(layout.group_of) if layout.groups[of].policy.window == window]
            uniform = step.uniform[window] = all(layout.lies(i) == layout.lies(layers[0]) for i in layers)
        return uniform

    def _masks_of(self, window: int, count: int) -> TurningMasks | None:
        """The masks of a turning ring; none for one token."""
        if count == 1:
            return None
        masks = self._turning_masks.get(window)
        if masks is None or masks.count != count:
            masks = self._turning_masks[window] = TurningMasks(window, count)
        return masks

    def _commit(self, step: Step, layer: int, work: LayerWork) -> None:
        layout = self._layout
        layout.commit(layer, work.origin, step.first + step.count, work.turning)
        if not step.committed:
            layout.went(step.first, step.count)
            step.committed = True

    def _moves_on(self, step: Step, count: int, gather: Gather) -> bool:
        """Whether the last step is done, and one of `count` tokens that follows does the same further on."""
        layout = self._layout
        # The capacity too: a ring's pool is never full, so that a model of rings alone would decode past it.
        if (
            step.count != count
            or step.gather is not gather
            or step.works.count(None) < self._n_layers
            or layout.length != step.first + count
            or layout.length + count > self.capacity
        ):
            return False
        for work in step.kinds:  # noqa: SIM110 -- `all` would make a generator once a token
            if work is None or work.left <= 0:
                return False
        return True

    def _band(self, window: int, count: int, span: int) -> mx.array:
        """One mask per window and shape: layers share it, and so do steps, since decoding repeats the shape."""
        band = self._bands.get(window)
        if band is None or band.shape != (1, 1, count, span):
            band = self._bands[window] = band_mask(window, count, span)
        return band

    def _settle(self) -> None:
        """Let the layout know how each turning ring lies after steps that were not planned."""
        step = self._step
        if step.moved:
            for work, members in zip(step.kinds, self._members, strict=True):
                if isinstance(work, TurningWork):
                    lies = work.lies()
                    for layer in members:
                        self._layout.turning[layer] = lies[step.works[layer] is None]

    def _begin_again(self) -> None:
        for pool in (*self._key_pools, *self._value_pools):
            for plane in pool.planes:
                plane.begin_again()

    def _forget_step(self) -> None:
        self._settle()
        self._step = Step(-1, -1, b"", Gather.NEVER, self._n_layers)
