"""Memory by MLX's own count, in bytes: what asv's peakmem (RSS, setup included) cannot separate."""

from __future__ import annotations

import gc
from collections.abc import Callable

import mlx.core as mx

from .common import (
    ATTENDS,
    DTYPE,
    HEAD_DIM,
    HEADS,
    Skip,
    Step,
    Timed,
    kv_bytes,
    need_memory,
    ours,
    random_tokens,
    require,
)


def _active() -> int:
    """Bytes active now, nothing waiting to be freed."""
    gc.collect()
    mx.clear_cache()
    return int(mx.get_active_memory())


def _peak(run: Callable[[], object]) -> int:
    """Bytes that `run` had at its peak beyond what was active before."""
    before = _active()
    mx.reset_peak_memory()
    run()
    # MLX notes a peak when it allocates: none is noted by what allocates nothing.
    return max(0, int(mx.get_peak_memory()) - before)


class Footprint:
    """What is held and what a step takes beside it, as multiples of what it cannot do without."""

    unit = "ratio"
    timeout = Timed.timeout
    version = "1"

    def track_decode_peak_of_held(self) -> float:
        """Peak of a decode step at context 4096 over what is held: 1, since an update in place needs nothing."""
        step = Step("int32", 4096)
        held = _active()
        return (held + _peak(step)) / held

    def track_cache_of_cells(self) -> float:
        """What making a cache of 4096 tokens in 32 layers leaves in memory, over the bytes of its cells."""
        before = _active()
        cache = ours(4096, slack=64)
        held = _active() - before
        cells = kv_bytes(4096 + 64)
        del cache
        return held / cells

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

    def track_turning_ring_of_promised(self) -> float:
        """What a ring that has settled holds where nothing can be taken back, in windows of 4096."""
        if not ATTENDS:
            raise Skip("this commit has no max_rewind")
        need_memory(1 << 28)
        cache = ours(3 * 4096, layers=1, window=4096, max_rewind=0)
        return float(cache.nbytes / (2 * 4096 * HEADS * HEAD_DIM * 2))

    track_turning_ring_of_promised.unit = "windows"  # type: ignore[attr-defined]
