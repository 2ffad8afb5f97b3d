"""One layer's storage for K or for V: `[1, H, slots, D]`, which knows slots and nothing of plans or policies.

MLX updates a buffer in place only while nobody else refers to it: an older slice that is still alive at
evaluation makes it copy the whole pool. So a pool hands out fresh slices, keeps none, and callers should drop
what they read before the next write is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import gcd
from typing import Protocol

import mlx.core as mx
import numpy as np

# Bytes from which rows are rolled by MLX's gather, which copies each row whole: 69 us where a copy in pieces of
# eight bytes takes 81 and of two 190 (docs/profiles.md).
LONG_ROW = 1024

# Cells by which a pool grows, as in mlx-lm. Fewer would copy all cells more often, more hold more than its caches.
GROWTH = 256


class Pool:
    """A growing buffer of cells.

    Args:
        initial_slots: cells allocated now; clamped to `max_slots`, 0 is allowed.
        max_slots: the most cells ever.
        n_kv_heads: H.
        head_dim: D.
        dtype: the storage dtype; what is written is cast to it.
        sliced: whether attention is handed slices that start behind the first cell. Such a pool never has whole
            blocks of `GROWTH` cells, but one cell more: on an NVIDIA GPU MLX 0.32 takes a slice of a pool of
            whole blocks for its beginning (`unslice_kv` in its scaled_dot_product_attention.cpp).

    Raises ValueError for sizes out of range.
    """

    __slots__ = ("_sliced", "array", "aside", "head_dim", "max_slots", "n_kv_heads", "slots")

    def __init__(
        self,
        initial_slots: int,
        max_slots: int,
        n_kv_heads: int,
        head_dim: int,
        dtype: mx.Dtype,
        *,
        sliced: bool = False,
    ) -> None:
        for name, value, least in (
            ("initial_slots", initial_slots, 0),
            ("max_slots", max_slots, 1),
            ("n_kv_heads", n_kv_heads, 1),
            ("head_dim", head_dim, 1),
        ):
            if value < least:
                raise ValueError(f"{name}: got {value}, expected at least {least}")
        self.max_slots = max_slots
        self.n_kv_heads = n_kv_heads
        self.head_dim = head_dim
        self._sliced = sliced
        self.slots = self._allowed(initial_slots)
        #: The cells. Index it, but do not keep it or a slice of it over a write.
        self.array = mx.zeros((1, n_kv_heads, self.slots, head_dim), dtype)
        # A lazy array belongs to the stream of the thread that made it; a cache may be used from another.
        mx.eval(self.array)
        #: Cells that a ring has no room for, `[1, H, n, D]`, by the position of the first: `ring_moves.py`.
        self.aside: list[tuple[int, mx.array]] = []

    @property
    def dtype(self) -> mx.Dtype:
        """The storage dtype."""
        return self.array.dtype

    @property
    def wide(self) -> mx.Dtype:
        """The dtype to copy cells by: MLX's CPU copy goes element by element, so eight bytes at a time."""
        return mx.uint64 if self.head_dim * self.dtype.size % 8 == 0 else self.dtype

    @property
    def planes(self) -> tuple[Pool, ...]:
        """The plain pools that hold the bytes: this one."""
        return (self,)

    @property
    def nbytes(self) -> int:
        """Bytes of the cells allocated now."""
        return int(self.array.nbytes) + sum(int(cells.nbytes) for _, cells in self.aside)

    def parts(self, update: mx.array) -> tuple[mx.array, ...]:
        """What is stored of `update`, one array for each of `planes`."""
        return (update if update.dtype == self.dtype else update.astype(self.dtype),)

    def joined(self, parts: Sequence[mx.array]) -> mx.array:
        """What is read where the planes hold `parts`."""
        return parts[0]

    def write(self, start: int, update: mx.array) -> None:
        """Place `update`, `[1, H, n, D]`, at slots `[start, start + n)`; grows, and casts to the storage dtype.

        Raises ValueError, and changes nothing, for another shape or a run outside `[0, max_slots)`.
        """
        count = check_update(self, update)
        stop = start + count
        if start < 0 or count < 1 or stop > self.max_slots:
            raise ValueError(
                f"update: got {count} cells at slot {start}, expected a run inside [0, {self.max_slots})"
            )
        self.reserve(stop, count=count)
        self.array[:, :, start:stop] = update

    def write_cells(self, indices: Sequence[int] | np.ndarray, update: mx.array) -> None:
        """Place `update`, `[1, H, n, D]`, at `n` distinct slots in any order; grows and casts as `write` does.

        Raises ValueError, and changes nothing, for another shape, for indices that repeat, and for one outside
        `[0, max_slots)`.
        """
        count = check_update(self, update)
        index = cell_index(indices, count, self.max_slots)
        self.reserve(int(max(indices)) + 1, count=count)
        self.place(index, update)

    def place(self, index: mx.array, update: mx.array) -> None:
        """Do what `write_cells` does, unchecked and inside the slots there are; `index` is from `cell_index`."""
        (update,) = self.parts(update)
        # Three times as fast as `array[:, :, index] = update` (12 us against 32 at 4 cells, 37 against 123 at 32).
        self.array = mx.put_along_axis(self.array, index, update, 2)

    def read(self, start: int, length: int) -> mx.array:
        """Cells `[start, start + length)` as `[1, H, length, D]`.

        Raises ValueError for a run outside `[0, slots)`: MLX itself would clamp it silently.
        """
        stop = start + length
        if start < 0 or length < 0 or stop > self.slots:
            raise ValueError(f"read: got slots [{start}, {stop}), expected a run inside [0, {self.slots})")
        return self.array[:, :, start:stop]

    def gather(self, rows: mx.array) -> mx.array:
        """Cells as `[B, H, n, D]`, copied; `rows` is from `row_index`, for the slots there are now."""
        # By rows of D values, which MLX copies whole: 156 us for 1024 cells of 8 heads where take needs 6500.
        return mx.take(mx.flatten(self.array, 0, 2), rows, 0)

    def reserve(self, slots: int, most: int = 0, count: int = 1) -> None:
        """Grow until `slots` cells are there, for a write of the last `count` of them; the others stay.

        It doubles while that is little, and takes whole blocks of `GROWTH` for the new cells from then on: what
        mlx-lm's caches take, so that a pool never holds more. The limit is `most` where that is enough, else
        `max_slots`. While it grows it holds the old cells and the new ones.
        """
        if slots <= self.slots:
            return
        grown = max(self.slots, 1)
        while grown < slots:
            grown *= 2
        grown = min(grown, slots - count + -(-count // GROWTH) * GROWTH)
        grown = self._allowed(min(grown, most) if slots <= most else grown)
        kept = self.slots if count < slots else 0  # what is written next may be all that there is
        more = mx.zeros((1, self.n_kv_heads, grown - kept, self.head_dim), self.dtype)
        self.array = mx.concatenate([self.array, more], axis=2) if kept else more
        self.slots = grown

    def _allowed(self, slots: int) -> int:
        slots = min(slots, self.max_slots)
        return slots + 1 if self._sliced and slots and slots % GROWTH == 0 else slots

    def begin_again(self) -> None:
        """Be a ring in line again, from the first slot on, whatever the cells are: nothing is aside."""
        self.aside = []
        if self._sliced:  # one that turns may have any number of cells
            self.reserve(self._allowed(self.slots))

    def roll(self, shift: int) -> None:
        """Move the first `shift` cells behind the others; the pool has all its slots afterwards."""
        self.reserve(self.max_slots)
        cells = self.array
        unit = gcd(shift, self.slots)
        if unit * self.head_dim * self.dtype.size >= LONG_ROW:
            rows = cells.reshape(self.n_kv_heads * self.slots // unit, unit * self.head_dim)
            order = _rolled_rows(self.n_kv_heads, self.slots // unit, shift // unit)
            self.array = rows[order].reshape(cells.shape)
            return
        cells = cells.view(self.wide)
        rolled = mx.concatenate([cells[:, :, shift:], cells[:, :, :shift]], axis=2)
        self.array = rolled.view(self.dtype)


@cache
def _rolled_rows(heads: int, rows: int, shift: int) -> mx.array:
    """The index `[heads * rows]` of rows `[heads, rows]` with each head's first `shift` behind the others."""
    each = np.roll(np.arange(rows, dtype=np.uint32), -shift)
    order = mx.array((np.arange(heads, dtype=np.uint32)[:, None] * rows + each).ravel())
    mx.eval(order)
    return order


class PoolShape(Protocol):
    """What a pool is to the checks: the shape of its cells."""

    n_kv_heads: int
    head_dim: int


def check_update(pool: PoolShape, update: mx.array) -> int:
    """The number of cells in `update`; a ValueError where it is not `[1, H, n, D]`."""
    shape = tuple(update.shape)
    if len(shape) != 4 or (shape[0], shape[1], shape[3]) != (1, pool.n_kv_heads, pool.head_dim):
        raise ValueError(f"update: got shape {shape}, expected [1, {pool.n_kv_heads}, n, {pool.head_dim}]")
    return int(shape[2])


def row_index(cells: np.ndarray, n_kv_heads: int, slots: int) -> mx.array:
    """Slots `[B, n]` as the index that `Pool.gather` takes of a pool with `slots` slots: `[B, H, n]`, uint32."""
    # Spread over the heads by the device: made on the host it took a millisecond for 8 sequences of 16,000.
    heads = mx.array(np.arange(n_kv_heads, dtype=np.uint32) * np.uint32(slots))
    return heads[None, :, None] + mx.array(cells.astype(np.uint32)[:, None, :])


def cell_index(indices: Sequence[int] | np.ndarray, count: int, max_slots: int) -> mx.array:
    """Distinct slots as the index that `Pool.place` takes, uint32 `[1, 1, count, 1]`.

    Raises ValueError for another count, an index outside `[0, max_slots)` and one that repeats.
    """
    array = np.asarray(indices)
    if count < 1 or array.shape != (count,) or array.dtype.kind not in "iu":
        raise ValueError(
            f"indices: got {array.dtype} of shape {array.shape}, expected {max(count, 1)} integers, 1-D"
        )
    if array.min() < 0 or array.max() >= max_slots:
        raise ValueError(
            f"indices: got slots {array.min()} to {array.max()}, expected them inside [0, {max_slots})"
        )
    if np.unique(array).size != count:
        raise ValueError(f"indices: got {count} slots of which some repeat, expected distinct ones")
    return mx.array(array.astype(np.uint32)[None, None, :, None])
