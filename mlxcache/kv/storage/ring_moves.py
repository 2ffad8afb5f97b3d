"""One ring layer's step on its pools of K and of V: the moves that `ring.py` plans, the write and the read.

MLX updates a buffer in place unless the same evaluation, or one that still runs, reads it as it was before. So
what is about to be overwritten is copied aside at the end of the step before, after that step's write, and what
attention is handed depends on the copy: it is made in that step's evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

import mlx.core as mx
import numpy as np

from mlxcache.kv.storage.pool import Pool, row_index
from mlxcache.kv.storage.ring import Moves, Piece, Save
from mlxcache.kv.storage.run import Run, cyclic


class Planes(Protocol):
    """What a pool, plain or quantised, is to a ring."""

    @property
    def planes(self) -> tuple[Pool, ...]:
        """The plain pools that hold the bytes."""

    def parts(self, update: mx.array) -> tuple[mx.array, ...]:
        """What each of them stores of an update."""

    def joined(self, parts: Sequence[mx.array]) -> mx.array:
        """What is read where they hold `parts`."""


def serve(
    pools: Sequence[Planes], moves: Moves, updates: Sequence[mx.array], write: Run, read: Run, most: int
) -> list[mx.array]:
    """Do the moves, store each pool's update, `[1, H, n, D]`, at `write`, and return what is read: `[1, H, S, D]`.

    A write that is longer than the pool from its start on goes on at slot 0. `most` is `Pool.reserve`'s.
    """
    found: list[mx.array] = []
    copied: list[mx.array] = []
    for pool, update in zip(pools, updates, strict=True):
        for plane, part in zip(pool.planes, pool.parts(update), strict=True):
            found.append(_served(plane, moves, part, write, read, most, copied))
    if copied:
        found = mx.depends(found, copied)
    each = len(found) // len(pools)
    return [pool.joined(found[i * each : (i + 1) * each]) for i, pool in enumerate(pools)]


def taken(plane: Pool, pieces: Iterable[Piece]) -> mx.array:
    """The cells of `pieces`, joined."""
    found = [part for piece in pieces for part in _piece(plane, piece)]
    return found[0] if len(found) == 1 else mx.concatenate(found, axis=2)


def _served(
    plane: Pool, moves: Moves, part: mx.array, write: Run, read: Run, most: int, copied: list[mx.array]
) -> mx.array:
    """One plane's step; what it copies aside, which is to be evaluated with the rest, is added to `copied`."""
    if moves.keep:
        return _joined_to(plane, moves, part)
    written = False
    if moves.roll:
        plane.roll(moves.roll)
    if moves.lay:
        saved = [_saved(plane, save) for save in moves.saves]
        copied += [cells for _, cells in saved]
        written = _lay(plane, moves.lay, part, write)
        plane.aside = saved
    plane.reserve(read.stop, most)
    cells = plane.array
    if moves.newest is not None:
        _take_back(plane, moves.restores, moves.at, moves.newest)
    first = min(write.length, read.stop - write.start)
    if first < write.length:
        cells[:, :, : write.length - first] = part[:, :, first:]
        part = part[:, :, :first]
    if not written:
        cells[:, :, write.start : write.start + first] = part
    if moves.after is not None:
        copied.append(save_after(plane, moves))
    return cells[...] if read.length == plane.slots else cells[:, :, read.start : read.stop]


def _lay(plane: Pool, lay: Sequence[Piece], part: mx.array, write: Run) -> bool:
    """Lay the pool out anew; whether the step's cells, which end there, are in it."""
    slots = sum(piece.run.length for piece in lay)
    # A pool that has just the cells, all in their places, and zeros or stale ones behind them.
    if plane.slots == slots and all(
        piece.zeros or (piece.run.start == 0 and not piece.aside and index == 0) for index, piece in enumerate(lay)
    ):
        return False
    ends = lay[-1].zeros and write == Run(slots - lay[-1].run.length, lay[-1].run.length)
    found = [each for piece in (lay[:-1] if ends else lay) for each in _piece(plane, piece)]
    plane.array = mx.concatenate([*found, part] if ends else found, axis=2)
    plane.slots = slots
    return ends


def _joined_to(plane: Pool, moves: Moves, part: mx.array) -> mx.array:
    """The pieces and the new cells joined; the newest of them are the pool's afterwards."""
    whole = mx.concatenate([*(each for piece in moves.lay for each in _piece(plane, piece)), part], axis=2)
    plane.array = mx.contiguous(whole[:, :, whole.shape[2] - moves.keep :])
    plane.slots = moves.keep
    plane.aside = []
    return whole


def _piece(plane: Pool, piece: Piece) -> list[mx.array]:
    if piece.zeros:
        return [mx.zeros((1, plane.n_kv_heads, piece.run.length, plane.head_dim), plane.dtype)]
    return _aside(plane, piece.run) if piece.aside else [plane.read(*piece.run)]


def _aside(plane: Pool, positions: Run) -> list[mx.array]:
    """The cells aside of these positions, in order."""
    found, at = [], positions.start
    for first, cells in plane.aside:
        stop = min(first + cells.shape[2], positions.stop)
        if stop > at:
            found.append(
                cells if (at, stop - first) == (first, cells.shape[2]) else cells[:, :, at - first : stop - first]
            )
            at = stop
    return found


def save_after(plane: Pool, moves: Moves) -> mx.array:
    """Copy what the moves say aside, as the plane is now, and forget what they say; the copy, not evaluated."""
    aside = plane.aside
    while aside and aside[0][0] + aside[0][1].shape[2] <= moves.oldest:
        del aside[0]
    assert moves.after is not None
    aside.append(_saved(plane, moves.after))
    return aside[-1][1]


def _saved(plane: Pool, save: Save) -> tuple[int, mx.array]:
    first, count, slot = save
    return first, plane.gather(_rows(plane.n_kv_heads, plane.slots, slot, count))


@lru_cache(maxsize=1024)
def _rows(heads: int, slots: int, slot: int, count: int) -> mx.array:
    """The index that `Pool.gather` takes of so many cells from `slot` on: layers and laps ask for the same."""
    rows = row_index(np.arange(slot, slot + count)[None] % slots, heads, slots)
    mx.eval(rows)  # a lazy array belongs to the stream of the thread that made it; this one stays for others
    return rows


def _take_back(plane: Pool, restores: Run, at: int, newest: int) -> None:
    """Bring what was overwritten back to the slots from `at` on, and forget what lies aside from `newest` on."""
    if restores.length:
        cells = taken(plane, [Piece(restores, aside=True)])
        start = 0
        for run in cyclic(at, restores.length, plane.slots):
            plane.array[:, :, run.start : run.stop] = cells[:, :, start : start + run.length]
            start += run.length
    while plane.aside and plane.aside[-1][0] >= newest:
        del plane.aside[-1]
    if plane.aside:
        first, cells = plane.aside[-1]
        if first + cells.shape[2] > newest:
            plane.aside[-1] = first, mx.contiguous(cells[:, :, : newest - first])
