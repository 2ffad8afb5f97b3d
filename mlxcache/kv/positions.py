"""A step's positions on the host.

The layers of a step read the same position tensor. int32 is read from the array's own buffer; int64 is narrowed
here, on the host. Casting on the device instead would build and wait for a new array in every layer: 14 us a
layer on a CPU and 15 to 21 on a GPU in ExecuTorch's off-graph cache (pull request 22037), once a real regression.
"""

from __future__ import annotations

from array import array

import mlx.core as mx
import numpy as np

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
# A decode step or a draft: so few are narrowed faster one by one than by calling NumPy.
_FEW = 16


def host_positions(position: mx.array) -> memoryview:
    """The positions as a 1-D row-contiguous int32 buffer on the host.

    Args:
        position: `[T]`, int32 or int64. Evaluated if it is not yet; every later layer of the step pays nothing.

    Returns:
        A memoryview of format "i". For a row-contiguous int32 array it is the array's own memory, and stays
        valid and unchanged whatever the caller then does with the array; any other layout and int64 are copied.

    Raises:
        ValueError: not an `mx.array`, another dtype, not 1-D, or an int64 value outside int32.
    """
    if not isinstance(position, mx.array):
        raise ValueError(f"position: got {type(position).__name__}, expected an mx.array of int32 or int64")
    dtype = position.dtype
    if dtype == mx.int32:
        # A memoryview pins its exporter but not that object's storage: `p += 1` or `p[0] = x` would rebind the
        # caller's array and free what we read. This second handle is ours alone, so its storage stays.
        # MLX's stubs know the buffer in the wheels for Python 3.13 and omit it in those for 3.11.
        view = memoryview(position.astype(mx.int32))  # type: ignore[arg-type, unused-ignore]
        if view.ndim != 1:
            raise _not_1d(position)
        # A strided view carries right strides; readers of a flat buffer would not look at them.
        return view if view.c_contiguous else np.ascontiguousarray(view).data
    if dtype == mx.int64:
        view = memoryview(position)  # type: ignore[arg-type, unused-ignore]
        if view.ndim != 1:
            raise _not_1d(position)
        return _narrowed(view)
    raise ValueError(f"position: got dtype {dtype}, expected mlx.core.int32 or mlx.core.int64")


def _narrowed(view: memoryview) -> memoryview:
    if len(view) <= _FEW:
        try:
            return memoryview(array("i", view.tolist()))
        except OverflowError:  # contextlib.suppress would cost a third of the whole
            pass  # below it is named
    wide = np.asarray(view)
    # One pass serves every valid step: the union of the bits shows a value past int32 and a negative alike.
    bits = int(np.bitwise_or.reduce(wide))
    if not 0 <= bits <= _INT32_MAX and (wide.min() < _INT32_MIN or wide.max() > _INT32_MAX):
        index = int(np.flatnonzero((wide < _INT32_MIN) | (wide > _INT32_MAX))[0])
        raise ValueError(
            f"position[{index}]: got {int(wide[index])}, expected a value that fits int32 "
            f"({_INT32_MIN} to {_INT32_MAX})"
        )
    return wide.astype(np.int32).data


def _not_1d(position: mx.array) -> ValueError:
    return ValueError(f"position: got shape {tuple(position.shape)}, expected 1-D, one position per query token")
