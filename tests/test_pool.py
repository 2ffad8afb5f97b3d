"""The pool: runs, growth, rolls, bounds."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlxcache import Pool


def _cells(count: int, first: int = 1, heads: int = 2, dim: int = 4) -> mx.array:
    """Cell i holds the value first + i everywhere."""
    values = mx.arange(first, first + count, dtype=mx.float32)
    return mx.broadcast_to(values[None, None, :, None], (1, heads, count, dim))


def _values(cells: mx.array) -> list[float]:
    array = np.array(cells.astype(mx.float32))
    assert (array == array[:, :1, :, :1]).all()
    return [float(x) for x in array[0, 0, :, 0]]


def test_what_was_written_is_read() -> None:
    """A run comes back from its slots, zeros elsewhere."""
    pool = Pool(8, 8, 2, 4, mx.float32)
    pool.write(2, _cells(3))
    assert _values(pool.read(0, 8)) == [0, 0, 1, 2, 3, 0, 0, 0]


@pytest.mark.parametrize(("initial", "steps"), [(0, [1, 2, 4, 8, 10]), (1, [1, 2, 4, 8, 10]), (3, [3, 6, 10])])
def test_growth_doubles_and_stops_at_the_cap(initial: int, steps: list[int]) -> None:
    """From max(current, 1) it doubles until the run fits, never beyond max_slots; cells keep their slot."""
    pool = Pool(initial, 10, 2, 4, mx.float32)
    seen = []
    for slot in range(10):
        pool.write(slot, _cells(1, first=slot + 1))
        if not seen or seen[-1] != pool.slots:
            seen.append(pool.slots)
    assert seen == steps
    assert _values(pool.read(0, 10)) == list(range(1, 11))


def test_new_cells_are_zero_after_growth() -> None:
    """Growing leaves what was there and zeros behind it."""
    pool = Pool(2, 8, 2, 4, mx.float32)
    pool.write(0, _cells(2))
    pool.reserve(5)
    assert _values(pool.read(0, 8)) == [1, 2, 0, 0, 0, 0, 0, 0]


def test_initial_slots_above_the_cap_are_clamped() -> None:
    """A pool never has more than max_slots."""
    assert Pool(100, 6, 2, 4, mx.float32).slots == 6


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
@pytest.mark.parametrize("dim", [3, 4, 8])
def test_roll_moves_the_front_behind_the_rest(dtype: mx.Dtype, dim: int) -> None:
    """Rolling is a rotation for every dtype and width, those that do not fill eight bytes too."""
    pool = Pool(7, 7, 2, dim, dtype)
    pool.write(0, _cells(7, dim=dim))
    pool.roll(3)
    assert _values(pool.read(0, 7)) == [4, 5, 6, 7, 1, 2, 3]
    assert pool.array.dtype == dtype


def test_writing_casts_to_the_storage_dtype() -> None:
    """float32 updates land in a float16 pool as float16."""
    pool = Pool(4, 4, 2, 4, mx.float16)
    pool.write(0, _cells(2))
    assert pool.read(0, 2).dtype == mx.float16


@pytest.mark.parametrize(
    ("start", "shape", "message"),
    [
        (0, (1, 1, 1, 4), r"got shape \(1, 1, 1, 4\), expected \[1, 2, n, 4\]"),
        (0, (2, 2, 1, 4), r"got shape \(2, 2, 1, 4\)"),
        (0, (1, 2, 1, 1), r"got shape \(1, 2, 1, 1\)"),
        (0, (2, 1, 4), r"got shape \(2, 1, 4\)"),
        (-1, (1, 2, 1, 4), r"got 1 cells at slot -1, expected a run inside \[0, 8\)"),
        (7, (1, 2, 2, 4), r"got 2 cells at slot 7"),
        (3, (1, 2, 0, 4), r"got 0 cells at slot 3"),
    ],
)
def test_a_refused_write_changes_nothing(start: int, shape: tuple[int, ...], message: str) -> None:
    """Wrong shapes (H or D of 1 would broadcast) and runs out of bounds leave bytes and slots as they were."""
    pool = Pool(2, 8, 2, 4, mx.float32)
    pool.write(0, _cells(2))
    before = (pool.slots, np.array(pool.array).tobytes())
    with pytest.raises(ValueError, match=message):
        pool.write(start, mx.ones(shape))
    assert (pool.slots, np.array(pool.array).tobytes()) == before


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, 5), (4, 1), (0, -1)])
def test_reads_are_bounded_by_the_current_slots(start: int, length: int) -> None:
    """MLX would clamp a read past the end; the pool refuses it, below its cap too."""
    pool = Pool(4, 8, 2, 4, mx.float32)
    with pytest.raises(ValueError, match=r"read: got slots .*expected a run inside \[0, 4\)"):
        pool.read(start, length)


@pytest.mark.parametrize(
    ("sizes", "name"),
    [
        ((-1, 8, 2, 4), "initial_slots"),
        ((1, 0, 2, 4), "max_slots"),
        ((1, 8, 0, 4), "n_kv_heads"),
        ((1, 8, 2, 0), "head_dim"),
    ],
)
def test_sizes_out_of_range_are_named(sizes: tuple[int, int, int, int], name: str) -> None:
    """A pool of impossible size is refused by the argument's name."""
    with pytest.raises(ValueError, match=f"{name}: got"):
        Pool(*sizes, mx.float32)


@pytest.mark.parametrize("shift", [2, 4, 6])
def test_long_rows_are_rolled_alike(shift: int) -> None:
    """Where whole rows of many bytes move, the cells come in the same order, in every head."""
    pool = Pool(8, 8, 3, 4096, mx.float32)
    pool.write(0, _cells(8, heads=3, dim=4096))
    pool.roll(shift)
    assert _values(pool.read(0, 8)) == [*range(shift + 1, 9), *range(1, shift + 1)]
