"""What does not touch the cache: the speed of the machine in the same minutes.

A series divided by a control tells a slower cache from a slower machine. Three, since a machine slows down in
three ways: its interpreter, its memory, and the way its threads are woken (MLX evaluates in a thread of its own).
"""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from .common import DTYPE, HEAD_DIM, HEADS, LAYERS, Timed, once, random_tokens, synchronise


class Control(Timed):
    """Fixed work, the same on every commit for ever: never edit, add another."""

    rounds = 4
    repeat = (20, 60, 0.2)

    def setup(self) -> None:
        self.source, self.target = once("copy", lambda: (np.ones(1 << 20), np.empty(1 << 20)))
        self.steps = once("bare", BareSteps)

    def time_python(self) -> None:
        """A pure-Python loop of integers and a list."""
        total, items = 0, [0] * 64
        for i in range(3000):
            items[i & 63] = total
            total = (total + i * 7) & 0xFFFF

    def time_copy(self) -> None:
        """8 MiB copied by NumPy: memory, no MLX."""
        np.copyto(self.target, self.source)

    def time_mlx(self) -> None:
        """32 layers of two slice assignments and two reads on bare MLX arrays: the floor of a step."""
        self.steps()


class BareSteps:
    """The operations of a decode step at context 1024 with nothing around them."""

    def __init__(self) -> None:
        shape = (1, HEADS, 1024 + 64, HEAD_DIM)
        self.pools = [(mx.zeros(shape, DTYPE), mx.zeros(shape, DTYPE)) for _ in range(LAYERS)]
        self.token = random_tokens(1)
        mx.eval(self.pools)
        for _ in range(3):
            self()

    def __call__(self) -> None:
        token, outputs = self.token, []
        for keys, values in self.pools:
            keys[:, :, 1024:1025] = token
            values[:, :, 1024:1025] = token
            outputs.append(keys[:, :, :1025])
            outputs.append(values[:, :, :1025])
        synchronise(outputs)
