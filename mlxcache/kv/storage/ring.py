"""Where a ring layer's cells lie: integers only, no tensors, no mlx.

A ring lies in one of two ways:

- **In line**: a pool of window, `max_rewind` and 5 %, in which every window is one run, oldest first. When a run
  would wrap, the pool is rolled first. Any step can be taken so.
- **Turning**: a pool of exactly the cells that a step of `count` tokens reads, `window + count - 1`, written in
  place where the oldest cells were, and read whole. No roll, no slice, and no cell in it that no query sees; but
  the cells come in the pool's order, and only steps of that count can be taken. What a rewind may need beyond them
  lies *aside*, in blocks of cells by position: each is copied before the first of its cells is overwritten.
  Chunks of a prompt, of more than `SETTLED` tokens, may make such a pool larger than one in line, up to window and
  `max_write`, until a step of another count brings it back.

A caller who attends gets a turning ring once its steps have had one count for a while; another step, or a caller
who reads keys, brings it back in line. Turning takes the place of a roll, and costs about as much.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from mlxcache.kv.storage.run import Run, cyclic

# Tokens in steps of one count, one after the other, before a ring turns: more than a draft model decodes in a row.
SETTLED = 16

# Steps between two that copy: so many that a p99 leaves them out, and so few that they are not worth it.
RARE = 128
FEW = 4

# Steps that may follow a turning one as it was.
ENDLESS = 2**62

# No pool in line has a multiple of so many slots, for MLX on an NVIDIA GPU: `Pool`'s `sliced` says why.
WHOLE_BLOCK = 256


class Windowed(Protocol):
    """What the geometry asks of a layer's policy."""

    @property
    def window(self) -> int | None:
        """Positions that a query sees."""


class RingGeometry(NamedTuple):
    """A ring layer's sizes in cells.

    `max_write` tokens is the largest step and `max_rewind` what can be taken back, so `kept` cells of the newest
    are promised to survive. `slots` are those of the ring in line, which a turning one's two parts together never
    exceed: at most 1.05 times `window + max_rewind`, or what a small ring needs. A pool of whole `unit`s is rolled
    by whole units.
    """

    window: int
    max_write: int
    max_rewind: int
    kept: int
    slots: int
    unit: int

    @classmethod
    def of(cls, policy: Windowed, max_write: int | None, max_rewind: int | None = None) -> RingGeometry:
        """The sizes for a ring policy; `max_write` defaults to the window, `max_rewind` to `max_write`."""
        window = policy.window
        assert window is not None
        most = window if max_write is None else max_write
        back = most if max_rewind is None else max_rewind
        kept = window + max(back, 1) - 1
        unit = max(1, window // 40)
        slots = (window + back) * 21 // 20 // unit * unit
        if slots < window + back:
            slots, unit = window + back, 1
        if slots % WHOLE_BLOCK == 0:
            fewer = slots - unit
            slots, unit = (fewer, unit) if fewer % WHOLE_BLOCK and fewer >= window + back else (slots - 1, 1)
        return cls(window, most, back, kept, slots, unit)

    def block(self, count: int) -> int:
        """Cells that a ring turning by `count` copies aside at a time, 0 if it needs none, -1 if it does not turn.

        It needs none where it holds `count` tokens more than a window and no more can be taken back. Where it
        does, a step that copies takes twice as long as another, while one in line costs what a flat layer's does,
        but for the rolls. So several tokens a step turn where few steps copy, or where rolls would come often.
        """
        spare = self._spare(count)
        if self.max_rewind <= count:
            return 0 if spare + max(0, self.max_rewind - 2) >= 0 else -1
        block = min(max(1, self.window - 1), (spare - count + 1) // 2)
        often = self.slots - self.window < RARE * count
        if count > SETTLED:  # a chunk: a block is what it overwrites
            return count if block >= count and often else -1
        return block if block >= RARE * count or (block >= FEW * count and (count == 1 or often)) else -1

    def _spare(self, count: int) -> int:
        """Cells left for blocks by a pool that turns by `count` and the cells that a rewind needs beside it.

        While chunks of a prompt come there is room for `max_write` tokens beside the window: they would have to be
        joined to it otherwise.
        """
        room = self.slots if count <= SETTLED else max(self.slots, self.window + self.max_write)
        return room - (self.window + count - 1) - max(0, self.max_rewind - 2)

    def first_saves(self, count: int, oldest: int, base: int, origin: int) -> tuple[Save, ...]:
        """What goes aside when a ring in line from `origin` begins to turn: the positions `[oldest, base)`."""
        size = min(max(1, self.window - 1), self._spare(count) - self.block(count) - count + 1)
        saves, stop = [], base
        while stop > oldest:
            first = max(oldest, stop - size)
            saves.append(Save(first, stop - first, (first - origin) % self.slots))
            stop = first
        return tuple(reversed(saves))


class Turning(NamedTuple):
    """How a turning ring lies.

    `tokens` a step and so many `cells`; the cell of position `p` is at `(p - origin) % cells`, for the newest
    `cells` positions below `top`. Those below `saved` lie aside too, as far back as they are promised, copied
    `block` at a time; with a block of 0 none do.
    """

    tokens: int
    cells: int
    origin: int
    top: int
    saved: int
    block: int

    def pieces(self, first: int, stop: int) -> list[Piece]:
        """The cells of the positions `[first, stop)`, in order: aside where they are no longer in the pool."""
        edge = min(max(first, self.top - self.cells), stop)
        back = [Piece(Run(first, edge - first), aside=True)] if self.block and edge > first else []
        return [*back, *(Piece(run) for run in cyclic(edge - self.origin, stop - edge, self.cells))]


class Piece(NamedTuple):
    """Cells in the pool; or of the positions of `run` aside; or so many zeros."""

    run: Run
    aside: bool = False
    zeros: bool = False


class Save(NamedTuple):
    """So many cells to be copied aside: of the positions from `first` on, from a slot on, where they may wrap."""

    first: int
    cells: int
    slot: int


class Moves(NamedTuple):
    """What a ring's pool undergoes in a step, beside the write and the read, in this order.

    `roll` cells go from the front to the back. The pool is laid out anew from `lay`, and `saves`, copied before,
    are what then lies aside. The positions of `restores` come back from aside to the slots from `at` on, which
    may wrap, and what lies aside from position `newest` on is forgotten. Then the step is written; a write that is
    longer than the pool from there on goes on at slot 0. `after` is copied aside once it is, and what lies aside
    below `oldest` forgotten.

    With `keep`, the step is longer than the pool can take: `lay` and the step's tokens, joined, are what is read,
    and the last `keep` of them are the pool's.
    """

    roll: int = 0
    lay: tuple[Piece, ...] = ()
    saves: tuple[Save, ...] = ()
    restores: Run = Run(0, 0)
    at: int = 0
    newest: int | None = None
    after: Save | None = None
    oldest: int = 0
    keep: int = 0


NO_MOVES = Moves()


class RingPlan(NamedTuple):
    """What a ring layer does in a step: see `StepPlan`; `turning` is how it lies afterwards."""

    write: Run
    read: Run
    base: int
    origin: int
    turning: Turning | None
    moves: Moves
    more: int


def plan_in_line(
    ring: RingGeometry, origin: int, turning: Turning | None, written: int, position: int, count: int
) -> RingPlan:
    """The step on a ring in line, which it becomes if it was turning."""
    window, slots = ring.window, ring.slots
    stop, base = position + count, max(0, position - window + 1)
    length = stop - base
    if length > slots:
        return _longer_than_the_pool(ring, origin, turning, position, count)
    roll, lay = 0, []
    if turning is None:
        first = (base - origin) % slots
        if first + length > slots:
            # By whole units where that is enough, which is quicker to move; a few older cells stay in front.
            spare = first % ring.unit
            roll = first - spare if spare + length <= slots else first
            origin, first = origin + roll, first - roll
    else:
        # The window in front, what a rewind may need behind it, so that this step's run does not wrap.
        turning = turning._replace(top=max(turning.top, position))
        oldest = min(base, max(0, written - ring.kept))
        lay = turning.pieces(base, position)
        if position - oldest < slots:
            lay.append(Piece(Run(0, slots - (position - oldest)), zeros=True))
        lay += turning.pieces(oldest, base)
        origin, first = base, 0
    # Steps that follow read a cell more each up to a window, then a whole window; with several tokens, those
    # between have a mask of their own.
    more = (slots - first - length) // count
    if length < window + count - 1 and count > 1:
        more = min(more, (window - length) // count)
    return RingPlan(
        Run(first + position - base, count),
        Run(first, length),
        base,
        origin,
        None,
        Moves(roll=roll, lay=tuple(lay)) if roll or lay else NO_MOVES,
        more,
    )


def _longer_than_the_pool(
    ring: RingGeometry, origin: int, turning: Turning | None, position: int, count: int
) -> RingPlan:
    """A chunk beyond what the pool can take: its keys are joined to the window's, and the newest are kept."""
    base = max(0, position - ring.window + 1)
    if turning is None:
        pieces = [Piece(run) for run in cyclic(base - origin, position - base, ring.slots)]
    else:
        pieces = turning._replace(top=max(turning.top, position)).pieces(base, position)
    length = position + count - base
    moves = Moves(lay=tuple(pieces), keep=ring.slots)
    return RingPlan(Run(0, count), Run(0, length), base, position + count - ring.slots, None, moves, 0)


def plan_turning(
    ring: RingGeometry, origin: int, turning: Turning | None, written: int, position: int, count: int
) -> RingPlan:
    """The step on a ring that turns by `count`, which it becomes if it was in line.

    The ring has `block(count) >= 0`, and `position` a whole window before it."""
    window, base = ring.window, position - ring.window + 1
    cells = window + count - 1
    moves = NO_MOVES
    if turning is None:
        block = ring.block(count)
        turning = Turning(count, cells, base, position, base, block)
        lay = [Piece(run) for run in cyclic(base - origin, window - 1, ring.slots)]
        lay.append(Piece(Run(0, count), zeros=True))
        # Whatever is still to be had of what lies before the window goes aside at once.
        oldest = max(0, written - ring.kept)
        moves = Moves(lay=tuple(lay), saves=ring.first_saves(count, oldest, base, origin) if block else ())
    elif position != turning.top:
        # Rewound: what the tokens taken back had overwritten. Or this layer missed steps, and has no such cells.
        back = max(0, min(turning.top - cells, position) - base)
        if turning.block and (back or turning.saved > position):
            moves = Moves(restores=Run(base, back), at=(base - turning.origin) % cells, newest=position)
        saved = min(max(turning.saved, position - cells), position)
        turning = turning._replace(top=position, saved=saved)
    turning, at, now, _ = go_on(ring, turning, written)
    moves = now if moves is NO_MOVES else moves._replace(after=now.after, oldest=now.oldest)
    return RingPlan(Run(at, count), Run(0, cells), base, turning.origin, turning, moves, ENDLESS)


def go_on(ring: RingGeometry, turning: Turning, written: int) -> tuple[Turning, int, Moves, int]:
    """The step of a turning ring from its `top` on.

    Returns how it lies then, the first slot written, the moves, and how many steps that follow need none and are
    written as one run.
    """
    tokens, cells, origin, top, saved, block = turning
    at = (top - origin) % cells
    top += tokens
    moves = NO_MOVES
    if block and saved <= top - ring.window:
        # The next step overwrites up to here: a block of it is copied now, since MLX would copy the pool if it
        # were read in the evaluation that overwrites it. Blocks end at the same slots in every lap, so that
        # their indices repeat.
        slot = (saved - origin) % cells
        count = min(block - slot % block, cells - slot)
        if saved + count <= top - ring.window:
            count += block
        moves = Moves(after=Save(saved, count, slot), oldest=max(written, top) - ring.kept)
        saved += count
    quiet = (cells - at) // tokens - 1
    if block:
        quiet = min(quiet, (saved - 1 - (top - ring.window)) // tokens)
    return Turning(tokens, cells, origin, top, saved, block), at, moves, max(0, quiet)
