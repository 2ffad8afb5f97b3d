"""A cache of many sequences that share one pool of cells."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from mlxcache.kv.batch import Batch, SequenceRead
from mlxcache.kv.cache import LayerBytes, MLXCache, check_layer
from mlxcache.kv.device import on_gpu
from mlxcache.kv.masks import run_mask
from mlxcache.kv.spec import AsStored, MaskKind
from mlxcache.kv.step import Clean, Gather, LayerWork, Positions, Step, position_array
from mlxcache.kv.storage.cell_layout import CellLayout, Placement, as_run
from mlxcache.kv.storage.layout import CacheConfig, LayerConfig, Run
from mlxcache.kv.storage.pool import Pool, cell_index
from mlxcache.kv.storage.quantized_pool import QuantizedPool

#: Tokens of a sequence from which on an H200 reads its cells where they lie in less time than it copies them.
LONG = 8192


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
    `[0, used_end)` with one explicit mask for each distinct window: as a copy in which cells that nobody sees are
    zeros, and, where sequences share the read, NaN and infinities too, since a weight of 0 would not hide them.

    `update_and_fetch` raises, beyond what the base class says, RuntimeError for a step that is not declared and a
    layer served twice, ValueError for a count other than the declared one, for positions no newer than what their
    sequence holds, and for positions other than the first layer's. With `gather` each sequence is
    read apart, in order of position: as a batch where the tokens of each stand together, as many of each, or by
    `read_each`. Whatever a sequence holds, or was removed with, then changes its own output alone.
    """

    def __init__(self, config: CacheConfig) -> None:
        super().__init__(config, [config.capacity] * config.n_layers)
        self._layout = CellLayout(config.capacity)
        groups = tuple(dict.fromkeys(config.layers))
        self._groups = groups
        self._windows = [cells.policy.window for cells in groups]
        self._group_of: tuple[int, ...] = tuple(groups.index(config.layer(i)) for i in range(config.n_layers))
        self._step: _CellStep = _CellStep((), config.n_layers)

    @staticmethod
    def _pool(config: CacheConfig, layer: int, max_slots: int) -> Pool | QuantizedPool:
        if config.kv_bits is not None:
            return MLXCache._pool(config, layer, max_slots)
        cells = config.layer(layer)
        return Pool(
            config.initial_capacity, max_slots, cells.n_kv_heads, cells.head_dim, config.kv_dtype, sliced=True
        )

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
        return step.layers_served if step.in_progress else None

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
        self._step = _CellStep((), self._n_layers)
        self._layout.clear()

    def begin_step(self, seq_ids: Sequence[int]) -> None:
        """Declare the next step, one sequence id per token, and make sure that it has room.

        Raises:
            RuntimeError: the last declared step is not done.
            ValueError: no tokens, or an id outside 0 to 63.
            CapacityError: fewer free cells than tokens. Nothing has changed in all these cases.
        """
        self._require_done("begin_step")
        ids, step = tuple(seq_ids), self._step
        if step.count == 1 and ids == step.seq_ids and type(ids[0]) is int and self._layout.free:
            step.declare_again()  # a sequence that decodes on, without the checks that it has passed
        else:
            self._step = _CellStep(self._layout.admit(ids), self._n_layers)

    def cancel_step(self) -> None:
        """Drop a declared step, and the tokens that it has placed; nothing where there is none.

        For a step that failed half way. What its layers have written is forgotten with the cells.
        """
        step = self._step
        if step.in_progress:
            if step.committed:
                first: dict[int, int] = {}
                for seq, position in zip(step.seq_ids, step.placement.positions, strict=True):
                    first.setdefault(seq, position)
                for seq, position in first.items():
                    self._layout.remove(seq, position)
            self._step = _CellStep((), self._n_layers)

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

        Not evaluated. Cells that are one run come as a view, which pins the layer's whole pool: drop it before the
        next step is evaluated, or that step copies the pool; `mx.contiguous` makes a copy that pins nothing.
        """
        check_layer(layer, self._n_layers)
        cells = self._layout.cells_of(seq)
        run = as_run(cells) if cells.size else Run(0, 0)
        return self._held(layer, cells if run is None else [run])

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

    def read_each(self, layer: int, *, ordered: bool = False) -> list[SequenceRead]:
        """See `MLXCache.read_each`."""
        check_layer(layer, self._n_layers)
        step = self._step
        work = step.kinds[self._group_of[layer]] if step.committed else None
        if work is None or work.batch is None or step.works[layer] is not None:
            raise RuntimeError(
                f"layer: {layer} has no batch in this step, expected update_and_fetch with a `gather` to have "
                "returned one just now"
            )
        batch = work.batch
        return batch.read(self._key_pools[layer], self._value_pools[layer], ordered=ordered or _copies(batch))

    def _step_of(self, layer: int, positions: Positions, gather: Gather) -> Step:
        """See `MLXCache._step_of`: the declared step, placed at these positions."""
        check_layer(layer, self._n_layers)
        step = self._step
        if not step.seq_ids:
            raise RuntimeError("step: none is declared, expected begin_step(seq_ids) before the first layer")
        if step.placed and step.works[layer] is None:
            self._work_of(step, layer)
        if len(positions) != step.count or not step.has(positions):
            if len(positions) == 1 and type(positions[0]) is int:
                listed = [positions[0]]  # a decode step, without NumPy
            else:
                listed = position_array(positions).tolist()
            if step.committed:
                raise ValueError(
                    f"positions: got {_shown(listed)}, expected those that the first layer of this step placed: "
                    f"{_shown(step.placement.positions)}"
                )
            placement = self._layout.place(step.seq_ids, listed)
            if step.gather is gather and step.moves_on(placement):
                step.placement, step.count, step.placed = placement, 1, True
                step.advance(self._windows, self._group_of)
                return step
            step.take(placement)
        if not step.placed or step.gather is not gather:
            step.gather = gather
            self._plan(step)
        return step

    def _work_of(self, step: Step, layer: int) -> LayerWork:
        """See `MLXCache._work_of`: every layer's is worked out at once, so one without is served."""
        raise RuntimeError(
            f"layer: {layer} was served already in this step of {step.count} tokens, expected each layer once; "
            "declare the next step with begin_step(seq_ids)"
        )

    def _commit(self, step: Step, layer: int, work: LayerWork) -> None:
        self._layout.commit(self._step.placement)
        step.committed = True

    def _plan(self, step: _CellStep) -> None:
        """Work out what the layers that are still to be served do."""
        # By window, since layers that differ in their heads only share a mask.
        views: dict[int | None, _View] = {}
        kinds: list[LayerWork | None] = []
        for cells in self._groups:
            window = cells.policy.window
            if window not in views:
                apart = step.gather is not Gather.NEVER
                views[window] = self._gathered(step, window) if apart else self._fetched(step, window)
            kinds.append(self._work(step, cells, *views[window]))
        before = step.works if step.placed else None
        step.kinds, step.placed = kinds, True
        step.runs = step.count == 1 and all(
            mask is None and batch is None for _, _, mask, batch, _ in views.values()
        )
        step.works = [
            None if before is not None and before[layer] is None else kinds[group]
            for layer, group in enumerate(self._group_of)
        ]

    def _fetched(self, step: _CellStep, window: int | None) -> _View:
        """One run of cells."""
        view = self._layout.view(step.placement, window)
        if view.mask is None:
            return view.read, *run_mask(window, step.count, view.read.length), None, None
        seen, mixed = np.logical_or.reduce(view.mask), step.placement.sequence is None
        clean = None if seen.all() and not mixed else Clean(mx.array(seen[None, None, :, None]), mixed)
        return view.read, MaskKind.EXPLICIT, mx.array(view.mask[None, None]), None, clean

    def _gathered(self, step: _CellStep, window: int | None) -> _View:
        """Each sequence's cells apart, unless they are one run."""
        placement = step.placement
        if self._layout.own_run(placement, window) is not None:
            return self._fetched(step, window)
        batch, used = Batch(self._layout.each(placement, window), window), Run(0, placement.used_end)
        # A CPU gains nothing by a batch, and its caches lose what is gathered of so many: docs/profiles.md.
        if batch.count is not None and (step.gather is Gather.BATCH or _copies(batch)):
            return used, *batch.mask(), batch, None
        if step.gather is Gather.BATCH:
            return self._fetched(step, window)
        return used, MaskKind.APART, None, batch, None

    def _work(
        self,
        step: _CellStep,
        cells: LayerConfig,
        read: Run,
        kind: MaskKind,
        mask: mx.array | None,
        batch: Batch | None,
        clean: Clean | None,
    ) -> LayerWork:
        placement = step.placement
        write: Run | mx.array | None = placement.run or step.index
        if write is None:
            write = step.index = cell_index(placement.cells, step.count, self.capacity)
        work = LayerWork(cells, step.count, write, read, kind, mask, batch=batch, clean=clean, plain=self._plain)
        shared = batch is None and kind is MaskKind.EXPLICIT
        if shared and self._layout.own_run(placement, cells.policy.window) is None:
            work.spec = AsStored
        work.slots = placement.used_end  # a write may lie behind what is read, never behind this
        return work

    def _require_done(self, what: str) -> None:
        step = self._step
        if step.in_progress:
            raise RuntimeError(
                f"{what}: a step of {len(step.seq_ids)} tokens is declared and {step.layers_served} of "
                f"{self._n_layers} layers are served, expected all of them first; cancel_step() drops it"
            )


def _copies(batch: Batch) -> bool:
    """Whether a sequence's cells are copied together for fused attention: on a GPU, unless that moves too much."""
    return on_gpu() and batch.span < LONG


# What is read, the mask's kind and array, the sequences if they are read apart, and what cleans a shared read.
_View = tuple[Run, MaskKind, mx.array | None, Batch | None, Clean | None]


class _CellStep(Step):
    """A declared step; once placed, its placement and what its layers do. Without ids: no step."""

    __slots__ = ("index", "placed", "placement", "runs", "seq_ids")

    placement: Placement

    def __init__(self, seq_ids: tuple[int, ...], n_layers: int) -> None:
        super().__init__(-1, -1, b"", Gather.NEVER, n_layers)
        self.seq_ids = seq_ids
        self.placed = False
        self.index: mx.array | None = None
        #: Whether it was planned as one token that all layers read at the end of a run.
        self.runs = False

    @property
    def layers_served(self) -> int:
        """Layers that have stored their tokens."""
        return self.works.count(None) if self.placed else 0

    @property
    def in_progress(self) -> bool:
        """Whether layers are still to be served."""
        return bool(self.seq_ids) and self.layers_served < len(self.works)

    def take(self, placement: Placement) -> None:
        """Be placed there, with nothing worked out yet."""
        self.placement = placement
        self.first = placement.positions[0]
        self.count = len(placement.positions)
        self.raw = np.array(placement.positions, np.int32).tobytes() if self.count > 1 else b""
        self.index = None
        self.placed = self.runs = False
        self.moved = False

    def declare_again(self) -> None:
        """Be declared for the next token of the same sequence, and keep what the last one did."""
        self.count = -1
        self.placed = self.committed = False

    def moves_on(self, placement: Placement) -> bool:
        """Whether the layers do what they did for the last token, one cell further on."""
        if not self.runs:
            return False
        before, after = self.placement.tail, placement.tail
        return (
            before is not None
            and after is not None
            and after.start == before.start
            and after.length == before.length + 1
            and placement.whole == self.placement.whole
            # `restore` may have put other tokens into the same cells.
            and placement.positions[0] == self.first + 1
        )


def _shown(positions: Sequence[int]) -> str:
    return np.array2string(np.array(positions), threshold=8, edgeitems=2, separator=", ")
