"""A step in the making: what each layer writes and reads, worked out once for the layers that are alike."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

from mlxcache.kv.batch import Batch
from mlxcache.kv.masks import TurningMasks
from mlxcache.kv.spec import AsStored, AttendSpec, MaskKind
from mlxcache.kv.storage.layout import LayerConfig, Run, StepPlan
from mlxcache.kv.storage.ring import NO_MOVES, Moves, RingGeometry, Turning, go_on

_FULL = slice(None)


class Clean(NamedTuple):
    """Which cells of a shared read some query sees, bool `[1, 1, S, 1]`; and whether several sequences' are.

    A weight of 0 times a NaN or an infinity is NaN, so a mask alone does not keep such values from anybody.
    """

    seen: mx.array
    mixed: bool

    def __call__(self, cells: mx.array) -> mx.array:
        """`cells`, `[1, H, S, D]`, with zeros where nobody looks; where sequences meet for NaN and inf too."""
        # The difference is NaN for NaN and infinities: a third of what mx.isfinite takes on a CPU.
        kept = self.seen & (cells - cells == 0) if self.mixed else self.seen
        return mx.where(kept, cells, mx.zeros((), cells.dtype))


# What `host_positions` returned, or any sequence of integers.
Positions = memoryview | np.ndarray | Sequence[int]


class Gather(enum.Enum):
    """How a step is read whose queries do not see exactly one run of cells.

    Any but NEVER says that the caller attends to what it is handed, and minds no order of the cells.
    """

    #: All cells together, with a mask.
    NEVER = "never"
    #: Each sequence's cells apart, in the way that the device is quick at: as a batch, or, with `MaskKind.APART`,
    #: only stored, for `read_each`.
    CHEAPER = "cheaper"
    #: Each sequence's cells together as one row of a batch, where all have as many tokens: for a model's batch.
    BATCH = "batch"


class LayerWork:
    """What every layer of one kind does in one step, with ready index objects and the shape to expect.

    Args:
        cells: the layers' configuration.
        count: tokens of the step.
        write: where they go, as one run, or as an index of distinct cells, uint32 `[1, 1, count, 1]`.
        read: what attention reads.
        kind: which mask it applies.
        mask: for EXPLICIT.
        batch: the sequences to read apart, in place of `read`.
        clean: what to make of cells that are read but not everybody's, before attention meets them.
        plain: whether the pools store what they are given; others are written and read by their methods.
    """

    __slots__ = (
        "at",
        "batch",
        "clean",
        "direct",
        "index",
        "kind",
        "lasting",
        "left",
        "mask",
        "most",
        "moves",
        "origin",
        "read",
        "run",
        "shape",
        "slots",
        "span",
        "spec",
        "start",
        "stop",
        "turning",
        "write",
    )

    def __init__(
        self,
        cells: LayerConfig,
        count: int,
        write: Run | mx.array,
        read: Run,
        kind: MaskKind,
        mask: mx.array | None,
        *,
        batch: Batch | None = None,
        clean: Clean | None = None,
        plain: bool = True,
    ) -> None:
        self.shape = (1, cells.n_kv_heads, count, cells.head_dim)
        start, length = read
        stop = start + length
        self.start = start
        self.stop = stop
        #: Cells that the pools must have.
        self.slots = stop
        # MLX indexes 20 % faster with (:, :, run) than with (..., run, :).
        self.read: Any = (_FULL, _FULL, slice(start, stop))
        #: Keys of each query's sequence.
        self.span = length if batch is None else batch.span
        #: None where the pools are to be asked, which then takes `at` or `index`.
        self.write: tuple[slice, slice, slice] | None = None
        self.at = -1
        self.index: mx.array | None = None
        #: Whether it is written and read as runs: the short way.
        self.direct = plain and batch is None and clean is None and isinstance(write, Run)
        if isinstance(write, Run):
            start, length = write
            self.at = start
            if self.direct:
                self.write = (_FULL, _FULL, slice(start, start + length))
        else:
            self.index = write
        self.batch = batch
        self.clean = clean
        self.kind = kind
        self.mask = mask
        #: What `update_and_fetch` returns: says the order of the keys.
        self.spec: type[AttendSpec] = AttendSpec
        # Of a sequence's layout: see `take`.
        #: Whether it changes how the ring lies, so that the layout must know of every layer that has done it.
        self.lasting = False
        self.origin = 0
        self.turning: Turning | None = None
        self.moves: Moves | None = None
        #: Where to write, if the moves are no more than to copy aside what then lies there.
        self.run: tuple[slice, slice, slice] | None = None
        self.most = 0
        #: Steps that may follow as this one was.
        self.left = 0

    def take(self, plan: StepPlan, window: int | None) -> None:
        """Be as a sequence's layout plans it."""
        self.left = plan.more
        if window is None:
            return
        self.most = window  # to which the pools grow first
        self.origin, self.turning = plan.origin, plan.turning
        self.lasting = plan.turning is not None or plan.moves is not NO_MOVES
        if plan.moves is not NO_MOVES or plan.write.stop > plan.read.stop:
            self.moves, self.write = plan.moves, None
            self.slots = 0  # the moves make room

    def advance(self, window: int | None) -> None:
        """Be the work of the step that follows, of as many tokens, behind where the last ones were written."""
        count = self.shape[2]
        at = self.stop
        stop = at + count
        self.at = at
        self.stop = stop
        if window is not None and self.span == window + count - 1:
            self.start += count
        else:
            self.span += count
        self.slots = stop
        self.read = (_FULL, _FULL, slice(self.start, stop))
        if self.direct:
            self.write = (_FULL, _FULL, slice(at, stop))
        self.moves = None
        self.lasting = False
        self.left -= 1


class TurningWork(LayerWork):
    """What layers do on a ring that turns (`ring.py`): it is read whole, as it is stored.

    `ring` is their geometry, `written` the layout's, and `masks` are theirs where the step has several tokens.
    """

    __slots__ = ("_masks", "_quiet", "_ring", "_written", "before", "top")

    def turn(self, plan: StepPlan, ring: RingGeometry, written: int, masks: TurningMasks | None) -> None:
        """Be as a sequence's layout plans it, for a turning ring."""
        self.take(plan, ring.window)
        self._ring, self._written, self._masks = ring, written, masks
        #: How the ring lay before, but for its `top`, as that of `turning` may be.
        self.before = plan.turning
        #: One more than the last token's position.
        self.top = plan.stop
        #: Steps that follow as one run with nothing to move.
        self._quiet = 0
        self.spec = AsStored
        self.read = ...  # all that there is: no slice

    def advance(self, window: int | None) -> None:
        """See `LayerWork.advance`."""
        turning = self.turning
        assert turning is not None
        self.before = turning
        tokens, moves = turning.tokens, NO_MOVES
        self.top += tokens
        if self._quiet:
            self._quiet -= 1
            at = self.at + tokens
        else:
            turning = turning._replace(top=self.top - tokens)
            self.turning, at, moves, self._quiet = go_on(self._ring, turning, self._written)
        fits = at + tokens <= turning.cells
        write = (_FULL, _FULL, slice(at, at + tokens)) if fits and self.direct else None
        if fits and moves is NO_MOVES:
            self.write, self.moves, self.run = write, None, None
        else:
            self.write, self.moves, self.run = None, moves, write
        self.at, self.slots, self.lasting = at, turning.cells, False
        if self._masks is not None:
            self.mask = self._masks.at(at)

    def lies(self) -> tuple[Turning, Turning]:
        """How the ring lies for a layer that has not done the step, and for one that has."""
        before, turning = self.before, self.turning
        assert before is not None
        assert turning is not None
        return before._replace(top=self.top - turning.tokens), turning._replace(top=self.top)


class Step:
    """A step whose positions are checked, with the work of the layers that are still to be served.

    Args:
        first: the first token's position.
        count: tokens; -1 for the step of a cache that has none, which is like no positions.
        raw: the positions as int32, needed where there are several.
        gather: when the work reads sequences apart.
        n_layers: of the model.
    """

    __slots__ = ("committed", "count", "first", "gather", "kinds", "moved", "planned", "raw", "uniform", "works")

    def __init__(self, first: int, count: int, raw: bytes, gather: Gather, n_layers: int) -> None:
        self.first = first
        self.count = count
        self.raw = raw
        self.gather = gather
        #: By layer; None where it is served, or its work is not worked out yet.
        self.works: list[LayerWork | None] = [None] * n_layers
        #: By group of layers that are alike: what all of them do, as far as it is worked out and the same.
        self.kinds: list[LayerWork | None] = []
        #: Whether the layout knows of it: from the first layer on.
        self.committed = False
        #: Whether it is the step before, moved on, so that a layer without work is served.
        self.moved = False
        #: Layers whose work was worked out.
        self.planned: set[int] = set()
        #: By window: whether all its layers lay alike before the step.
        self.uniform: dict[int, bool] = {}

    def advance(self, windows: Sequence[int | None], group_of: Sequence[int], raw: bytes = b"") -> None:
        """Be the step that follows, of as many tokens: what was worked out for the last one, moved on.

        A model decodes so, and this takes half of the time of working it out again. All layers must be served.
        `raw` is the step's, where it has several tokens.
        """
        kinds = self.kinds
        for work, window in zip(kinds, windows, strict=True):
            assert work is not None
            work.advance(window)
        self.first += self.count
        self.raw = raw
        self.committed = False
        self.moved = True
        self.works = [*kinds] * len(group_of) if len(kinds) == 1 else [kinds[group] for group in group_of]

    def has(self, positions: Positions) -> bool:
        """Whether `positions`, as many as the step has, are the step's, entry by entry.

        Raises what `position_array` does where there are several.
        """
        if self.count == 1:
            return bool(positions[0] == self.first)
        raw = as_int32(positions)
        if raw is not None:
            return raw == self.raw
        return np.array_equal(position_array(positions), np.frombuffer(self.raw, np.int32))


def as_int32(positions: Positions) -> bytes | None:
    """The bytes of positions that are an int32 buffer already; None for others."""
    if isinstance(positions, memoryview):
        return positions.tobytes() if positions.format == "i" else None
    if isinstance(positions, np.ndarray) and positions.dtype == np.int32 and positions.ndim == 1:
        return positions.tobytes()
    return None


def position_array(positions: Positions) -> np.ndarray:
    """The positions as a 1-D integer array on the host, with at least one entry.

    Raises ValueError for anything else.
    """
    try:
        array = np.asarray(positions)
    except (TypeError, ValueError) as error:
        raise ValueError(f"positions: got {positions!r}, expected a 1-D sequence of integers") from error
    if array.ndim != 1:
        raise ValueError(f"positions: got shape {array.shape}, expected 1-D, one position per token")
    if array.size == 0:
        raise ValueError("positions: got 0 tokens, expected at least 1")
    if array.dtype.kind not in "iu":
        raise ValueError(f"positions: got dtype {array.dtype}, expected integers")
    return array
