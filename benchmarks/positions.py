"""Reading a step's positions: the four options of ExecuTorch's review, per layer, for both dtypes.

A step of 32 layers reads the same tensor 32 times, so that is the unit: microseconds matter 32-fold.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from .common import LAYERS, PATHS, Timed, once, position_tensor, require


def _always_copy(position: mx.array) -> Any:
    """A host copy whatever the dtype."""
    return np.array(memoryview(position), dtype=np.int32)  # type: ignore[arg-type]


def _device_cast(position: mx.array) -> Any:
    """Cast on the device first, and wait for it: the regression that was (MLX makes it a no-op for int32)."""
    cast = position.astype(mx.int32)
    mx.eval(cast)
    return memoryview(cast)  # type: ignore[arg-type]


def _first_element(position: mx.array) -> Any:
    """Element 0 only: what suffices where every step is one contiguous run that nobody checks."""
    return position[0].item()


# "host" is what mlxcache does: int32 from the array's own buffer, int64 narrowed on the host.
OPTIONS = {"host": None, "copy": _always_copy, "device_cast": _device_cast, "first": _first_element}


class Positions(Timed):
    """32 reads of one position tensor."""

    # T: a decode step, a speculative draft, a small chunk, mlx-lm's prefill chunk, a long prompt at once.
    params = (list(OPTIONS), PATHS, [1, 16, 128, 2048, 16384])
    param_names = ("option", "path", "tokens")
    repeat = (12, 25, 0.1)

    def setup(self, option: str, path: str, tokens: int) -> None:
        self.position = once((path, tokens), lambda: position_tensor(0, tokens, path))
        self.read = OPTIONS[option] or require("host_positions")
        self.read(self.position)

    def time_read_32_layers(self, option: str, path: str, tokens: int) -> None:
        read, position = self.read, self.position
        for _ in range(LAYERS):
            read(position)
