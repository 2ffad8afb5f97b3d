"""A pool whose cells are quantised: the face of `Pool`, a half or a quarter of its bytes.

`mx.quantize` turns each group of values along the head's dimension into integer codes, a scale and a bias. The
three lie in three plain pools, so growth, rolling and placing are what they are there. A cell is quantised once,
when it is written, and does not change when its neighbours do.

Reading gives values of the storage dtype again: a read is a copy of the window, where a plain pool hands out a
view. That keeps every caller and every mask as they are; what it costs is in docs/profiles.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

import mlx.core as mx
import numpy as np

from mlxcache.kv.device import on_gpu
from mlxcache.kv.storage.pool import Pool, cell_index, check_update
from mlxcache.kv.storage.widths import GROUP_SIZES, WIDTHS, named

_INTEGERS: dict[int, Callable[[mx.array], mx.array]] = {
    bits: import_module(f"mlxcache.kv.storage.{name}").integers for bits, name in WIDTHS.items()
}


class QuantizedPool:
    """A growing buffer of quantised cells.

    Args:
        initial_slots: cells allocated now; clamped to `max_slots`, 0 is allowed.
        max_slots: the most cells ever.
        n_kv_heads: H.
        head_dim: D, a multiple of `group_size`.
        dtype: of what is read; what is written is cast to it before it is quantised.
        bits: for each code, one of `widths.WIDTHS`.
        group_size: values that share a scale and a bias, one of `widths.GROUP_SIZES`.

    A value read differs from the one written by at most one step of its group, `(max - min) / (2**bits - 1)`, and
    by the rounding of scale and bias to `dtype`: a tenth of a step more in float16, and one and a half steps more
    for 8 bits in bfloat16, whose own 8 bits are then the limit. Raises ValueError for sizes out of range.
    """

    __slots__ = ("bits", "group_size", "head_dim", "max_slots", "n_kv_heads", "planes")

    def __init__(
        self,
        initial_slots: int,
        max_slots: int,
        n_kv_heads: int,
        head_dim: int,
        dtype: mx.Dtype,
        bits: int = 8,
        group_size: int = 64,
    ) -> None:
        if bits not in WIDTHS:
            raise ValueError(f"bits: got {bits}, expected {named(tuple(WIDTHS))}")
        if group_size not in GROUP_SIZES or head_dim % group_size:
            raise ValueError(
                f"group_size: got {group_size} with head_dim={head_dim}, expected {named(GROUP_SIZES)}, a divisor "
                "of it"
            )
        self.max_slots = max_slots
        self.n_kv_heads = n_kv_heads
        self.head_dim = head_dim
        self.bits = bits
        self.group_size = group_size
        groups = head_dim // group_size
        #: The plain pools that hold the bytes: codes, scales and biases.
        self.planes: tuple[Pool, ...] = tuple(
            Pool(initial_slots, max_slots, n_kv_heads, width, plane_dtype)
            for width, plane_dtype in ((head_dim * bits // 32, mx.uint32), (groups, dtype), (groups, dtype))
        )

    @property
    def dtype(self) -> mx.Dtype:
        """Of what is read."""
        return self.planes[1].dtype

    @property
    def slots(self) -> int:
        """Cells allocated now."""
        return self.planes[0].slots

    @property
    def nbytes(self) -> int:
        """Bytes of the cells allocated now: codes, scales and biases."""
        return sum(plane.nbytes for plane in self.planes)

    def write(self, start: int, update: mx.array) -> None:
        """See `Pool.write`."""
        check_update(self, update)
        for plane, part in zip(self.planes, self.parts(update), strict=True):
            plane.write(start, part)

    def write_cells(self, indices: Sequence[int] | np.ndarray, update: mx.array) -> None:
        """See `Pool.write_cells`."""
        count = check_update(self, update)
        index = cell_index(indices, count, self.max_slots)
        self.reserve(int(max(indices)) + 1, count=count)
        self.place(index, update)

    def place(self, index: mx.array, update: mx.array) -> None:
        """See `Pool.place`."""
        for plane, part in zip(self.planes, self.parts(update), strict=True):
            plane.place(index, part)

    def read(self, start: int, length: int) -> mx.array:
        """Cells `[start, start + length)` as `[1, H, length, D]` in `dtype`, dequantised. See `Pool.read`."""
        return self.joined([plane.read(start, length) for plane in self.planes])

    def gather(self, rows: mx.array) -> mx.array:
        """See `Pool.gather`."""
        return self.joined([plane.gather(rows) for plane in self.planes])

    def reserve(self, slots: int, most: int = 0, count: int = 1) -> None:
        """See `Pool.reserve`."""
        for plane in self.planes:
            plane.reserve(slots, most, count)

    def roll(self, shift: int) -> None:
        """See `Pool.roll`."""
        for plane in self.planes:
            plane.roll(shift)

    def parts(self, update: mx.array) -> tuple[mx.array, ...]:
        """See `Pool.parts`: codes, scales and biases."""
        if update.dtype != self.dtype:
            update = update.astype(self.dtype)
        return tuple(mx.quantize(update, group_size=self.group_size, bits=self.bits))

    def joined(self, parts: Sequence[mx.array]) -> mx.array:
        """See `Pool.joined`: dequantised."""
        codes, scales, biases = parts
        if on_gpu():
            return mx.dequantize(codes, scales, biases, group_size=self.group_size, bits=self.bits)
        return _by_element(codes, scales, biases, self.bits)


def _by_element(codes: mx.array, scales: mx.array, biases: mx.array, bits: int) -> mx.array:
    """What `mx.dequantize` gives, rounded once where it rounds twice: the CPU's is 2 to 4 times as slow."""
    # In float32: processors without float16 arithmetic convert for every operation.
    values = _INTEGERS[bits](codes).reshape(*scales.shape, -1).astype(mx.float32)
    wide = values * scales.astype(mx.float32)[..., None] + biases.astype(mx.float32)[..., None]
    return wide.astype(scales.dtype).reshape(*codes.shape[:-1], -1)
