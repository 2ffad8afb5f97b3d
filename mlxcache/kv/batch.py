"""The sequences of one step, each with its own cells alone: together as a batch, or one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from mlxcache.kv.masks import run_mask
from mlxcache.kv.spec import MaskKind
from mlxcache.kv.storage.cell_layout import SequenceCells, as_run
from mlxcache.kv.storage.layout import Run
from mlxcache.kv.storage.pool import Pool, row_index
from mlxcache.kv.storage.quantized_pool import QuantizedPool

# Cells to read: as one run, or as an index for `Pool.gather`.
Cells = Run | mx.array


class SequenceRead(NamedTuple):
    """What one sequence of a step attends to.

    `tokens` says which of the step's tokens are its queries. `parts` are keys and values `[1, H, n, D]`, in order
    of position; where there is one query they may come as two parts and in any order, which is the same to it.
    """

    tokens: Sequence[int]
    parts: list[tuple[mx.array, mx.array]]
    kind: MaskKind
    mask: mx.array | None


class Batch:
    """What the layers of one window read of a step's sequences, worked out when it is first asked for.

    Args:
        each: the sequences.
        window: of the layers, None for all.
    """

    def __init__(self, each: list[SequenceCells], window: int | None) -> None:
        self._each = each
        self._window = window
        first = each[0].tokens.size
        #: Tokens of each sequence, where all have as many and those of one stand together; else None.
        self.count: int | None = first
        for index, (tokens, _, _) in enumerate(each):
            start = index * first
            if tokens.size != first or tokens[0] != start or tokens[-1] != start + first - 1:
                self.count = None
        #: Keys of the longest sequence, S.
        self.span = max(sequence.cells.size for sequence in each)
        self._rows: dict[tuple[int, int], mx.array] = {}
        self._cells: dict[tuple[int, int, bool], list[list[Cells]]] = {}
        self._masks: list[tuple[MaskKind, mx.array | None]] = []

    def mask(self) -> tuple[MaskKind, mx.array | None]:
        """The mask of all as a batch: bool `[B, 1, t, S]` where it is explicit. For a `count` that is not None."""
        each, count, span = self._each, self.count, self.span
        assert count is not None
        if all(mask is None and cells.size == span for _, cells, mask in each):
            return run_mask(self._window, count, span)
        seen = np.zeros((len(each), 1, count, span), np.bool_)
        newest = np.arange(count)[:, None]
        for row, (_, cells, mask) in zip(seen, each, strict=True):
            if mask is None:  # consecutive positions: the causal rule and the window
                at = np.arange(-cells.size + count, count)
                mask = at <= newest
                if self._window is not None:
                    mask &= at > newest - self._window
            row[0, :, span - cells.size :] = mask
        return MaskKind.EXPLICIT, mx.array(seen)

    def rows(self, n_kv_heads: int, slots: int) -> mx.array:
        """The index of all cells as `Pool.gather` takes it, of pools of so many heads and slots.

        A short row is padded in front with a cell of its own, so that it reads no other sequence's.
        """
        key = n_kv_heads, slots
        if key not in self._rows:
            rows = np.empty((len(self._each), self.span), np.int64)
            for row, (_, cells, _) in zip(rows, self._each, strict=True):
                row[: self.span - cells.size] = cells[0]
                row[self.span - cells.size :] = cells
            self._rows[key] = row_index(rows, n_kv_heads, slots)
        return self._rows[key]

    def read(
        self, keys: Pool | QuantizedPool, values: Pool | QuantizedPool, *, ordered: bool
    ) -> list[SequenceRead]:
        """Each sequence's cells from these pools, a run as a view where the pools are plain.

        `ordered` wants one part of each, in order of position: then what is no run is copied.
        """
        found = []
        cells = self._parts(keys.n_kv_heads, keys.slots, ordered)
        for (tokens, _, _), parts, (kind, mask) in zip(self._each, cells, self._masks_of_each(), strict=True):
            read = [(_read(keys, part), _read(values, part)) for part in parts]
            found.append(SequenceRead(tokens.tolist(), read, kind, mask))
        return found

    def _parts(self, n_kv_heads: int, slots: int, ordered: bool) -> list[list[Cells]]:
        key = n_kv_heads, slots, ordered
        if key not in self._cells:
            self._cells[key] = [
                [
                    as_run(part) or row_index(part[None], n_kv_heads, slots)
                    for part in ([cells] if ordered or tokens.size > 1 else _split(cells))
                ]
                for tokens, cells, _ in self._each
            ]
        return self._cells[key]

    def _masks_of_each(self) -> list[tuple[MaskKind, mx.array | None]]:
        if not self._masks:
            self._masks = [
                run_mask(self._window, tokens.size, cells.size)
                if mask is None
                else (MaskKind.EXPLICIT, mx.array(mask[None, None]))
                for tokens, cells, mask in self._each
            ]
        return self._masks


def _split(cells: np.ndarray) -> list[np.ndarray]:
    """The longest run apart from the rest, where it is most of the cells: it is then read where it lies."""
    breaks = np.flatnonzero(np.diff(cells) != 1) + 1
    if not breaks.size:
        return [cells]
    starts = np.concatenate([[0], breaks])
    lengths = np.diff(np.concatenate([starts, [cells.size]]))
    longest = int(lengths.argmax())
    start, length = int(starts[longest]), int(lengths[longest])
    if 2 * length < cells.size:
        return [cells]
    return [cells[start : start + length], np.concatenate([cells[:start], cells[start + length :]])]


def _read(pool: Pool | QuantizedPool, cells: Cells) -> mx.array:
    return pool.read(*cells) if isinstance(cells, Run) else pool.gather(cells)
