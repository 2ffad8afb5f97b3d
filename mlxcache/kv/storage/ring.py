"""Where a ring layer's cells lie: integers only, no tensors, no mlx.

A ring lies in one of two ways:

- **In line**: a pool of window, `max_rewind` and 5 %, in which every window is one run, oldest first. When a run
  would wrap, the pool is rolled first. Any step can be taken so.
- **Turning**: a pool of exactly the cells that a step of `count` tokens reads, `window + count - 1`, written in
  place where the oldest cells were, and read whole. No roll, no slice, and no cell in it that no query sees; but
  the cells come in the pool's order, and only steps of that count can be taken. What a rewind may need beyond them
  lies *aside*, in a second small ring: it is copied there a block at a time, before it is overwritten.

A caller who attends gets a turning ring once its steps have had one count for a while; another step, or a caller
who reads keys, brings it back in line. Turning takes the place of a roll, and costs about as much.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from mlxcache.kv.storage.run import Run, cyclic

# Tokens in steps of one count, one after the other, before a ring turns: more than a draft model decodes in a row.
SETTLED = 16

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
        """Cells that a ring turning by `count` copies aside at a time; 0 where it needs none, -1 where none fit.

        It needs none where it holds `count` tokens more than a window and no more can be taken back.
        """
        most = self.slots - (self.window + count - 1)
        if self.max_rewind <= count:
            return 0 if most >= 0 else -1
        block = min(self.window, most - (self.max_rewind - 1))
        return block if block >= count else -1

    def aside(self, block: int) -> int:
        """Cells of the ring aside, for blocks of that size."""
        return self.max_rewind - 1 + block if block else 0


class Turning(NamedTuple):
    """How a turning ring lies.

    `tokens` a step and so many `cells`; the cell of position `p` is at `(p - origin) % cells`, for the
    newest `cells` positions below `top`. Those below `saved` lie aside too, as far back as they are promised:
    position `p` at `(p - aside_origin) % aside`. `block` is copied at a time.
    """

    tokens: int
    cells: int
    origin: int
    top: int
    saved: int
    aside: int
    aside_origin: int
    block: int

    def pieces(self, first: int, stop: int) -> list[Piece]:
        """The cells of the positions `[first, stop)`, in order: aside where they are no longer in the pool."""
        edge = min(max(first, self.top - self.cells), stop)
        back = cyclic(first - self.aside_origin, edge - first, self.aside) if self.aside else []
        return [
            *(Piece(run, aside=True) for run in back),
            *(Piece(run) for run in cyclic(edge - self.origin, stop - edge, self.cells)),
        ]

    def to_save(self, first: int, stop: int) -> list[Copy]:
        """Copies from the pool aside of the positions `[first, stop)`."""
        return copies(first - self.origin, self.cells, first - self.aside_origin, self.aside, stop - first)

    def to_restore(self, first: int, stop: int) -> list[Copy]:
        """Copies from aside into the pool."""
        return copies(first - self.aside_origin, self.aside, first - self.origin, self.cells, stop - first)


class Piece(NamedTuple):
    """Cells in the pool or aside, or, with neither, so many zeros."""

    run: Run
    aside: bool = False
    zeros: bool = False


class Copy(NamedTuple):
    """Cells of one ring and the slot of the other that they go to."""

    run: Run
    to: int


def copies(source: int, source_size: int, target: int, target_size: int, count: int) -> list[Copy]:
    """Copy `count` consecutive cells of a ring to another, in runs that wrap in neither."""
    found = []
    while count > 0:
        start, to = source % source_size, target % target_size
        length = min(count, source_size - start, target_size - to)
        found.append(Copy(Run(start, length), to))
        source, target, count = source + length, target + length, count - length
    return found


class Moves(NamedTuple):
    """What a ring's pool undergoes in a step, beside the write and the read, in this order.

    `roll` cells go from the front to the back. `saves` are copied aside, into a new ring of `aside` cells if that
    is not 0. The pool is laid out anew from `lay`. `restores` come back from aside. Then the step is written; a
    write that is longer than the pool from there on goes on at slot 0. `after` is copied aside once it is.

    With `keep`, the step is longer than the pool can take: `lay` and the step's tokens, joined, are what is read,
    and the last `keep` of them become the pool's first, of `slots`.
    """

    roll: int = 0
    saves: tuple[Copy, ...] = ()
    aside: int = 0
    lay: tuple[Piece, ...] = ()
    restores: tuple[Copy, ...] = ()
    after: tuple[Copy, ...] = ()
    keep: int = 0
    slots: int = 0


NO_MOVES = Moves()


class RingPlan(NamedTuple):
    """What a ring layer does in a step: see `StepPlan`; `turning` is how it lies afterwards."""

    write: Run
    read: Run
    base: int
    origin: int
    turning: Turning | None
    moves: Moves
    until: int


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
    return RingPlan(
        Run(first + position - base, count),
        Run(first, length),
        base,
        origin,
        None,
        Moves(roll=roll, lay=tuple(lay)) if roll or lay else NO_MOVES,
        slots,
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
    keep = min(length, ring.kept)
    moves = Moves(lay=tuple(pieces), keep=keep, slots=ring.slots)
    return RingPlan(Run(0, count), Run(0, length), base, position + count - keep, None, moves, ring.slots)


def plan_turning(
    ring: RingGeometry, origin: int, turning: Turning | None, written: int, position: int, count: int
) -> RingPlan:
    """The step on a ring that turns by `count`, which it becomes if it was in line.

    The ring has `block(count) >= 0`, and `position` a whole window before it."""
    window, stop, base = ring.window, position + count, position - ring.window + 1
    cells = window + count - 1
    lay: list[Piece] = []
    saves: list[Copy] = []
    restores: list[Copy] = []
    aside = 0
    if turning is None:
        block = ring.block(count)
        oldest = max(0, max(written, stop) - ring.kept)
        # Whatever is still to be had of what lies before the window goes aside at once.
        turning = Turning(count, cells, base, stop, max(base, oldest), ring.aside(block), oldest, block)
        lay = [Piece(run) for run in cyclic(base - origin, window - 1, ring.slots)]
        lay.append(Piece(Run(0, count), zeros=True))
        aside = turning.aside
        if aside:
            saves = copies(oldest - origin, ring.slots, 0, aside, base - oldest)
    elif position < turning.top and turning.aside:
        # Rewound: what the tokens taken back had overwritten.
        first = turning.top - cells
        restores = turning.to_restore(base, min(first, position))
    # What lies aside of positions from here on is no longer theirs.
    turning = turning._replace(top=stop, saved=min(turning.saved, position))
    after: list[Copy] = []
    if turning.aside and turning.saved < stop - window + 1:
        # The next step overwrites up to here: a block of it is copied now, since MLX would copy the pool if it
        # were read in the evaluation that overwrites it.
        first = max(turning.saved, stop - cells)
        saved = stop - window + turning.block
        after = turning.to_save(first, saved)
        turning = turning._replace(saved=saved)
    moves = NO_MOVES
    if lay or restores or after:
        moves = Moves(
            saves=tuple(saves), aside=aside, lay=tuple(lay), restores=tuple(restores), after=tuple(after)
        )
    at = (position - turning.origin) % cells
    # Tokens that follow as this one did, in place and with nothing to copy aside.
    more = cells - 1 - at
    if turning.aside:
        more = min(more, turning.saved - (stop - window + 1))
    return RingPlan(Run(at, count), Run(0, cells), base, turning.origin, turning, moves, at + 1 + more)
