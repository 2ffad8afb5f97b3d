"""Memory by MLX's own count, in bytes: what asv's peakmem (RSS, setup included) cannot separate."""

from __future__ import annotations

import gc
from collections.abc import Callable

import mlx.core as mx

from .common import DTYPE, HEAD_DIM, HEADS, Step, Timed, need_memory, ours, random_tokens, require


def _peak(run: Callable[[], object]) -> int:
    """Bytes that `run` had at its peak beyond what was active before."""
    gc.collect()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    run()
    return int(mx.get_peak_memory()) - int(before)


class Footprint:
    """Peaks over what is held already."""

    unit = "bytes"
    timeout = Timed.timeout
    version = "1"

    def track_decode_peak(self) -> int:
        """A decode step at context 4096: an update in place needs next to nothing."""
        return _peak(Step("int32", 4096))

    track_decode_peak.unit = "bytes"  # type: ignore[attr-defined]

    def track_growth_peak_of_old_pool(self) -> float:
        """Peak while a pool of 8192 slots doubles, as a multiple of the old pool (held cells included)."""
        pool = require("Pool")(8192, 1 << 16, HEADS, HEAD_DIM, DTYPE)
        old, token = pool.nbytes, random_tokens(1)

        def grow() -> None:
            pool.write(8192, token)
            mx.eval(pool.array)

        return (_peak(grow) + old) / old

    track_growth_peak_of_old_pool.unit = "old pools"  # type: ignore[attr-defined]

    def track_ring_of_window(self) -> float:
        """What a full ring of window 4096 holds, in windows."""
        need_memory(1 << 28)
        cache = ours(3 * 4096, layers=1, window=4096)
        return float(cache.nbytes / (2 * 4096 * HEADS * HEAD_DIM * 2))

    track_ring_of_window.unit = "windows"  # type: ignore[attr-defined]
