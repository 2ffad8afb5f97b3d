"""How far each kind of step is from what the machine allows: the bytes it must move at the speed of a copy."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from .common import LAYERS, ON_GPU, Step, Timed, interleaved, kv_bytes, low, synchronise, timed


def _copy_bytes_per_second() -> float:
    """Bytes read and written a second, the best of twenty copies.

    On a CPU NumPy copies 4 MiB, which is what a step touches and what caches hold; on a GPU MLX copies 1 GiB, more
    than its caches hold.
    """
    if ON_GPU:
        source = mx.random.randint(0, 255, (1 << 28,))
        mx.eval(source)
        nbytes = source.nbytes

        def copy() -> None:
            synchronise([source + 1])
    else:
        host = np.random.default_rng(0).integers(0, 255, 1 << 22, dtype=np.uint8)
        target, nbytes = np.empty_like(host), host.nbytes

        def copy() -> None:
            np.copyto(target, host)

    seconds = [timed(copy)() for _ in range(20)]
    return 2 * nbytes / min(seconds)


class Limits:
    """The machine's copy bandwidth, and the share of it that each step reaches."""

    timeout = Timed.timeout
    version = "1"

    def track_copy_bandwidth(self) -> float:
        return _copy_bytes_per_second() / 1e9

    track_copy_bandwidth.unit = "GB/s"  # type: ignore[attr-defined]

    def track_fraction_of_limit(self, kind: str) -> float:
        """Time that reading the new tokens and writing them takes at copy speed, over the time taken.

        1 is the limit. Nothing else must move: what attention reads is a view of the pool.
        """
        count = {"decode": 1, "draft": 4, "chunk": 128, "prompt": 2048}[kind]
        step = Step("int32", 1024, count)
        (seconds,) = interleaved([timed(step, step.rewind)], 200)
        must_move = 2 * kv_bytes(count, layers=LAYERS)
        return must_move / _copy_bytes_per_second() / low(seconds)

    track_fraction_of_limit.unit = "fraction of the limit"  # type: ignore[attr-defined]
    track_fraction_of_limit.params = ["decode", "draft", "chunk", "prompt"]  # type: ignore[attr-defined]
    track_fraction_of_limit.param_names = ("kind",)  # type: ignore[attr-defined]
