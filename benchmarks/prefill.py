"""A chunk of a prompt through 32 layers: here the bytes decide, and checks must vanish beside them."""

from __future__ import annotations

from .common import PATHS, Step, Timed, once


class Prefill(Timed):
    """A chunk stored behind 1024 tokens of context."""

    # T: where checks and bytes weigh alike, where the bytes begin to decide, mlx-lm's default chunk.
    params = (PATHS, [16, 128, 2048], [64, 128])
    param_names = ("path", "tokens", "head_dim")
    repeat = (5, 20, 0.25)

    def setup(self, path: str, tokens: int, head_dim: int) -> None:
        self.step = once((path, tokens, head_dim), lambda: Step(path, 1024, tokens, head_dim))
        self.step.rewind()

    def time_chunk(self, path: str, tokens: int, head_dim: int) -> None:
        self.step()
