"""Which cell of a shared pool holds which token of which sequences: host integers only, no tensors, no mlx.

A cell holds one token's position and the set of sequences that own it; a cell without an owner is free. Layers
share the placement, so there is one layout for a whole model.

    layout = CellLayout(capacity=4096)
    placement = layout.place(seq_ids, positions)   # pure: raises, or says where the tokens go
    view = layout.view(placement, window=None)     # pure: what the step's queries read and see
    each = layout.each(placement, window=None)     # pure: the same by sequence
    layout.commit(placement)

A set of owners is stored by sequence: one row of booleans over the cells for each sequence in use. The row of a
sequence is then its mask row but for the newest tokens, which makes the mask of a step of 32 sequences a copy
of rows instead of a comparison of every query with every cell. Beside it lie the sequence's cells in order of
position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlxcache.kv.storage.cell_order import CellOrder
from mlxcache.kv.storage.layout import CapacityError, Run

MAX_SEQUENCES = 64
# The next position has to be an int32 too.
MAX_POSITION = 2**31 - 2


class Placement(NamedTuple):
    """Where a step's tokens go, one entry a token.

    `run` is the cells as one run where they are consecutive, else `scattered` lists them; `sequence` is the one
    whose step this is, or None for a step of several; `tail` is that sequence's newest run after the step, of
    consecutive cells with consecutive positions, and `whole` says that it holds the whole sequence; `used_end` is
    one past the highest occupied cell after the step.
    """

    seq_ids: tuple[int, ...]
    positions: tuple[int, ...]
    run: Run | None
    scattered: np.ndarray | None
    sequence: int | None
    tail: Run | None
    whole: bool
    used_end: int

    @property
    def cells(self) -> np.ndarray:
        """The cells, ascending."""
        if self.scattered is not None:
            return self.scattered
        assert self.run is not None
        return np.arange(self.run.start, self.run.stop)


class CellView(NamedTuple):
    """What the queries of a step read, and which of the cells read each query sees.

    `mask` is bool `[T, read.length]`; None says that the cells read are the sequence's own, in order of position
    and up to the newest token, so that the causal rule (and the window, if there is one) says it all.
    """

    read: Run
    mask: np.ndarray | None


class SequenceCells(NamedTuple):
    """One sequence of a step, with the cells that its queries see and no others.

    `tokens` says which of the step's tokens are its own, ascending; `cells` is in order of position, those of
    these tokens last; `mask` is bool `[t, n]`, or None where the causal rule (and the window) says it all.
    """

    tokens: np.ndarray
    cells: np.ndarray
    mask: np.ndarray | None


def as_run(cells: np.ndarray) -> Run | None:
    """The cells as a run, or None where they are not consecutive or there are none."""
    if not cells.size or int(cells[-1]) - int(cells[0]) != cells.size - 1 or not (np.diff(cells) == 1).all():
        return None
    return Run(int(cells[0]), cells.size)


class CellLayout:
    """The cells of a pool of `capacity` cells, and up to 64 sequences in them.

    `used_end` is one more than the highest occupied cell; `free` counts the cells without an owner.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.clear()

    def clear(self) -> None:
        """Forget every sequence."""
        self.free = self.capacity
        self.used_end = 0
        self._positions = np.zeros(self.capacity, np.int32)
        self._n_owners = np.zeros(self.capacity, np.uint8)
        self._rows: list[np.ndarray | None] = [None] * MAX_SEQUENCES
        self._orders = [CellOrder.none() for _ in range(MAX_SEQUENCES)]
        self._newest = [-1] * MAX_SEQUENCES
        self._tails = [Run(0, 0)] * MAX_SEQUENCES
        self._full_until = 0  # every cell below has an owner

    def count(self, seq: int) -> int:
        """Cells that `seq` owns."""
        return self._orders[self.check_seq("seq", seq)].count

    def newest(self, seq: int) -> int:
        """The highest position that `seq` holds; -1 where it holds none."""
        return self._newest[self.check_seq("seq", seq)]

    def owners(self, cell: int) -> frozenset[int]:
        """The sequences that own `cell`."""
        return frozenset(seq for seq, row in enumerate(self._rows) if row is not None and row[cell])

    def position(self, cell: int) -> int | None:
        """The position of the token in `cell`; None where it is free."""
        return int(self._positions[cell]) if self._n_owners[cell] else None

    @staticmethod
    def check_seq(name: str, seq: object) -> int:
        """Refuse what is not the id of a sequence with a ValueError."""
        if isinstance(seq, bool) or not isinstance(seq, (int, np.integer)) or not 0 <= seq < MAX_SEQUENCES:
            raise ValueError(f"{name}: got {seq!r}, expected a sequence id, 0 <= id < {MAX_SEQUENCES}")
        return int(seq)

    def admit(self, seq_ids: Sequence[int]) -> tuple[int, ...]:
        """Refuse a step that cannot be placed; changes nothing.

        Raises ValueError for no tokens or an id out of range, CapacityError for more tokens than free cells.
        """
        ids = tuple(seq_ids)
        for index, seq in enumerate(ids):
            if type(seq) is not int or not 0 <= seq < MAX_SEQUENCES:
                self.check_seq(f"seq_ids[{index}]", seq)  # an integer of another kind, or an error
        if not ids:
            raise ValueError("seq_ids: got 0 tokens, expected at least 1, one id per token")
        if len(ids) > self.free:
            raise CapacityError(
                f"seq_ids: got {len(ids)} tokens with {self.free} of {self.capacity} cells free; "
                "remove a sequence with seq_rm or declare a smaller step"
            )
        return tuple(map(int, ids))

    def place(self, seq_ids: tuple[int, ...], positions: Sequence[int]) -> Placement:
        """Say where the tokens of an admitted step go, each in the lowest free cell; changes nothing.

        Raises ValueError for a count that differs, a negative position or one above MAX_POSITION, and a position
        that is not newer than what its sequence holds, the earlier tokens of the step included.
        """
        count = len(seq_ids)
        if len(positions) != count:
            raise ValueError(
                f"positions: got {len(positions)} for the {count} tokens declared in begin_step, "
                "expected one per token"
            )
        one = self._check_newer(seq_ids, positions)
        if self._full_until == self.used_end:
            run, scattered = Run(self.used_end, count), None
        else:
            run, scattered = self._lowest_free(count)
        sequence = seq_ids[0] if one else None
        tail, whole = None, False
        if sequence is not None and scattered is None and positions[-1] - positions[0] == count - 1:
            tail = self._extended(sequence, run, positions[0])
            whole = tail.length == self._orders[sequence].count + count
        return Placement(
            seq_ids,
            tuple(positions),
            run if scattered is None else None,
            scattered,
            sequence,
            tail,
            whole,
            max(self.used_end, run.start + run.length),
        )

    def _check_newer(self, seq_ids: tuple[int, ...], positions: Sequence[int]) -> bool:
        """Refuse positions too high, or no newer than what their sequence holds; whether all are of one."""
        if len(seq_ids) == 1 and self._newest[seq_ids[0]] < positions[0] <= MAX_POSITION:
            return True  # a decode step
        newest: dict[int, int] = {}
        for index, (seq, position) in enumerate(zip(seq_ids, positions, strict=True)):
            last = newest[seq] if seq in newest else self._newest[seq]
            if position <= last:
                raise ValueError(
                    f"positions[{index}]: got {position} for sequence {seq}, which holds positions up to {last}, "
                    f"expected at least {last + 1}; seq_rm(seq, start) takes back what is to be replaced"
                )
            if position > MAX_POSITION:
                raise ValueError(
                    f"positions[{index}]: got {position} for sequence {seq}, expected at most {MAX_POSITION}"
                )
            newest[seq] = position
        return len(newest) == 1

    def own_run(self, placement: Placement, window: int | None) -> Run | None:
        """The run of cells that is all the step's one sequence sees, or None; before or after `commit`."""
        tail = placement.tail
        if tail is None:
            return None
        if window is None:
            return tail if placement.whole else None
        wanted = window - 1 + len(placement.seq_ids)
        if tail.length >= wanted:
            return Run(tail.stop - wanted, wanted)
        return tail if placement.whole else None

    def view(self, placement: Placement, window: int | None) -> CellView:
        """What the step's queries see through `window` (None: everything), before or after `commit`."""
        run = self.own_run(placement, window)
        if run is not None:
            return CellView(run, None)
        return CellView(Run(0, placement.used_end), self._mask(placement, window))

    def each(self, placement: Placement, window: int | None) -> list[SequenceCells]:
        """The step's sequences, in the order in which they first come; before or after `commit`."""
        ids, positions, new = np.array(placement.seq_ids), np.array(placement.positions, np.int32), placement.cells
        found = []
        for seq in dict.fromkeys(placement.seq_ids):
            tokens = np.flatnonzero(ids == seq)
            queries = positions[tokens]
            first = int(queries[0])
            older, at = self._orders[seq].between(None if window is None else first - window, first)
            cells = np.concatenate([older, new[tokens]])
            mask = None
            oldest = int(at[0]) if at.size else first
            if tokens.size > 1 and int(queries[-1]) - oldest != cells.size - 1:
                at = np.concatenate([at, queries])
                mask = at <= queries[:, None]
                if window is not None:
                    mask &= at > queries[:, None] - np.int32(window)
            found.append(SequenceCells(tokens, cells, mask))
        return found

    def commit(self, placement: Placement) -> None:
        """Take the tokens as placed."""
        positions, count, run = placement.positions, len(placement.positions), placement.run
        where: int | slice | np.ndarray
        if run is None:
            where = placement.cells
            last = int(where[-1])
        elif count == 1:
            where = last = run.start  # one token: NumPy takes an integer in a third of a slice's time
        else:
            where, last = slice(run.start, run.stop), run.stop - 1
        self._positions[where] = positions if count > 1 else positions[0]
        self._n_owners[where] = 1
        seq = placement.sequence
        if seq is not None:
            self._row(seq)[where] = True
            order = self._orders[seq]
            if count == 1:
                order.append(last, positions[0], 1)
            else:
                order.append(placement.cells, positions, count)
            tail = placement.tail
            self._tails[seq] = tail or self._grown_tail(seq, placement.cells.tolist(), positions)
            self._newest[seq] = positions[-1]
        else:
            for owner, position, cell in zip(placement.seq_ids, positions, placement.cells.tolist(), strict=True):
                self._row(owner)[cell] = True
                self._orders[owner].append(cell, position, 1)
                self._tails[owner] = self._grown_tail(owner, [cell], (position,))
                self._newest[owner] = position
        self.free -= count
        self.used_end = placement.used_end
        # The lowest free cells were taken, in order: nothing below the last one is free.
        self._full_until = last + 1

    def copy(self, src: int, dst: int, upto: int | None = None) -> None:
        """Make `dst` an owner of what `src` holds below position `upto`; no cell moves.

        Raises ValueError for an id out of range, the same id twice, a `dst` that holds cells, and a `src` that
        holds none below `upto`.
        """
        src, dst = self.check_seq("src", src), self.check_seq("dst", dst)
        if src == dst:
            raise ValueError(f"dst: got {dst}, the same as src, expected another sequence")
        if self._orders[dst].count:
            raise ValueError(
                f"dst: got {dst}, which holds {self._orders[dst].count} cells, expected a sequence without cells; "
                f"seq_rm({dst}) empties it"
            )
        row = self._rows[src]
        shared = None if row is None else self._selected(row, 0, upto)
        if shared is None or not shared.any():
            below = "" if upto is None else f" below position {upto}"
            raise ValueError(f"src: got {src}, which holds no cells{below}, expected a sequence to share from")
        self._n_owners += shared
        self._rows[dst] = shared
        self._recount(dst)

    def remove(self, seq: int, start: int = 0, stop: int | None = None) -> int:
        """Take `seq` off its cells with `start <= position < stop`, and free those that nobody else owns.

        Returns the number of cells freed. Raises ValueError for an id out of range and for a range in which
        the sequence holds nothing.
        """
        seq = self.check_seq("seq", seq)
        if start < 0:
            raise ValueError(f"start: got {start}, expected a position >= 0")
        row = self._rows[seq]
        removed = None if row is None else self._selected(row, start, stop)
        if row is None or removed is None or not removed.any():
            raise ValueError(
                f"seq: got {seq} with positions [{start}, {'end' if stop is None else stop}), where it holds "
                f"no cells; it holds {self._orders[seq].count} cells up to position {self._newest[seq]}"
            )
        row &= ~removed
        self._n_owners -= removed
        freed = np.flatnonzero(removed & (self._n_owners == 0))
        if freed.size:
            self.free += freed.size
            self._full_until = min(self._full_until, int(freed[0]))
            occupied = np.flatnonzero(self._n_owners[: self.used_end])
            self.used_end = int(occupied[-1]) + 1 if occupied.size else 0
        self._recount(seq)
        return int(freed.size)

    def cells_of(self, seq: int) -> np.ndarray:
        """The cells of `seq` in order of position, as they are now; not to be written."""
        return self._orders[self.check_seq("seq", seq)].cells

    def positions_of(self, seq: int) -> np.ndarray:
        """The positions that `seq` holds, ascending, int32."""
        return self._orders[self.check_seq("seq", seq)].positions.copy()

    def _row(self, seq: int) -> np.ndarray:
        row = self._rows[seq]
        if row is None:
            row = self._rows[seq] = np.zeros(self.capacity, np.bool_)
        return row

    def _selected(self, row: np.ndarray, start: int, stop: int | None) -> np.ndarray:
        selected: np.ndarray = row & (self._positions >= start)
        if stop is not None:
            selected &= self._positions < stop
        return selected

    def _lowest_free(self, count: int) -> tuple[Run, np.ndarray | None]:
        """The lowest free cells where there are holes: their span, and the cells unless they fill it."""
        first = self._full_until
        holes = first + np.flatnonzero(self._n_owners[first : self.used_end] == 0)[:count]
        fresh = np.arange(self.used_end, self.used_end + count - holes.size)
        cells = np.concatenate([holes, fresh])
        span = Run(int(cells[0]), int(cells[-1]) - int(cells[0]) + 1)
        return span, None if span.length == count else cells

    def _extended(self, seq: int, run: Run, position: int) -> Run:
        """The newest run of `seq` after `run` of consecutive positions from `position` is appended."""
        start, length = self._tails[seq]
        if length and start + length == run.start and position == self._newest[seq] + 1:
            return Run(start, length + run.length)
        return run

    def _grown_tail(self, seq: int, cells: list[int], positions: Sequence[int]) -> Run:
        tail, newest = self._tails[seq], self._newest[seq]
        for cell, position in zip(cells, positions, strict=True):
            if tail.length and cell == tail.stop and position == newest + 1:
                tail = Run(tail.start, tail.length + 1)
            else:
                tail = Run(cell, 1)
            newest = position
        return tail

    def _recount(self, seq: int) -> None:
        row = self._rows[seq]
        cells = np.zeros(0, np.int64) if row is None else np.flatnonzero(row[: self.used_end])
        cells = cells[np.argsort(self._positions[cells], kind="stable")]
        positions = self._positions[cells]
        self._orders[seq] = CellOrder(cells, positions)
        if not cells.size:
            self._rows[seq] = None
            self._newest[seq] = -1
            self._tails[seq] = Run(0, 0)
            return
        self._newest[seq] = int(positions[-1])
        breaks = np.flatnonzero((np.diff(cells) != 1) | (np.diff(positions) != 1))
        first = int(breaks[-1]) + 1 if breaks.size else 0
        self._tails[seq] = Run(int(cells[first]), cells.size - first)

    def _mask(self, placement: Placement, window: int | None) -> np.ndarray:
        """Which of the cells `[0, used_end)` each query of the step sees, committed or not."""
        count = len(placement.seq_ids)
        ids = np.array(placement.seq_ids)
        positions = np.array(placement.positions, np.int32)
        mask = np.zeros((count, placement.used_end), np.bool_)
        # Whatever a sequence held before is older than its tokens of this step: its row says all but the window.
        for seq in set(placement.seq_ids):
            row = self._rows[seq]
            if row is not None:
                mask[ids == seq] = row[: placement.used_end]
        oldest = None if window is None else (positions - np.int32(window))[:, None]
        if oldest is not None:
            mask &= self._positions[: placement.used_end] > oldest
        among = (ids[:, None] == ids) & (positions <= positions[:, None])
        if oldest is not None:
            among &= positions > oldest
        mask[:, placement.cells] = among
        return mask
