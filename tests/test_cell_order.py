"""The order of one sequence's cells: what it hands out, and what becomes of that."""

from __future__ import annotations

import numpy as np

from mlxcache.kv.storage.cell_order import CellOrder


def test_what_was_handed_out_stays_as_it_was() -> None:
    """Cells and positions read before an append are the same after it, within the room and past it."""
    order = CellOrder.none()
    for step in range(200):
        cells, positions = order.cells, order.positions
        before = cells.copy(), positions.copy()
        order.append(1000 - step, step, 1)
        assert np.array_equal(cells, before[0])
        assert np.array_equal(positions, before[1])
    assert order.cells.tolist() == list(range(1000, 800, -1))
    assert order.positions.tolist() == list(range(200))


def test_cells_between_positions_are_those_a_filter_finds() -> None:
    """`between` leaves out both bounds, wherever they lie among positions with gaps."""
    positions = np.array([0, 1, 5, 6, 9], np.int32)
    order = CellOrder.none()
    order.append(np.arange(5), positions, 5)
    for after in (None, *range(-2, 12)):
        for before in range(12):
            seen = positions < before
            if after is not None:
                seen &= positions > after
            cells, at = order.between(after, before)
            assert cells.tolist() == np.flatnonzero(seen).tolist(), (after, before)
            assert at.tolist() == positions[seen].tolist(), (after, before)
