"""The tensor-free layout: configuration, plans, rewinds."""

from __future__ import annotations

import mlx.core as mx
import pytest

from mlxcache import CacheConfig, CapacityError, LayerConfig, LayerPolicy
from mlxcache.kv.storage.layout import RingGeometry, SequenceLayout, StepPlan
from tests.helpers import config

FLAT = LayerConfig(LayerPolicy.flat(), 2, 8)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LayerPolicy.ring(0), r"LayerPolicy\.window.*got 0"),
        (lambda: LayerPolicy.ring(2**31), r"LayerPolicy\.window: got 2147483648, expected at most 2147483647"),
        (lambda: LayerPolicy.ring(-3), r"LayerPolicy\.window.*got -3"),
        (lambda: LayerPolicy.ring(2.5), r"LayerPolicy\.window.*got 2\.5"),  # type: ignore[arg-type]
        (lambda: LayerPolicy("ring"), r"LayerPolicy\.window.*got None"),
        (lambda: LayerPolicy("flat", 8), r"LayerPolicy\.window: got 8 on a flat layer"),
        (lambda: LayerPolicy("round"), r"LayerPolicy\.kind: got 'round'"),  # type: ignore[arg-type]
        (lambda: LayerConfig("flat", 2, 8), r"LayerConfig\.policy: got 'flat'"),  # type: ignore[arg-type]
        (lambda: LayerConfig(LayerPolicy.flat(), 0, 8), r"LayerConfig\.n_kv_heads: got 0"),
        (lambda: LayerConfig(LayerPolicy.flat(), 2, -1), r"LayerConfig\.head_dim: got -1"),
        (lambda: CacheConfig(0, 1, [FLAT], mx.float16), r"CacheConfig\.capacity: got 0"),
        (lambda: CacheConfig(True, 1, [FLAT], mx.float16), r"CacheConfig\.capacity: got True"),
        (lambda: CacheConfig(8, 0, [FLAT], mx.float16), r"CacheConfig\.n_layers: got 0"),
        (lambda: CacheConfig(8, 3, [FLAT] * 2, mx.float16), r"CacheConfig\.layers: got 2 entries.*n_layers=3"),
        (lambda: CacheConfig(8, 2, [], mx.float16), r"CacheConfig\.layers: got 0 entries"),
        (lambda: CacheConfig(8, 1, FLAT, mx.float16), r"CacheConfig\.layers: got LayerConfig"),  # type: ignore[arg-type]
        (lambda: CacheConfig(8, 1, ["x"], mx.float16), r"CacheConfig\.layers\[0\]: got 'x'"),  # type: ignore[list-item]
        (lambda: CacheConfig(8, 1, [FLAT], mx.int8), r"CacheConfig\.kv_dtype: got mlx\.core\.int8"),
        (lambda: CacheConfig(8, 1, [FLAT], None), r"CacheConfig\.kv_dtype: got None"),
        (lambda: CacheConfig(8, 1, [FLAT], mx.float16, -1), r"CacheConfig\.initial_capacity: got -1"),
        (lambda: CacheConfig(8, 1, [FLAT], mx.float16, 4, 0), r"CacheConfig\.max_write: got 0"),
    ],
)
def test_invalid_configuration_names_field_and_value(build, message) -> None:
    """A wrong field is refused when the config is made, with its name and value."""
    with pytest.raises(ValueError, match=message):
        build()


def test_layers_that_look_alike_share_a_group() -> None:
    """Plans are made once per distinct layer, however many layers there are."""
    layout = SequenceLayout(config(None, 4, None, 4, 8))
    assert layout.group_of == (0, 1, 0, 1, 2)


def test_flat_plan_writes_at_the_position_and_reads_from_zero() -> None:
    """Flat: write (position, T), read (0, position + T), base 0."""
    layout = SequenceLayout(config(None))
    layout.length = 7
    plan = layout.plan(0, 5, 3)
    assert (tuple(plan.write), tuple(plan.read), plan.base, plan.roll) == ((5, 3), (0, 8), 0, 0)


def commit(layout: SequenceLayout, layer: int, plan: StepPlan) -> None:
    """Take a plan as done."""
    layout.commit(layer, plan.origin, plan.stop, plan.turning)
    layout.went(plan.position, plan.tokens)


def test_ring_reads_one_run_that_never_wraps() -> None:
    """Over many laps the window is one run inside the pool, and the position's slot is inside it."""
    for window, max_write in [(1, 1), (4, 1), (4, None), (4, 9), (5, 3)]:
        layout = SequenceLayout(config(window, max_write=max_write, capacity=500))
        geometry = RingGeometry.of(LayerPolicy.ring(window), max_write)
        where: dict[int, int] = {}  # slot -> position, moved as the pool is rolled
        position = 0
        while position < 400:
            count = 1 + position % geometry.max_write
            layout.check(position, count)
            plan = layout.plan(0, position, count)
            if plan.roll:
                where = {(slot - plan.roll) % geometry.slots: held for slot, held in where.items()}
            for i in range(count):
                where[plan.write.start + i] = position + i
            read = [where[slot] for slot in range(plan.read.start, plan.read.stop)]
            assert read == list(range(max(0, position - window + 1), position + count))
            assert plan.read.stop <= geometry.slots
            layout.commit(0, plan.origin, plan.stop)
            position += count


@pytest.mark.parametrize("window", [256, 4096])
@pytest.mark.parametrize("max_write", [1, 4, None])
def test_ring_pool_is_at_most_2_1_windows(window: int, max_write: int | None) -> None:
    """The slack that spares the gather costs at most 2.1 windows of memory."""
    assert RingGeometry.of(LayerPolicy.ring(window), max_write).slots <= 2.1 * window


def test_plan_is_pure_and_commit_is_idempotent() -> None:
    """Planning changes nothing; committing a plan again changes nothing more."""
    layout = SequenceLayout(config(None, 4))
    before = (layout.length, layout.written, list(layout.origins))
    plan = layout.plan(0, 0, 3)
    assert (layout.length, layout.written, list(layout.origins)) == before
    layout.commit(0, plan.origin, plan.stop)
    once = (layout.length, layout.written, list(layout.origins))
    layout.commit(0, plan.origin, plan.stop)
    assert (layout.length, layout.written, list(layout.origins)) == once == (3, 3, [0, 0])


@pytest.mark.parametrize(
    ("start", "count", "error", "message"),
    [
        (0, 0, ValueError, "got 0 tokens"),
        (-1, 1, ValueError, "got a start of -1"),
        (11, 1, ValueError, "got a start of 11 on a cache of length 10.*1 cells between"),
        (10, 55, CapacityError, "end at 65, expected at most capacity=64"),
        (10, 5, CapacityError, "got 5 tokens in one step, expected at most max_write=4.*window=4"),
        (5, 1, ValueError, "got a start of 5.*written 10 positions, expected at least 6"),
    ],
)
def test_steps_that_no_layer_could_serve(start: int, count: int, error: type[Exception], message: str) -> None:
    """Each refusal gives the numbers and leaves the layout as it was."""
    layout = SequenceLayout(config(None, 4))
    for position in range(10):
        for layer in (0, 1):
            commit(layout, layer, layout.plan(layer, position, 1))
    before = (layout.length, layout.written, list(layout.origins))
    with pytest.raises(error, match=message):
        layout.check(start, count)
    assert (layout.length, layout.written, list(layout.origins)) == before


def test_rewind_floor_follows_max_write() -> None:
    """Window 4, max_write 1, length 40: 39 is the oldest length that leaves every window whole."""
    layout = SequenceLayout(config(4, max_write=1))
    for position in range(40):
        commit(layout, 0, layout.plan(0, position, 1))
    assert [length for length in range(41) if _can_rewind(layout, length)] == [0, 39, 40]


def test_after_a_rewind_to_the_floor_no_step_starts_before_it() -> None:
    """One position before the length is refused like any other whose window is gone."""
    layout = SequenceLayout(config(4, max_write=3))
    for position in range(40):
        commit(layout, 0, layout.plan(0, position, 1))
    assert layout.rewind(37)
    layout.check(37, 1)
    with pytest.raises(ValueError, match=r"got a start of 36.*expected at least 37"):
        layout.check(36, 1)


def test_second_rewind_counts_from_the_highest_position_ever_written() -> None:
    """Rewinding twice cannot reach cells that the first pass had overwritten."""
    layout = SequenceLayout(config(4, max_write=3))
    for position in range(40):
        commit(layout, 0, layout.plan(0, position, 1))
    assert layout.rewind(37)
    assert not layout.rewind(36)
    assert layout.length == 37


def test_writing_again_after_a_rewind_does_not_forget_the_highest_position() -> None:
    """Length 40, back to 37, one token: 36 needs position 33, which position 39 overwrote."""
    layout = SequenceLayout(config(4, max_write=3))
    for position in [*range(40), 37]:
        if position == 37 and layout.length == 40:
            assert layout.rewind(37)
        commit(layout, 0, layout.plan(0, position, 1))
    assert (layout.length, layout.written) == (38, 40)
    assert not layout.rewind(36)


def _can_rewind(layout: SequenceLayout, length: int) -> bool:
    kept = (layout.length, layout.written, list(layout.origins))
    possible = layout.rewind(length)
    layout.length, layout.written, layout.origins = kept
    return possible


@pytest.mark.parametrize("length", [-1, 11])
def test_rewind_refuses_to_grow_or_go_negative(length: int) -> None:
    """rewind says False, and changes nothing, for a length that is no earlier state."""
    layout = SequenceLayout(config(None))
    commit(layout, 0, layout.plan(0, 0, 10))
    assert not layout.rewind(length)
    assert layout.length == 10


def test_can_extend_counts_to_the_capacity() -> None:
    """can_extend is exact at the edge and False for a negative count."""
    layout = SequenceLayout(config(None, capacity=10))
    commit(layout, 0, layout.plan(0, 0, 4))
    assert [layout.can_extend(n) for n in (-1, 0, 6, 7)] == [False, True, True, False]


def test_a_group_size_that_has_no_effect_is_refused() -> None:
    """Without kv_bits nothing is grouped."""
    with pytest.raises(ValueError, match=r"CacheConfig\.kv_group_size: got 32 without kv_bits"):
        CacheConfig(8, 1, [LayerConfig(LayerPolicy.flat(), 1, 32)], "float16", kv_group_size=32)
