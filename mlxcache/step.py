"""A step in the making: what each layer writes and reads, worked out once for the layers that are alike."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from mlxcache.batch import Batch
from mlxcache.layout import LayerConfig, Run, StepPlan
from mlxcache.spec import MaskKind

_FULL = slice(None)

# What `host_positions` returned, or any sequence of integers.
Positions = memoryview | np.ndarray | Sequence[int]


class LayerWork:
    """What every layer of one kind does in one step, with ready index objects and the shape to expect.

    Args:
        cells: the layers' configuration.
        count: tokens of the step.
        write: where they go, as one run, or as an index of distinct cells, uint32 `[1, 1, count, 1]`.
        read: what attention reads.
        kind: which mask it applies.
        mask: for EXPLICIT.
        plan: what the layout is told when the layer is done.
        batch: the cells to read as a batch, in place of `read`.
        plain: whether the pools store what they are given; others are written and read by their methods.
    """

    __slots__ = (
        "batch",
        "index",
        "kind",
        "mask",
        "plan",
        "read",
        "read_run",
        "roll",
        "shape",
        "slots",
        "span",
        "write",
        "write_run",
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
        plan: StepPlan | None = None,
        batch: Batch | None = None,
        plain: bool = True,
    ) -> None:
        self.shape = (1, cells.n_kv_heads, count, cells.head_dim)
        start, length = read
        self.slots = start + length
        self.read_run = read
        # MLX indexes 20 % faster with (:, :, run) than with (..., run, :).
        self.read = (_FULL, _FULL, slice(start, start + length))
        self.span = length if batch is None else batch.span
        self.write: tuple[slice, slice, slice] | None = None
        self.index: mx.array | None = None
        if isinstance(write, Run):
            self.write_run = write
            if plain and batch is None:  # written and read as runs: the short way
                start, length = write
                self.write = (_FULL, _FULL, slice(start, start + length))
        else:
            self.index = write
        self.batch = batch
        self.kind = kind
        self.mask = mask
        self.plan = plan
        self.roll = 0 if plan is None else plan.roll


class Step:
    """A step whose positions are checked, with the work of the layers that are still to be served.

    Args:
        first: the first token's position.
        count: tokens; -1 for the step of a cache that has none, which is like no positions.
        raw: the positions as int32, needed where there are several.
        gather: whether the work reads sequences apart.
        n_layers: of the model.
    """

    __slots__ = ("committed", "count", "first", "gather", "raw", "works")

    def __init__(self, first: int, count: int, raw: bytes, gather: bool, n_layers: int) -> None:
        self.first = first
        self.count = count
        self.raw = raw
        self.gather = gather
        #: None for a layer that is served, or whose work is not worked out yet.
        self.works: list[LayerWork | None] = [None] * n_layers
        #: Whether the layout knows of it: from the first layer on.
        self.committed = False

    def has(self, positions: Positions) -> bool:
        """Whether `positions`, as many as the step has, are the step's, entry by entry."""
        if self.count == 1:
            return bool(positions[0] == self.first)
        if isinstance(positions, memoryview) and positions.format == "i":
            return positions.tobytes() == self.raw
        if isinstance(positions, np.ndarray) and positions.dtype == np.int32:
            return positions.tobytes() == self.raw
        return np.array_equal(np.asarray(positions), np.frombuffer(self.raw, np.int32))


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
