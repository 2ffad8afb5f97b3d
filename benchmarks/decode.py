"""One token through 32 layers with one evaluation: the step that a user waits for."""

from __future__ import annotations

from .common import PATHS, Step, Timed, once, ratio, timed
from .control import BareSteps


class Decode(Timed):
    """A flat cache at a context: an in-place update costs the same at any of them."""

    # Head sizes: Llama 3.2 1B (64), Phi-2 (80: no power of two), Llama 3 8B (128), Gemma (256).
    # Contexts: a short chat, a page, a document, and one at which a copy of the pool would cost 1000x.
    params = (PATHS, [64, 80, 128, 256], [128, 1024, 4096, 32768])
    param_names = ("path", "head_dim", "context")

    def setup(self, path: str, head_dim: int, context: int) -> None:
        self.step = once((path, head_dim, context), lambda: Step(path, context, head_dim=head_dim))
        self.step.rewind()

    def time_step(self, path: str, head_dim: int, context: int) -> None:
        self.step()


class Relative:
    """The same step over the control step of bare MLX, taken in turn in one process.

    The series to judge a commit by on a machine that others use: what slows both leaves the ratio alone.
    """

    params = (PATHS, [64, 128], [128, 1024, 4096])
    param_names = ("path", "head_dim", "context")
    unit = "ratio"
    timeout = Timed.timeout
    version = "1"

    def track_over_control(self, path: str, head_dim: int, context: int) -> float:
        step = Step(path, context, head_dim=head_dim)
        return ratio(timed(step, step.rewind), timed(BareSteps()))
