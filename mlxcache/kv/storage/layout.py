"""Where a step's cells lie: integers only, no tensors, no mlx.

A model's layers share one logical length. A flat layer keeps every position at its own slot. A ring layer of
window `w` keeps the newest cells in a pool of `2w` slots and reads its window as one run; a run that would
wrap is preceded by a roll of the pool, once per lap of about `w` tokens, so that a decode step costs the same
whatever the window.

    layout = SequenceLayout(config)
    plan = layout.plan(layer=0, position=7, count=1)   # pure: raises, or says what to write and read
    layout.commit(0, plan.origin, plan.stop)           # idempotent, so every layer of a step may call it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

STORAGE_DTYPES = ("float16", "bfloat16", "float32")
STORAGE_BITS = (4, 8)
GROUP_SIZES = (32, 64, 128)
MAX_WINDOW = 2**31 - 1


class CapacityError(ValueError):
    """A step holds more tokens than the cache, or one of its ring layers, has room for."""


class Run(NamedTuple):
    """Consecutive slots `[start, start + length)`."""

    start: int
    length: int

    @property
    def stop(self) -> int:
        """The slot after the last one."""
        return self.start + self.length


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

    def __post_init__(self) -> None:
        _require_int("CacheConfig.capacity", self.capacity, 1)
        _require_int("CacheConfig.n_layers", self.n_layers, 1)
        _require_int("CacheConfig.initial_capacity", self.initial_capacity, 0)
        if self.max_write is not None:
            _require_int("CacheConfig.max_write", self.max_write, 1)
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
                "expected kv_bits=4 or 8 with it"
            )

    def _check_quantised(self) -> None:
        for name, value, known in (
            ("kv_bits", self.kv_bits, STORAGE_BITS),
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

    `roll` cells move from the pool's front to its back before anything is written (0: none); `origin` is the
    position that then lies at slot 0; `base` is the position of the first cell read.
    """

    position: int
    tokens: int
    write: Run
    read: Run
    base: int
    roll: int
    origin: int

    @property
    def stop(self) -> int:
        """One more than the last token's position."""
        return self.position + self.tokens


class RingGeometry(NamedTuple):
    """A ring layer's sizes in cells.

    A step of `max_write` tokens must not overwrite what its own first query attends, so `kept` cells are
    promised to survive. `slots` is about 2.1 windows: the slack makes a lap long enough that rolling costs a
    decode step about one cell's copy. A pool of whole `unit`s is rolled by whole units.
    """

    window: int
    max_write: int
    kept: int
    slots: int
    unit: int

    @classmethod
    def of(cls, policy: LayerPolicy, max_write: int | None) -> RingGeometry:
        """The sizes for a ring policy; `max_write` defaults to the window."""
        window = policy.window
        assert window is not None
        most = window if max_write is None else max_write
        kept = window + most - 1
        unit = max(1, window // 40)
        slots = window * 21 // 10 // unit * unit
        return cls(window, most, kept, slots, unit) if slots >= kept else cls(window, most, kept, kept, 1)


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
            RingGeometry.of(layer.policy, config.max_write) if layer.policy.kind == "ring" else None
            for layer in self.groups
        )
        # Per layer, since a layer that missed a step must not inherit another's roll.
        self.origins: list[int] = [0] * config.n_layers

    def turns(self) -> list[tuple[int | None, int]]:
        """For each group: its window, and the cells after which its pool is full or must be rolled."""
        return [(None, self.capacity) if ring is None else (ring.window, ring.slots) for ring in self._rings]

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

    def plan(self, layer: int, position: int, count: int) -> StepPlan:
        """Say what `layer` writes and reads for `count` tokens from `position`; changes nothing.

        Assumes that `check` has passed; `layer` is in range.
        """
        ring = self._rings[self.group_of[layer]]
        stop = position + count
        if ring is None:
            return StepPlan(position, count, Run(position, count), Run(0, stop), 0, 0, 0)
        base = max(0, position - ring.window + 1)
        length = stop - base
        origin = self.origins[layer]
        first = (base - origin) % ring.slots
        roll = 0
        if first + length > ring.slots:
            # By whole units where that is enough, which is quicker to move; a few older cells stay in front.
            spare = first % ring.unit
            roll = first - spare if spare + length <= ring.slots else first
            origin, first = origin + roll, first - roll
        return StepPlan(
            position, count, Run(first + position - base, count), Run(first, length), base, roll, origin
        )

    def commit(self, layer: int, origin: int, stop: int) -> None:
        """Take a plan of that `origin` and of tokens up to position `stop` as done by `layer`.

        Doing it again, or for the next layer, changes nothing more.
        """
        self.origins[layer] = origin
        self.length = max(self.length, stop)
        self.written = max(self.written, stop)

    def can_extend(self, count: int) -> bool:
        """Whether `count` more tokens fit the capacity (a ring layer's `max_write` bounds one step, not this)."""
        return count >= 0 and self.length + count <= self.capacity

    def rewind(self, new_length: int) -> bool:
        """Forget the positions from `new_length` on; False, and nothing changed, where that cannot be.

        It cannot when it would grow the sequence, is negative, or when a ring layer no longer holds the window
        before `new_length`: at most `max_write` tokens can be taken back from the highest position written.
        """
        if not 0 <= new_length <= self.length or not self._holds_window_of(new_length):
            return False
        self.length = new_length
        if new_length == 0:
            self.clear()
        return True

    def clear(self) -> None:
        """Forget every position."""
        self.length = 0
        self.written = 0
        self.origins = [0] * self.config.n_layers

    def held(self, layer: int) -> tuple[int, list[Run]]:
        """What a copy of `layer` needs: the position of the oldest cell, and the runs from it to the newest.

        A ring layer keeps what its promise to `rewind` takes, `window + max_write - 1` cells of those written.
        """
        ring, oldest = self._rings[self.group_of[layer]], self._oldest_held(layer, self.length, self.written)
        count = self.length - oldest
        if ring is None or count == 0:  # a window of 1 needs nothing of what was rewound
            return oldest, [Run(0, count)]
        first = (oldest - self.origins[layer]) % ring.slots
        before = min(count, ring.slots - first)
        return oldest, [run for run in (Run(first, before), Run(0, count - before)) if run.length]

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
        self.length, self.written, self.origins = length, written, expected

    def _oldest_held(self, layer: int, length: int, written: int) -> int:
        ring = self._rings[self.group_of[layer]]
        return 0 if ring is None else max(0, min(written - ring.kept, length))

    def oldest_restart(self) -> int:
        """The lowest position above 0 at which a step may start (0 always may, on a layer of its own window)."""
        floors = [
            self.written - ring.max_write
            for ring in self._rings
            if ring is not None and ring.window > 1 and self.written > ring.kept
        ]
        return max(floors, default=0)

    def _holds_window_of(self, position: int) -> bool:
        """Whether every ring layer still holds what a query at `position` attends before itself."""
        return position == 0 or position >= self.oldest_restart()
