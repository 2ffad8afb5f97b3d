"""Cost as a + b x size: the slope is where an update in place that turned into a copy shows first."""

from __future__ import annotations

import numpy as np

from .common import Step, interleaved, low, timed


def _slope(sizes: list[int], steps: list[Step]) -> float:
    """Seconds per unit of size, by least squares over the low quantiles of interleaved samples."""
    seconds = interleaved([timed(step, step.rewind) for step in steps], 300)
    return float(np.polyfit(sizes, [low(s) for s in seconds], 1)[0])


class Scaling:
    """Slopes of one token's step."""

    timeout = 180
    version = "1"

    def track_context(self) -> float:
        """8 layers: nanoseconds per 1024 tokens of context and layer. 0 in place; a copy would be 400,000."""
        sizes = [1024, 8192, 16384, 32768]
        return _slope(sizes, [Step("int32", size, layers=8) for size in sizes]) * 1024 / 8 * 1e9

    track_context.unit = "ns per 1024 tokens"  # type: ignore[attr-defined]

    def track_window(self) -> float:
        """8 full rings: nanoseconds per 1024 tokens of window and layer."""
        sizes = [256, 1024, 4096]
        steps = [Step("int32", 2 * size + size // 4, layers=8, window=size) for size in sizes]
        return _slope(sizes, steps) * 1024 / 8 * 1e9

    track_window.unit = "ns per 1024 tokens"  # type: ignore[attr-defined]

    def track_layers(self) -> float:
        """Microseconds for each further layer of a step."""
        sizes = [8, 16, 32]
        return _slope(sizes, [Step("int32", 1024, layers=size) for size in sizes]) * 1e6

    track_layers.unit = "us per layer"  # type: ignore[attr-defined]
