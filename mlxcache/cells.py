"""A cache of many sequences that share one pool of cells."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from mlxcache.cache import (
    AttendSpec,
    LayerBytes,
    LayerWork,
    MaskKind,
    MLXCache,
    Positions,
    StepMask,
    check_layer,
    position_array,
)
from mlxcache.cell_layout import CellLayout, Placement
from mlxcache.layout import CacheConfig, LayerConfig, Run
from mlxcache.masks import band_mask
from mlxcache.pool import cell_index


class MLXCellCache(MLXCache):
    """Up to 64 sequences, ids 0 to 63, over one pool; a step may hold tokens of any of them.

        cache = MLXCellCache(config)          # capacity counts cells, shared by all sequences
        cache.begin_step([0, 0, 0, 1])        # one id per token; refused here where there is no room
        for layer in range(n_layers):
            spec = cache.update_and_fetch(layer, positions, k[layer], v[layer])
        cache.seq_cp(0, 2)                    # a fork: sequence 2 shares what 0 holds
        cache.seq_rm(0)                       # frees what nobody else owns

    Layers share the placement of the tokens, so a windowed layer keeps as many cells as a full one and sees
    fewer; `max_write` does not apply. A step of one sequence that appends to a run of its own cells is written
    and read as runs with MaskKind NONE or CAUSAL, as in the sequence cache. Any other step reads the cells
    `[0, used_end)` with one explicit mask for each distinct window.
    """

    def __init__(self, config: CacheConfig) -> None:
        super().__init__(config, [config.capacity] * config.n_layers)
        self._layout = CellLayout(config.capacity)
        groups = tuple(dict.fromkeys(config.layers))
        self._groups = groups
        self._group_of = tuple(groups.index(config.layer(i)) for i in range(config.n_layers))
        self._step: _Step | None = None

    @property
    def free(self) -> int:
        """Cells that no sequence owns."""
        return self._layout.free

    @property
    def used_end(self) -> int:
        """One more than the highest occupied cell: what a step with an explicit mask reads."""
        return self._layout.used_end

    @property
    def step_served(self) -> int | None:
        """How many layers of the declared step are served; None where no step is in progress."""
        step = self._step
        return self._n_layers - step.left if step is not None and step.left else None

    def seq_len(self, seq: int) -> int:
        """Cells that `seq` owns. Raises ValueError for an id out of range."""
        return self._layout.count(seq)

    def next_position(self, seq: int) -> int:
        """The lowest position that a next token of `seq` may have, 0 where it holds none."""
        return self._layout.newest(seq) + 1

    def can_extend(self, count: int) -> bool:
        """Whether `count` more tokens, of any sequences, fit the free cells."""
        return 0 <= count <= self._layout.free

    def clear(self) -> None:
        """Forget every sequence and a declared step; the storage is kept."""
        self._step = None
        self._layout.clear()

    def begin_step(self, seq_ids: Sequence[int]) -> None:
        """Declare the next step, one sequence id per token, and make sure that it has room.

        Raises:
            RuntimeError: the last declared step is not done.
            ValueError: no tokens, or an id outside 0 to 63.
            CapacityError: fewer free cells than tokens. Nothing has changed in all these cases.
        """
        self._require_done("begin_step")
        self._step = _Step(self._layout.admit(seq_ids), self._n_layers)

    def cancel_step(self) -> None:
        """Drop a declared step, and the tokens that it has placed; nothing where there is none.

        For a step that failed half way. What its layers have written is forgotten with the cells.
        """
        step = self._step
        if step is not None and step.left:
            if step.placed:
                first: dict[int, int] = {}
                for seq, position in zip(step.seq_ids, step.placement.positions, strict=True):
                    first.setdefault(seq, position)
                for seq, position in first.items():
                    self._layout.remove(seq, position)
            self._step = None

    def seq_cp(self, src: int, dst: int, upto: int | None = None) -> None:
        """Fork: `dst` shares the cells of `src`, those below position `upto` if it is given. Nothing is copied.

        Raises RuntimeError in the middle of a step; ValueError for an id out of range, for the same id twice,
        for a `dst` that holds cells and for a `src` with nothing to share. Nothing has changed then.
        """
        self._require_done("seq_cp")
        self._layout.copy(src, dst, upto)

    def seq_rm(self, seq: int, start: int = 0, stop: int | None = None) -> int:
        """Take `seq` off its positions `[start, stop)`, all from `start` on where `stop` is None.

        Returns the number of cells freed: those nobody else owns. Raises RuntimeError in the middle of a step;
        ValueError for an id out of range and where the sequence holds nothing. Nothing has changed then.
        """
        self._require_done("seq_rm")
        return self._layout.remove(seq, start, stop)

    def seq_positions(self, seq: int) -> np.ndarray:
        """The positions that `seq` holds, ascending, int32 `[n]`."""
        return self._layout.positions_of(seq)

    def held(self, layer: int, seq: int) -> LayerBytes:
        """The cells of `seq` on a layer, in order of position, for `restore` on this cache or another.

        Not evaluated. Drop it before the next step is evaluated, or that step copies the pool.
        """
        check_layer(layer, self._n_layers)
        cells = self._layout.cells_of(seq)
        if cells.size and int(cells[-1]) - int(cells[0]) == cells.size - 1 and (np.diff(cells) == 1).all():
            return self._held(layer, [Run(int(cells[0]), cells.size)])
        return self._held(layer, cells if cells.size else [Run(0, 0)])

    def restore(self, seq: int, positions: Sequence[int] | np.ndarray, layers: Sequence[LayerBytes]) -> None:
        """Give `seq` tokens at `positions`, newer than what it holds, with the cells that `held` gave.

        Raises RuntimeError in the middle of a step, ValueError for another number of layers or cells,
        CapacityError where they do not fit. Nothing has changed then.
        """
        self._require_done("restore")
        array = position_array(positions)
        self._check_bytes(layers, [array.size] * len(layers))
        placement = self._layout.place(self._layout.admit([seq] * array.size), array.tolist())
        for layer, stored in enumerate(layers):
            self._put_back(layer, placement.run or placement.cells, stored)
        self._layout.commit(placement)

    def update_and_fetch(self, layer: int, positions: Positions, k: mx.array, v: mx.array) -> AttendSpec:
        """See `MLXCache.update_and_fetch`; the step is declared with `begin_step`, and each layer comes once.

        Raises, beyond what the base class says, RuntimeError for a step that is not declared and a layer served
        twice, ValueError for a count other than the declared one, for positions no newer than what their
        sequence holds, and for positions other than the first layer's.
        """
        step = self._step
        count = len(positions)
        if (
            step is None
            or not 0 <= layer < self._n_layers
            or step.served[layer]
            or count != step.count
            or positions[0] != step.first
            or (count > 1 and not step.has(positions))
        ):
            step = self._step_for(layer, positions)
        work = step.works[self._group_of[layer]]
        if work is None:
            work = self._fetched(step, self._group_of[layer])
        return self._serve(step, layer, work, k, v)

    def update_and_gather(self, layer: int, positions: Positions, k: mx.array, v: mx.array) -> AttendSpec:
        """See `MLXCache.update_and_gather`; the tokens of one sequence stand together, as many of each.

        It is a batch where the longest sequence (or its window) is at most half of `[0, used_end)`. One sequence
        comes in order of position and without the cells of others, fused where nothing of it is missing.
        """
        step = self._step_for(layer, positions)
        work = step.gathered[self._group_of[layer]]
        if work is None:
            work = self._gathered(step, self._group_of[layer])
        return self._serve(step, layer, work, k, v)

    def _serve(self, step: _Step, layer: int, work: LayerWork, k: mx.array, v: mx.array) -> AttendSpec:
        spec = self._store(layer, work, k, v)
        if not step.placed:
            self._layout.commit(step.placement)
            step.placed = True
        step.served[layer] = 1
        step.left -= 1
        return spec

    def mask_for(self, layer: int, positions: Positions, gather: bool = False) -> StepMask:
        """See `MLXCache.mask_for`."""
        step, group = self._step_for(layer, positions), self._group_of[layer]
        work = self._gathered(step, group) if gather else self._fetched(step, group)
        return StepMask(work.kind, work.mask, work.span)

    def _step_for(self, layer: int, positions: Positions) -> _Step:
        """The declared step, planned for these positions, with `layer` still to be served."""
        if not 0 <= layer < self._n_layers:
            check_layer(layer, self._n_layers)
        step = self._step
        if step is None:
            raise RuntimeError("step: none is declared, expected begin_step(seq_ids) before the first layer")
        if step.served[layer]:
            raise RuntimeError(
                f"layer: {layer} was served already in this step of {len(step.seq_ids)} tokens, expected each "
                "layer once; declare the next step with begin_step(seq_ids)"
            )
        count = len(positions)
        if count != step.count or positions[0] != step.first or (count > 1 and not step.has(positions)):
            self._plan(step, positions)
        return step

    def _plan(self, step: _Step, positions: Positions) -> None:
        if len(positions) == 1 and type(positions[0]) is int:
            listed = [positions[0]]  # a decode step, without NumPy
        else:
            listed = position_array(positions).tolist()
        if step.placed:
            raise ValueError(
                f"positions: got {_shown(listed)}, expected those that the first layer of this step placed: "
                f"{_shown(step.placement.positions)}"
            )
        step.take(self._layout.place(step.seq_ids, listed), len(self._groups))

    def _fetched(self, step: _Step, group: int) -> LayerWork:
        """The work of a group's layers that reads one run of cells."""
        work = step.works[group]
        if work is None:
            cells = self._groups[group]
            window = cells.policy.window
            if window not in step.views:
                view = self._layout.view(step.placement, window)
                step.views[window] = view.read, *_masked(view.mask, window, step.count, view.read.length)
            work = step.works[group] = self._work(step, cells, *step.views[window])
        return work

    def _gathered(self, step: _Step, group: int) -> LayerWork:
        """The work that reads each sequence's cells apart, where that pays; else the other one."""
        work = step.gathered[group]
        if work is None:
            cells = self._groups[group]
            window = cells.policy.window
            if window not in step.rows:
                alone = self._layout.own_run(step.placement, window) is not None
                rows = None if alone else self._layout.rows(step.placement, window)
                if rows is not None:
                    batch, span = rows.cells.shape
                    step.rows[window] = rows.cells, *_masked(rows.mask, window, step.count // batch, span)
                else:
                    step.rows[window] = None
            found = step.rows[window]
            if found is None:
                work = self._fetched(step, group)
            else:
                at, kind, mask = found
                work = self._work(step, cells, Run(0, step.placement.used_end), kind, mask, at)
            step.gathered[group] = work
        return work

    def _work(
        self,
        step: _Step,
        cells: LayerConfig,
        read: Run,
        kind: MaskKind,
        mask: mx.array | None,
        rows: np.ndarray | None = None,
    ) -> LayerWork:
        placement = step.placement
        write: Run | mx.array | None = placement.run or step.index
        if write is None:
            write = step.index = cell_index(placement.cells, step.count, self.capacity)
        work = LayerWork(cells, step.count, write, read, kind, mask, rows=rows)
        work.slots = placement.used_end  # a write may lie behind what is read, never behind this
        return work

    def _require_done(self, what: str) -> None:
        step = self._step
        if step is not None and step.left:
            done = self._n_layers - step.left
            raise RuntimeError(
                f"{what}: a step of {len(step.seq_ids)} tokens is declared and {done} of {self._n_layers} layers "
                "are served, expected all of them first; cancel_step() drops it"
            )


class _Step:
    """A declared step; once planned, its placement and what has been worked out for it so far."""

    __slots__ = (
        "count",
        "first",
        "gathered",
        "index",
        "left",
        "placed",
        "placement",
        "raw",
        "rows",
        "seq_ids",
        "served",
        "views",
        "works",
    )

    placement: Placement

    def __init__(self, seq_ids: tuple[int, ...], n_layers: int) -> None:
        self.seq_ids = seq_ids
        self.served = bytearray(n_layers)
        self.left = n_layers
        self.placed = False
        self.count = -1  # until it is planned
        self.first = -1
        self.raw = b""
        self.works: list[LayerWork | None] = []
        self.gathered: list[LayerWork | None] = []

    def take(self, placement: Placement, n_groups: int) -> None:
        """Be planned, with nothing worked out yet."""
        self.placement = placement
        self.count = len(placement.positions)
        self.first = placement.positions[0]
        self.raw = np.array(placement.positions, np.int32).tobytes() if self.count > 1 else b""
        self.index: mx.array | None = None
        # By group of layers, and what groups of one window share.
        self.works = [None] * n_groups
        self.gathered = [None] * n_groups
        self.views: dict[int | None, tuple[Run, MaskKind, mx.array | None]] = {}
        self.rows: dict[int | None, tuple[np.ndarray, MaskKind, mx.array | None] | None] = {}

    def has(self, positions: Positions) -> bool:
        """Whether `positions` are this step's, entry by entry."""
        if isinstance(positions, memoryview):
            return positions.tobytes() == self.raw
        return np.array_equal(np.asarray(positions), self.placement.positions)


def _shown(positions: Sequence[int]) -> str:
    return np.array2string(np.array(positions), threshold=8, edgeitems=2, separator=", ")


def _masked(
    mask: np.ndarray | None, window: int | None, count: int, span: int
) -> tuple[MaskKind, mx.array | None]:
    """The mask of `count` queries over `span` cells: as it is given, or that of one sequence's run."""
    if mask is not None:
        return MaskKind.EXPLICIT, mx.array(mask[None, None] if mask.ndim == 2 else mask[:, None])
    if count == 1:
        return MaskKind.NONE, None
    if window is not None and window < span:
        return MaskKind.EXPLICIT, band_mask(window, count, span)
    return MaskKind.CAUSAL, None
