"""One ring layer's step on its pool of K or of V: the moves that `ring.py` plans, the write and the read.

MLX updates a buffer in place unless the same evaluation, or one that still runs, reads it as it was before. So
what is about to be overwritten is copied aside at the end of the step before, after that step's write, and what
attention is handed depends on the copy: it is made in that step's evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import mlx.core as mx

from mlxcache.kv.storage.pool import Pool
from mlxcache.kv.storage.ring import Copy, Moves, Piece
from mlxcache.kv.storage.run import Run


class Planes(Protocol):
    """What a pool, plain or quantised, is to a ring."""

    @property
    def planes(self) -> tuple[Pool, ...]:
        """The plain pools that hold the bytes."""

    def parts(self, update: mx.array) -> tuple[mx.array, ...]:
        """What each of them stores of an update."""

    def joined(self, parts: Sequence[mx.array]) -> mx.array:
        """What is read where they hold `parts`."""


def serve(pool: Planes, moves: Moves, update: mx.array, write: Run, read: Run, most: int) -> mx.array:
    """Do the moves, store `update`, `[1, H, n, D]`, at `write`, and return what is read: `[1, H, S, D]`.

    A write that is longer than the pool from its start on goes on at slot 0. `most` is `Pool.reserve`'s.
    """
    parts = pool.parts(update)
    return pool.joined(
        [_served(plane, moves, part, write, read, most) for plane, part in zip(pool.planes, parts, strict=True)]
    )


def taken(plane: Pool, pieces: Iterable[Piece]) -> mx.array:
    """The cells of `pieces`, joined."""
    found = [_piece(plane, piece) for piece in pieces]
    return found[0] if len(found) == 1 else mx.concatenate(found, axis=2)


def _served(plane: Pool, moves: Moves, part: mx.array, write: Run, read: Run, most: int) -> mx.array:
    if moves.keep:
        return _joined_to(plane, moves, part)
    if moves.roll:
        plane.roll(moves.roll)
    if moves.aside:
        width = plane.head_dim * plane.dtype.size // plane.wide.size
        plane.aside = mx.zeros((1, plane.n_kv_heads, moves.aside, width), plane.wide)
    _copy_aside(plane, moves.saves)
    if moves.lay:
        _lay(plane, moves)
    plane.reserve(read.stop, most)
    cells = plane.array
    for run, to in moves.restores:
        cells[:, :, to : to + run.length] = _aside(plane, run)
    first = min(write.length, read.stop - write.start)
    if first == write.length:
        cells[:, :, write.start : write.stop] = part
    else:
        cells[:, :, write.start : write.start + first] = part[:, :, :first]
        cells[:, :, : write.length - first] = part[:, :, first:]
    _copy_aside(plane, moves.after)
    if plane.aside is not None and (moves.after or moves.aside):
        (cells,) = mx.depends([cells], [plane.aside])
    return cells[:, :, read.start : read.stop]


def _lay(plane: Pool, moves: Moves) -> None:
    """Lay the pool out anew; whatever was aside goes, unless it was made just now."""
    lay, slots = moves.lay, sum(piece.run.length for piece in moves.lay)
    # A pool that has just the cells, all in their places, and zeros or stale ones behind them.
    in_place = plane.slots == slots and all(
        piece.zeros or (piece.run.start == 0 and not piece.aside and index == 0) for index, piece in enumerate(lay)
    )
    if not in_place:
        plane.array = taken(plane, lay)
        plane.slots = slots
    if not moves.aside:
        plane.aside = None


def _joined_to(plane: Pool, moves: Moves, part: mx.array) -> mx.array:
    """The pieces and the new cells joined; the newest of them are the pool's afterwards."""
    whole = mx.concatenate([*(_piece(plane, piece) for piece in moves.lay), part], axis=2)
    newest = whole[:, :, whole.shape[2] - moves.keep :]
    rest = mx.zeros((1, plane.n_kv_heads, moves.slots - moves.keep, plane.head_dim), plane.dtype)
    plane.array = mx.concatenate([newest, rest], axis=2)
    plane.slots = moves.slots
    plane.aside = None
    return whole


def _piece(plane: Pool, piece: Piece) -> mx.array:
    if piece.zeros:
        return mx.zeros((1, plane.n_kv_heads, piece.run.length, plane.head_dim), plane.dtype)
    return _aside(plane, piece.run) if piece.aside else plane.read(*piece.run)


def _aside(plane: Pool, run: Run) -> mx.array:
    assert plane.aside is not None
    return plane.aside[:, :, run.start : run.stop].view(plane.dtype)


def _copy_aside(plane: Pool, copies: Iterable[Copy]) -> None:
    for run, to in copies:
        assert plane.aside is not None
        wide = plane.array.view(plane.wide)
        plane.aside[:, :, to : to + run.length] = wide[:, :, run.start : run.stop]
