"""Masks over consecutive keys, in order of position or in a turning ring."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np

from mlxcache.kv.spec import MaskKind


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


class TurningMasks:
    """The masks of steps of `count` tokens on a ring of `window + count - 1` cells that is read whole.

    From step to step the same mask turns: it is made once, twice over, and cut where the step's first token lies.
    """

    def __init__(self, window: int, count: int) -> None:
        self.count = count
        self._cells = window + count - 1
        ordered = np.array(band_mask(window, count, self._cells))
        turned = np.roll(ordered, 1 - window, axis=3)  # as if the first token lay at slot 0
        self._twice = mx.array(np.concatenate([turned, turned], axis=3))
        mx.eval(self._twice)

    def at(self, slot: int) -> mx.array:
        """Bool `[1, 1, count, cells]` where the first token lies at `slot`. Not evaluated."""
        cells = self._cells
        return self._twice[:, :, :, cells - slot : 2 * cells - slot]


def run_mask(
    window: int | None, count: int, span: int, band: Callable[[int, int, int], mx.array] = band_mask
) -> tuple[MaskKind, mx.array | None]:
    """The mask of the newest `count` of `span` consecutive tokens; `window` None sees everything.

    `band` makes the mask of a window; a cache may give one that remembers.
    """
    if count == 1:
        return MaskKind.NONE, None
    if window is not None and window < span:
        return MaskKind.EXPLICIT, band(window, count, span)
    return MaskKind.CAUSAL, None
