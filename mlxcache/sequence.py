"""A cache of one sequence: flat layers, ring layers, or both under one length."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from mlxcache.cache import AttendSpec, MaskKind, MLXCache, Positions, check_cells, check_layer, position_array
from mlxcache.layout import CacheConfig, LayerConfig, SequenceLayout, StepPlan

_FULL = slice(None)


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
        self._n_layers = config.n_layers
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

    def update_and_fetch(self, layer: int, positions: Positions, k: mx.array, v: mx.array) -> AttendSpec:
        """See `MLXCache.update_and_fetch`; the positions are one run that starts at most at `length`.

        Raises ValueError, beyond what the base class says, for a gap, a negative start, and a start that a ring
        layer no longer holds.
        """
        if not 0 <= layer < self._n_layers:
            check_layer(layer, self._n_layers)
        step = self._step
        count = len(positions)
        if count != step.count or positions[0] != step.start or (count > 1 and not step.is_run(positions)):
            step = self._next_step(positions)
        layout = self._layout
        group = self._group_of[layer]
        served = step.served[group]
        if served is None or layout.origins[layer] != served.origin:
            served = self._serve(step, layer)
        shape = served.shape
        if k.shape != shape or v.shape != shape:
            check_cells(k, v, layout.groups[group], count)
        # Every check is behind us: from here on the step is done whole.
        key_pool = self._key_pools[layer]
        value_pool = self._value_pools[layer]
        if served.slots > key_pool.slots or served.plan.roll:
            for pool in (key_pool, value_pool):
                if served.plan.roll:
                    pool.roll(served.plan.roll)
                pool.reserve(served.slots)
        keys = key_pool.array
        values = value_pool.array
        keys[served.write] = k
        values[served.write] = v
        if layout.length < step.stop or served.plan.roll:
            layout.commit(layer, served.plan)
        self._step = step
        return AttendSpec(keys[served.read], values[served.read], served.kind, served.mask)

    def _next_step(self, positions: Positions) -> _Step:
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
        served = _Served(plan, layout.origins[layer], cells, kind, mask)
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


class _Served:
    """A plan in the form that the layers of one group use it: ready index objects, the shape to expect."""

    __slots__ = ("kind", "mask", "origin", "plan", "read", "shape", "slots", "write")

    def __init__(
        self, plan: StepPlan, origin: int, cells: LayerConfig, kind: MaskKind, mask: mx.array | None
    ) -> None:
        self.plan = plan
        self.origin = origin  # of the layers that this plan suits, before a roll
        self.shape = (1, cells.n_kv_heads, plan.tokens, cells.head_dim)
        self.slots = plan.read.stop
        # MLX indexes 20 % faster with (:, :, run) than with (..., run, :).
        self.write = (_FULL, _FULL, slice(plan.write.start, plan.write.stop))
        self.read = (_FULL, _FULL, slice(plan.read.start, plan.read.stop))
        self.kind = kind
        self.mask = mask


def band_mask(window: int, count: int, span: int) -> mx.array:
    """Which of `span` keys, oldest first, each of the newest `count` queries sees through a window.

    Returns bool `[1, 1, count, span]`, true where `span - count - window < j - i <= span - count`. Made on the
    host from one row, and evaluated: a mask that outlives its step must not hang on the stream that made it.
    """
    row = np.zeros(span + count - 1, dtype=np.bool_)
    newest = span - count  # what query 0 sees last
    offset = count - 1  # row[offset + j - i]
    row[max(0, offset + newest - window + 1) : offset + newest + 1] = True
    rows = np.lib.stride_tricks.as_strided(row[offset:], (count, span), (-row.itemsize, row.itemsize))
    return mx.array(rows.copy()[None, None])  # mlx takes no negative strides
