"""A cache of one sequence: flat layers, ring layers, or both under one length."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from mlxcache.kv.cache import LayerBytes, MLXCache, check_layer
from mlxcache.kv.masks import band_mask, run_mask
from mlxcache.kv.step import Gather, LayerWork, Positions, Step, position_array
from mlxcache.kv.storage.layout import CacheConfig, Run, SequenceLayout


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
        turns = layout.turns()
        self._windows = [window for window, _ in turns]
        self._turns = [slots for _, slots in turns]
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

        Not evaluated. Cells that are one run come as a view, which pins the layer's whole pool: drop it before the
        next step is evaluated, or that step copies the pool; `mx.contiguous` makes a copy that pins nothing.
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

    def _step_of(self, layer: int, positions: Positions, gather: Gather) -> Step:
        """See `MLXCache._step_of`; the positions are one run that starts at most at `length`.

        Raises ValueError, beyond what `update_and_fetch` says, for a gap, a negative start, and a start that a
        ring layer no longer holds.
        """
        check_layer(layer, self._n_layers)
        if len(positions) == 1 and type(positions[0]) is int:
            # A decode step without NumPy: between two steps of a model its code falls out of the CPU's caches,
            # and what takes 10 us in a loop takes 100.
            start, count, raw = positions[0], 1, b""
            step = self._step
            if start == step.first + 1 and self._moves_on(step):
                step.advance(self._windows, self._layout.group_of)
                step.gather = gather  # one sequence is read in one way
                return step
        else:
            array = position_array(positions)
            start, count = int(array[0]), len(array)
            if start > self.capacity:  # refused here, since NumPy may not count so far
                self._layout.check(start, count)
            run = np.arange(start, start + count)
            if not np.array_equal(array, run):
                index = int(np.flatnonzero(array != run)[0])
                raise ValueError(
                    f"positions[{index}]: got {int(array[index])}, expected {start + index}: "
                    f"the positions of one step are one run that starts at positions[0]={start}"
                )
            raw = run.astype(np.int32).tobytes()
        self._layout.check(start, count)
        step = self._step = Step(start, count, raw, gather, self._n_layers)
        return step

    def _work_of(self, step: Step, layer: int) -> LayerWork:
        layout = self._layout
        group, origin = layout.group_of[layer], layout.origins[layer]
        cells = layout.groups[group]
        plan = layout.plan(layer, step.first, step.count)
        kind, mask = run_mask(cells.policy.window, step.count, plan.read.length, self._band)
        work = LayerWork(
            cells,
            step.count,
            plan.write,
            plan.read,
            kind,
            mask,
            roll=plan.roll,
            origin=plan.origin,
            plain=self._plain,
        )
        # The layers of a kind do the same, but for one that has missed a step, or has served this one already.
        works, origins, members = step.works, layout.origins, self._members[group]
        alike = [other for other in members if origins[other] == origin]
        for other in alike:
            works[other] = work
        if not step.kinds:
            step.kinds = [None] * len(layout.groups)
        step.kinds[group] = work if len(alike) == len(members) else None
        return work

    def _commit(self, step: Step, layer: int, work: LayerWork) -> None:
        self._layout.commit(layer, work.origin, step.first + step.count)
        step.committed = True

    def _moves_on(self, step: Step) -> bool:
        """Whether a decode step is done, and the next one is the same one cell further on in every layer."""
        layout = self._layout
        # The capacity too: a ring's pool is never full, so that a model of rings alone would decode past it.
        if (
            step.count != 1
            or step.works.count(None) < self._n_layers
            or layout.length != step.first + 1
            or layout.length == self.capacity
        ):
            return False
        for work, turn in zip(step.kinds, self._turns, strict=True):
            if work is None or work.stop >= turn:
                return False
        return True

    def _band(self, window: int, count: int, span: int) -> mx.array:
        """One mask per window and shape: layers share it, and so do steps, since decoding repeats the shape."""
        band = self._bands.get(window)
        if band is None or band.shape != (1, 1, count, span):
            band = self._bands[window] = band_mask(window, count, span)
        return band

    def _forget_step(self) -> None:
        self._step = Step(-1, -1, b"", Gather.NEVER, self._n_layers)
