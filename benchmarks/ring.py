"""Sliding windows: a step on a full ring costs what a flat step costs, whatever the window.

As attention has it, which minds no order of the keys; `Ordered` is what it costs to read them oldest first.
"""

from __future__ import annotations

import mlx.core as mx

from .common import (
    ATTENDS,
    PATHS,
    Skip,
    Step,
    Timed,
    attending,
    kv_bytes,
    need_memory,
    once,
    ours,
    position_tensor,
    random_tokens,
    require,
)


class Ring(Timed):
    """One step on a ring that has wrapped, between two moves of its cells."""

    # Windows: a small one, where a lap is short (256), and Mistral 7B's (4096).
    # T: decoding, and a speculative draft.
    params = (PATHS, [256, 4096], [1, 4])
    param_names = ("path", "window", "tokens")

    def setup(self, path: str, window: int, tokens: int) -> None:
        # 2 windows and a quarter: full, wrapped, and in the middle of a lap.
        context = 2 * window + window // 4
        self.step = once((path, window, tokens), lambda: Step(path, context, tokens, window=window))
        self.step.rewind()

    def time_step(self, path: str, window: int, tokens: int) -> None:
        self.step()


class Lap(Timed):
    """A whole lap of one layer, token by token, with all that moves cells; divide by the window for one token."""

    params = ([256, 4096],)
    param_names = ("window",)
    repeat = (3, 10, 0.4)
    rounds = 2

    def setup(self, window: int) -> None:
        need_memory(kv_bytes(5 * window, layers=1))
        self.host_positions = require("host_positions")
        self.cache = once(window, lambda: ours(2 * window, layers=1, window=window))
        self.update = attending(self.cache, window)
        self.token = random_tokens(1)
        start = self.cache.length
        self.positions = [position_tensor(start + i, 1, "int32") for i in range(window + 1)]

    def time_lap(self, window: int) -> None:
        token = self.token
        for position in self.positions:
            spec = self.update(0, self.host_positions(position), token, token)
            mx.eval(spec.keys, spec.values)
            del spec


class Ordered(Lap):
    """The same lap for a caller who reads the keys oldest first: the pool is rolled where a window would wrap."""

    # Tokens that can be taken back: the pool has that many cells more than a window, and is rolled as seldom.
    params = ([256, 4096], ["0", "window"])
    param_names = ("window", "max_rewind")

    def setup(self, window: int, max_rewind: str) -> None:  # type: ignore[override]
        if not ATTENDS:
            raise Skip("this commit has one order for everybody: see Lap")
        need_memory(kv_bytes(5 * window, layers=1))
        self.host_positions = require("host_positions")
        back = 0 if max_rewind == "0" else window
        self.cache = once((window, max_rewind), lambda: ours(2 * window, layers=1, window=window, max_rewind=back))
        self.update = self.cache.update_and_fetch
        self.token = random_tokens(1)
        start = self.cache.length
        self.positions = [position_tensor(start + i, 1, "int32") for i in range(window + 1)]

    def time_lap(self, window: int, max_rewind: str) -> None:  # type: ignore[override]
        super().time_lap(window)
