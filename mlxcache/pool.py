"""One layer's storage for K or for V: `[1, H, slots, D]`, which knows slots and nothing of plans or policies.

MLX updates a buffer in place only while nobody else refers to it: an older slice that is still alive at
evaluation makes it copy the whole pool. So a pool hands out fresh slices, keeps none, and callers should drop
what they read before the next write is evaluated.
"""

from __future__ import annotations

import mlx.core as mx


class Pool:
    """A growing buffer of cells.

    Args:
        initial_slots: cells allocated now; clamped to `max_slots`, 0 is allowed.
        max_slots: the most cells ever.
        n_kv_heads: H.
        head_dim: D.
        dtype: the storage dtype; what is written is cast to it.

    Raises ValueError for sizes out of range.
    """

    __slots__ = ("array", "dtype", "head_dim", "max_slots", "n_kv_heads", "slots")

    def __init__(
        self, initial_slots: int, max_slots: int, n_kv_heads: int, head_dim: int, dtype: mx.Dtype
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
        self.dtype = dtype
        self.slots = min(initial_slots, max_slots)
        #: The cells. Index it, but do not keep it or a slice of it over a write.
        self.array = mx.zeros((1, n_kv_heads, self.slots, head_dim), dtype)
        # A lazy array belongs to the stream of the thread that made it; a cache may be used from another.
        mx.eval(self.array)

    @property
    def nbytes(self) -> int:
        """Bytes of the cells allocated now."""
        return int(self.array.nbytes)

    def write(self, start: int, update: mx.array) -> None:
        """Place `update`, `[1, H, n, D]`, at slots `[start, start + n)`; grows, and casts to the storage dtype.

        Raises ValueError, and changes nothing, for another shape or a run outside `[0, max_slots)`.
        """
        shape = tuple(update.shape)
        if len(shape) != 4 or (shape[0], shape[1], shape[3]) != (1, self.n_kv_heads, self.head_dim):
            raise ValueError(f"update: got shape {shape}, expected [1, {self.n_kv_heads}, n, {self.head_dim}]")
        stop = start + shape[2]
        if start < 0 or shape[2] < 1 or stop > self.max_slots:
            raise ValueError(
                f"update: got {shape[2]} cells at slot {start}, expected a run inside [0, {self.max_slots})"
            )
        self.reserve(stop)
        self.array[:, :, start:stop] = update

    def read(self, start: int, length: int) -> mx.array:
        """Cells `[start, start + length)` as `[1, H, length, D]`.

        Raises ValueError for a run outside `[0, slots)`: MLX itself would clamp it silently.
        """
        stop = start + length
        if start < 0 or length < 0 or stop > self.slots:
            raise ValueError(f"read: got slots [{start}, {stop}), expected a run inside [0, {self.slots})")
        return self.array[:, :, start:stop]

    def reserve(self, slots: int) -> None:
        """Grow until `slots` cells are there: doubling, at most `max_slots`; cells stay, new ones are zero.

        The peak is three times the old pool: the old cells and twice as many new ones.
        """
        if slots <= self.slots:
            return
        grown = max(self.slots, 1)
        while grown < slots:
            grown *= 2
        grown = min(grown, self.max_slots)
        array = mx.zeros((1, self.n_kv_heads, grown, self.head_dim), self.dtype)
        if self.slots:
            array[:, :, : self.slots] = self.array
        self.array = array
        self.slots = grown

    def roll(self, shift: int) -> None:
        """Move the first `shift` cells behind the others; the pool has all its slots afterwards."""
        self.reserve(self.max_slots)
        cells = self.array
        # MLX's CPU copy goes element by element: eight bytes at a time took 76 us where two took 181.
        wide = mx.uint64 if self.head_dim * self.dtype.size % 8 == 0 else self.dtype
        cells = cells.view(wide)
        rolled = mx.concatenate([cells[:, :, shift:], cells[:, :, :shift]], axis=2)
        self.array = rolled.view(self.dtype)
