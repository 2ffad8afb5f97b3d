"""Where a step's cells lie: integers only, no tensors, no mlx.

A model's layers share one logical length. A flat layer keeps every position at its own slot. A ring layer keeps
the newest cells, in line or turning (`ring.py`), so that a decode step costs the same whatever the window.

    layout = SequenceLayout(config)
    plan = layout.plan(layer=0, position=7, count=1)   # pure: raises, or says what to write and read
    layout.commit(0, plan.origin, plan.stop, plan.turning)  # idempotent: every layer of a step may call it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from mlxcache.kv.storage.ring import (
    NO_MOVES,
    SETTLED,
    Moves,
    Piece,
    RingGeometry,
    Turning,
    plan_in_line,
    plan_turning,
)
from mlxcache.kv.storage.run import Run as Run
from mlxcache.kv.storage.run import cyclic
from mlxcache.kv.storage.widths import GROUP_SIZES, WIDTHS, named

STORAGE_DTYPES = ("float16", "bfloat16", "float32")
MAX_WINDOW = 2**31 - 1


class CapacityError(ValueError):
    """A step holds more tokens than the cache, or one of its ring layers, has room for."""


def _require_int(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}: got {value!r}, expected an integer >= {least}")


@dataclass(frozen=True, slots=True)
class LayerPolicy:
    """What a layer keeps: everything (`flat`) or the newest `window` positions (`ring`).

    Raises ValueError for a window below 1, a ring without a window, and a flat layer with one.
    """

    kind: Literal["flat", "ring"]
    window: int | None = None

    def __post_init__(self) -> None:
        if self.kind == "ring":
            _require_int("LayerPolicy.window of a ring layer", self.window, 1)
            if self.window is not None and self.window > MAX_WINDOW:
                raise ValueError(
                    f"LayerPolicy.window: got {self.window}, expected at most {MAX_WINDOW}, as positions are "
                    "int32; LayerPolicy.flat() sees everything"
                )
        elif self.kind == "flat":
            if self.window is not None:
                raise ValueError(
                    f"LayerPolicy.window: got {self.window!r} on a flat layer, expected None; "
                    "use LayerPolicy.ring(window) for a sliding window"
                )
        else:
            raise ValueError(f"LayerPolicy.kind: got {self.kind!r}, expected 'flat' or 'ring'")

    @classmethod
    def flat(cls) -> LayerPolicy:
        """A layer that attends to every earlier position."""
        return cls("flat")

    @classmethod
    def ring(cls, window: int) -> LayerPolicy:
        """A layer whose queries attend to the newest `window` positions, themselves included."""
        return cls("ring", window)


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """One layer's policy and the shape of its cells, `[n_kv_heads, head_dim]`."""

    policy: LayerPolicy
    n_kv_heads: int
    head_dim: int

    def __post_init__(self) -> None:
        if not isinstance(self.policy, LayerPolicy):
            raise ValueError(
                f"LayerConfig.policy: got {self.policy!r}, expected LayerPolicy.flat() or LayerPolicy.ring(w)"
            )
        _require_int("LayerConfig.n_kv_heads", self.n_kv_heads, 1)
        _require_int("LayerConfig.head_dim", self.head_dim, 1)


@dataclass(frozen=True)
class CacheConfig:
    """A cache's sizes, checked when it is made.

    Args:
        capacity: the most tokens a sequence may have.
        n_layers: the model's layers.
        layers: one `LayerConfig` for all layers, or one for each.
        kv_dtype: the storage dtype, `mx.float16`, `mx.bfloat16` or `mx.float32`.
        initial_capacity: slots allocated before the first token; clamped to what a layer can use.
        max_write: the most tokens of one step on a ring layer; None means the layer's window.
        kv_bits: 4 or 8 stores K and V quantised, and hands them out as `kv_dtype` again; None stores them as
            they are.
        kv_group_size: values that share a scale and a bias, along the head's dimension: 32, 64 or 128.
        max_rewind: the tokens that `rewind` can take back from the highest position written once a ring layer has
            dropped cells; each costs a cell on every ring layer. None means what `max_write` is, or the window.

    Raises ValueError that names the field and the value.
    """

    capacity: int
    n_layers: int
    layers: Sequence[LayerConfig]
    kv_dtype: Any
    initial_capacity: int = 512
    max_write: int | None = None
    kv_bits: int | None = None
    kv_group_size: int = 64
    max_rewind: int | None = None

    def __post_init__(self) -> None:
        _require_int("CacheConfig.capacity", self.capacity, 1)
        _require_int("CacheConfig.n_layers", self.n_layers, 1)
        _require_int("CacheConfig.initial_capacity", self.initial_capacity, 0)
        if self.max_write is not None:
            _require_int("CacheConfig.max_write", self.max_write, 1)
        if self.max_rewind is not None:
            _require_int("CacheConfig.max_rewind", self.max_rewind, 0)
        if isinstance(self.layers, LayerConfig) or not isinstance(self.layers, Sequence):
            raise ValueError(
                f"CacheConfig.layers: got {type(self.layers).__name__}, expected a list of LayerConfig"
            )
        object.__setattr__(self, "layers", tuple(self.layers))
        if len(self.layers) not in (1, self.n_layers):
            raise ValueError(
                f"CacheConfig.layers: got {len(self.layers)} entries for n_layers={self.n_layers}, "
                f"expected 1 (used for every layer) or {self.n_layers}"
            )
        for index, layer in enumerate(self.layers):
            if not isinstance(layer, LayerConfig):
                raise ValueError(f"CacheConfig.layers[{index}]: got {layer!r}, expected a LayerConfig")
        # By name, so that this module does without mlx: str(mx.float16) is "mlx.core.float16".
        if str(self.kv_dtype).rpartition(".")[2] not in STORAGE_DTYPES:
            raise ValueError(
                f"CacheConfig.kv_dtype: got {self.kv_dtype!r}, expected one of {', '.join(STORAGE_DTYPES)}"
            )
        if self.kv_bits is not None:
            self._check_quantised()
        elif self.kv_group_size != CacheConfig.kv_group_size:
            raise ValueError(
                f"CacheConfig.kv_group_size: got {self.kv_group_size} without kv_bits, where it has no effect; "
                f"expected kv_bits={named(tuple(WIDTHS))} with it"
            )

    def _check_quantised(self) -> None:
        for name, value, known in (
            ("kv_bits", self.kv_bits, tuple(WIDTHS)),
            ("kv_group_size", self.kv_group_size, GROUP_SIZES),
        ):
            if isinstance(value, bool) or value not in known:
                none = " or None" if name == "kv_bits" else ""
                raise ValueError(
                    f"CacheConfig.{name}: got {value!r}, expected one of {', '.join(map(str, known))}{none}"
                )
        for index, layer in enumerate(self.layers):
            if layer.head_dim % self.kv_group_size:
                raise ValueError(
                    f"CacheConfig.kv_group_size: got {self.kv_group_size} with head_dim={layer.head_dim} in "
                    f"layers[{index}], expected a divisor of the head_dim"
                )

    def __deepcopy__(self, memo: dict[int, object]) -> CacheConfig:
        # Nothing in it changes, and an mx.Dtype cannot be copied; a copied cache shares its parent's config.
        return self

    def layer(self, index: int) -> LayerConfig:
        """The configuration of layer `index`."""
        return self.layers[index if len(self.layers) > 1 else 0]


class StepPlan(NamedTuple):
    """What one layer does in one step; slots count from the pool's first cell.

    `base` is the position of the first cell read, where they come in order. A ring layer's `moves` come first;
    `origin` is then the position at slot 0, and `turning` how the ring lies, None for in line. So many `more`
    steps of as many tokens may follow and do the same further on.
    """

    position: int
    tokens: int
    write: Run
    read: Run
    base: int
    origin: int
    turning: Turning | None
    moves: Moves
    more: int

    @property
    def stop(self) -> int:
        """One more than the last token's position."""
        return self.position + self.tokens

    @property
    def roll(self) -> int:
        """Cells that move from the pool's front to its back before anything is written."""
        return self.moves.roll


class SequenceLayout:
    """The cells of one sequence over all layers of a model.

    `length` counts the tokens; `written` is one more than the highest position written since the cache was
    last empty, which is what decides which old cells of a ring still stand after a rewind.
    """

    def __init__(self, config: CacheConfig) -> None:
        self.config = config
        self.capacity = config.capacity
        self.length = 0
        self.written = 0
        # Layers that look alike share a group, and a group shares its plan of a step.
        self.groups: tuple[LayerConfig, ...] = tuple(dict.fromkeys(config.layers))
        index = {layer: group for group, layer in enumerate(self.groups)}
        self.group_of: tuple[int, ...] = tuple(index[config.layer(i)] for i in range(config.n_layers))
        self._rings: tuple[RingGeometry | None, ...] = tuple(
            RingGeometry.of(layer.policy, config.max_write, config.max_rewind)
            if layer.policy.kind == "ring"
            else None
            for layer in self.groups
        )
        # Per layer, since a layer that missed a step must not inherit another's roll.
        self.origins: list[int] = [0] * config.n_layers
        self.turning: list[Turning | None] = [None] * config.n_layers
        # How the steps have gone lately: tokens of each, and where the first of so many began.
        self._pace = 0
        self._pace_since = 0

    def ring_of(self, layer: int) -> RingGeometry:
        """The geometry of a ring layer."""
        ring = self._rings[self.group_of[layer]]
        assert ring is not None
        return ring

    def max_slots(self, layer: int) -> int:
        """The most slots that `layer` ever uses."""
        ring = self._rings[self.group_of[layer]]
        return self.capacity if ring is None else min(ring.slots, self.capacity)

    def check(self, position: int, count: int) -> None:
        """Refuse a step that no layer could serve; changes nothing.

        Raises ValueError for an empty step, a negative start, a gap or a start that a ring layer no longer
        holds, CapacityError for a step past the capacity or larger than a ring layer's `max_write`.
        """
        if count < 1:
            raise ValueError(f"positions: got {count} tokens, expected at least 1")
        if position < 0:
            raise ValueError(f"positions: got a start of {position}, expected a position >= 0")
        if position > self.length:
            raise ValueError(
                f"positions: got a start of {position} on a cache of length {self.length}, expected at most "
                f"{self.length}; the {position - self.length} cells between would be attended as zeros"
            )
        if position + count > self.capacity:
            raise CapacityError(
                f"positions: {count} tokens at {position} end at {position + count}, "
                f"expected at most capacity={self.capacity}"
            )
        for ring in self._rings:
            if ring is not None and count > ring.max_write:
                raise CapacityError(
                    f"positions: got {count} tokens in one step, expected at most max_write={ring.max_write} "
                    f"of the ring layer with window={ring.window}; split the step or raise max_write"
                )
        if position < self.length and not self._holds_window_of(position):
            raise ValueError(
                f"positions: got a start of {position} on a cache that has written {self.written} positions, "
                f"expected at least {self.oldest_restart()}: a ring layer no longer holds the window before it"
            )

    def plan(self, layer: int, position: int, count: int, any_order: bool = False) -> StepPlan:
        """Say what `layer` writes and reads for `count` tokens from `position`; changes nothing.

        With `any_order` the cells that are read may come in another order than that of their positions; they do
        where the plan says `turning`. Assumes that `check` has passed; `layer` is in range.
        """
        ring = self._rings[self.group_of[layer]]
        if ring is None:
            stop = position + count
            return StepPlan(
                position, count, Run(position, count), Run(0, stop), 0, 0, None, NO_MOVES, self.capacity
            )
        origin, turning = self.origins[layer], self.turning[layer]
        # A sequence that ends before its pool in line wraps gains nothing by turning.
        may_turn = any_order and ring.slots < self.capacity and ring.block(count) >= 0
        full = position >= ring.window - 1
        turns_at = self._turns_at(ring, position, count)
        if may_turn and full and (turns_at <= position if turning is None else turning.tokens == count):
            turned = plan_turning(ring, origin, turning, self.written, position, count)
            return StepPlan(position, count, *turned)
        plan = plan_in_line(ring, origin, turning, self.written, position, count)
        if may_turn:  # look again then
            plan = plan._replace(more=min(plan.more, max(0, (turns_at - position - 1) // count)))
        return StepPlan(position, count, *plan)

    def _turns_at(self, ring: RingGeometry, position: int, count: int) -> int:
        """The first position from which a ring turns if its steps have `count` tokens."""
        since = min(self._pace_since, position) if count == self._pace else position
        return max(ring.window - 1, since + SETTLED)

    def commit(self, layer: int, origin: int, stop: int, turning: Turning | None = None) -> None:
        """Take a plan of that `origin` and of tokens up to position `stop` as done by `layer`.

        Doing it again, or for the next layer, changes nothing more.
        """
        self.origins[layer] = origin
        self.turning[layer] = turning
        self.length = max(self.length, stop)
        self.written = max(self.written, stop)

    def went(self, position: int, count: int) -> None:
        """Note that a step of `count` tokens was taken from `position`."""
        if count != self._pace or position < self._pace_since:
            self._pace, self._pace_since = count, position

    def lies(self, layer: int) -> tuple[int, Turning | None]:
        """How a layer's cells lie: layers of a kind that say the same do the same in a step."""
        return self.origins[layer], self.turning[layer]

    def can_extend(self, count: int) -> bool:
        """Whether `count` more tokens fit the capacity (a ring layer's `max_write` bounds one step, not this)."""
        return count >= 0 and self.length + count <= self.capacity

    def rewind(self, new_length: int) -> bool:
        """Forget the positions from `new_length` on; False, and nothing changed, where that cannot be.

        It cannot when it would grow the sequence, is negative, or when a ring layer no longer holds the window
        before `new_length`: at most `max_rewind` tokens can be taken back from the highest position written.
        """
        if not 0 <= new_length <= self.length or not self._holds_window_of(new_length):
            return False
        self.length = new_length
        self._pace_since = min(self._pace_since, new_length)
        if new_length == 0:
            self.clear()
        return True

    def clear(self) -> None:
        """Forget every position."""
        self.length = 0
        self.written = 0
        self._in_line([0] * self.config.n_layers)

    def _in_line(self, origins: list[int]) -> None:
        """Every ring is in line, from these positions on, and has to settle again."""
        self.origins = origins
        self.turning = [None] * len(origins)
        self._pace, self._pace_since = 0, self.length

    def held(self, layer: int) -> tuple[int, list[Piece]]:
        """What a copy of `layer` needs: the position of the oldest cell, and where it and all newer ones lie.

        A ring layer keeps what its promise to `rewind` takes, `window + max_rewind - 1` cells of those written.
        """
        ring, oldest = self._rings[self.group_of[layer]], self._oldest_held(layer, self.length, self.written)
        turning = self.turning[layer]
        if turning is not None:
            return oldest, turning.pieces(oldest, self.length) or [Piece(Run(0, 0))]
        count = self.length - oldest
        runs = [Run(0, count)] if ring is None else cyclic(oldest - self.origins[layer], count, ring.slots)
        return oldest, [Piece(run) for run in runs or [Run(0, 0)]]

    def restore(self, length: int, written: int, oldest: Sequence[int]) -> None:
        """Be as the layout was whose `held` cells, the oldest per layer, now lie from slot 0 on."""
        if not 0 <= length <= written <= self.capacity:
            raise ValueError(
                f"length: got {length} with {written} written, "
                f"expected 0 <= length <= written <= capacity={self.capacity}"
            )
        expected = [self._oldest_held(layer, length, written) for layer in range(len(self.group_of))]
        if list(oldest) != expected:
            raise ValueError(
                f"layers: got cells from the positions {list(oldest)} on, expected {expected} for length={length} "
                f"and written={written}; restore what a cache of the same config held"
            )
        self.length, self.written = length, written
        self._in_line(expected)

    def _oldest_held(self, layer: int, length: int, written: int) -> int:
        ring = self._rings[self.group_of[layer]]
        return 0 if ring is None else max(0, min(written - ring.kept, length))

    def oldest_restart(self) -> int:
        """The lowest position above 0 at which a step may start (0 always may, on a layer of its own window)."""
        floors = [
            self.written - ring.max_rewind
            for ring in self._rings
            if ring is not None and ring.window > 1 and self.written > ring.kept
        ]
        return max(floors, default=0)

    def _holds_window_of(self, position: int) -> bool:
        """Whether every ring layer still holds what a query at `position` attends before itself."""
        return position == 0 or position >= self.oldest_restart()
