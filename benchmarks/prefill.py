"""A chunk of a prompt through 32 layers: here the bytes decide, and checks must vanish beside them."""

from __future__ import annotations

from .common import PATHS, Step, Timed, once, ratio, timed
from .control import BareSteps


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


class Relative:
    """A chunk over the control step of bare MLX, taken in turn in one process."""

    params = (PATHS, [16, 128])
    param_names = ("path", "tokens")
    unit = "ratio"
    timeout = Timed.timeout
    version = "1"

    def track_over_control(self, path: str, tokens: int) -> float:
        step = Step(path, 1024, tokens)
        return ratio(timed(step, step.rewind), timed(BareSteps()), rounds=250)
