"""One sequence's cells in order of position: host integers only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class CellOrder:
    """Cells with their ascending positions; what is handed out stays as it is while newer ones are appended.

    A step of a batch asks for every sequence's cells: kept in order, since looking for them among the cells of
    all and sorting them took as long as two layers' attention to 256 tokens.
    """

    def __init__(self, cells: np.ndarray, positions: np.ndarray) -> None:
        self._cells = cells
        self._positions = positions
        self.count: int = cells.size

    @classmethod
    def none(cls) -> CellOrder:
        """That of a sequence without cells."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int32))

    @property
    def cells(self) -> np.ndarray:
        """All cells, int64 `[count]`; not to be written."""
        return self._cells[: self.count]

    @property
    def positions(self) -> np.ndarray:
        """All positions, int32 `[count]`; not to be written."""
        return self._positions[: self.count]

    def append(self, cells: Sequence[int] | np.ndarray | int, positions: Sequence[int] | int, count: int) -> None:
        """Add `count` cells with newer positions."""
        stop = self.count + count
        if stop > self._cells.size:
            room = max(64, 2 * stop)
            self._cells = _grown(self.cells, room)
            self._positions = _grown(self.positions, room)
        where: int | slice = self.count if count == 1 else slice(self.count, stop)
        self._cells[where] = cells
        self._positions[where] = positions
        self.count = stop

    def between(self, after: int | None, before: int) -> tuple[np.ndarray, np.ndarray]:
        """Cells and positions with `after < position < before`; None is no bound."""
        positions = self.positions
        stop = self.count
        if stop and positions[-1] >= before:
            stop = int(np.searchsorted(positions, before, "left"))
        start = 0 if after is None else int(np.searchsorted(positions[:stop], after, "right"))
        return self._cells[start:stop], positions[start:stop]


def _grown(kept: np.ndarray, room: int) -> np.ndarray:
    grown = np.empty(room, kept.dtype)
    grown[: kept.size] = kept
    return grown
