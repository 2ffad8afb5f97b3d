"""The sequences of one step, each with its own cells: together as a batch, or one at a time."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from mlxcache.kv.masks import run_mask
from mlxcache.kv.spec import MaskKind
from mlxcache.kv.storage.cell_layout import CellRows, as_run
from mlxcache.kv.storage.layout import Run
from mlxcache.kv.storage.pool import row_index


class Batch:
    """What the layers of one window read of B sequences, worked out when it is first asked for.

    Args:
        rows: the cells of each sequence.
        window: of the layers, None for all.
        count: tokens of each sequence, t.
    """

    def __init__(self, rows: CellRows, window: int | None, count: int) -> None:
        self._rows = rows
        self._window = window
        self._count = count
        self._whole: dict[tuple[int, int], mx.array] = {}
        self._each: dict[tuple[int, int], list[Run | mx.array]] = {}
        self._masks: list[tuple[MaskKind, mx.array | None]] = []

    @property
    def span(self) -> int:
        """Keys of each sequence, S, padding included."""
        return int(self._rows.cells.shape[1])

    def mask(self) -> tuple[MaskKind, mx.array | None]:
        """The mask of all: bool `[B, 1, t, S]` where it is explicit."""
        mask = self._rows.mask
        if mask is not None:
            return MaskKind.EXPLICIT, mx.array(mask[:, None])
        return run_mask(self._window, self._count, self.span)

    def index(self, n_kv_heads: int, slots: int) -> mx.array:
        """The index of all cells in pools of so many heads and slots: see `Pool.gather`."""
        key = n_kv_heads, slots
        if key not in self._whole:
            self._whole[key] = row_index(self._rows.cells, n_kv_heads, slots)
        return self._whole[key]

    def cells_of_each(self, n_kv_heads: int, slots: int) -> list[Run | mx.array]:
        """The cells of each sequence, without padding: as a run where they are one, else as an index."""
        key = n_kv_heads, slots
        if key not in self._each:
            self._each[key] = [
                as_run(row) or row_index(row[None], n_kv_heads, slots)
                for row in map(self._row, range(len(self._rows.lengths)))
            ]
        return self._each[key]

    def masks_of_each(self) -> list[tuple[MaskKind, mx.array | None]]:
        """The mask of each sequence: bool `[1, 1, t, n]` over its n cells where it is explicit."""
        if not self._masks:
            rows = self._rows
            for index, (length, whole) in enumerate(zip(rows.lengths, rows.consecutive, strict=True)):
                if whole or rows.mask is None:
                    self._masks.append(run_mask(self._window, self._count, length))
                    continue
                seen = rows.mask[index, :, self.span - length :]
                hidden = not seen.all()
                self._masks.append(
                    (MaskKind.EXPLICIT, mx.array(seen[None, None])) if hidden else (MaskKind.NONE, None)
                )
        return self._masks

    def _row(self, index: int) -> np.ndarray:
        return self._rows.cells[index, self.span - self._rows.lengths[index] :]
