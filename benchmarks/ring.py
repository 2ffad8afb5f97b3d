"""Sliding windows: a step on a full ring costs what a flat step costs, whatever the window."""

from __future__ import annotations

import mlx.core as mx

from .common import PATHS, Step, Timed, kv_bytes, need_memory, once, ours, position_tensor, random_tokens, require


class Ring(Timed):
    """One step on a ring that has wrapped, between two rolls of its pool."""

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
    """A whole lap of one layer, token by token, the roll included; divide by the window for one token."""

    params = ([256, 4096],)
    param_names = ("window",)
    repeat = (3, 10, 0.4)
    rounds = 2

    def setup(self, window: int) -> None:
        need_memory(kv_bytes(5 * window, layers=1))
        self.host_positions = require("host_positions")
        self.cache = once(window, lambda: ours(2 * window, layers=1, window=window))
        self.token = random_tokens(1)
        start = self.cache.length
        self.positions = [position_tensor(start + i, 1, "int32") for i in range(window + 1)]

    def time_lap(self, window: int) -> None:
        token = self.token
        for position in self.positions:
            spec = self.cache.update_and_fetch(0, self.host_positions(position), token, token)
            mx.eval(spec.keys, spec.values)
            del spec
