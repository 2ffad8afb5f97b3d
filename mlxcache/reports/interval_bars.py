"""Intervals drawn with characters, for places that show text and no pictures, such as a comment on GitHub.

              -5 %        0       +5 %
decode.step     .         |    ├──●──┤
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# Characters left and right of zero.
_HALF: Final = 24
_SCALES: Final = (0.02, 0.05, 0.10, 0.20, 0.50, 1.0)


@dataclass(frozen=True)
class Bar:
    """One series: relative change and its 95 % interval."""

    name: str
    change: float
    low: float
    high: float


def draw(bars: Sequence[Bar]) -> list[str]:
    """One line a bar below a scale; ends that are off it are arrows. Empty without bars."""
    known = [bar for bar in bars if math.isfinite(bar.change)]
    if not known:
        return []
    reach = max(abs(end) for bar in known for end in (bar.change, bar.low, bar.high) if math.isfinite(end))
    scale = next((scale for scale in _SCALES if scale >= reach), _SCALES[-1])
    width = max(len(bar.name) for bar in known)
    left, right = f"-{scale:.0%}", f"+{scale:.0%}"
    head = left + "0".rjust(_HALF - len(left) + 1) + right.rjust(_HALF)
    return [" " * (width + 2) + head, *(f"{bar.name.ljust(width)}  {_line(bar, scale)}".rstrip() for bar in known)]


def _line(bar: Bar, scale: float) -> str:
    cells = [" "] * (2 * _HALF + 1)
    cells[_HALF] = "|"
    low, high = _place(bar.low, scale), _place(bar.high, scale)
    for place in range(low + 1, high):
        cells[place] = "─"
    cells[low] = "├" if bar.low >= -scale else "◄"
    cells[high] = "┤" if bar.high <= scale else "►"
    cells[_place(bar.change, scale)] = "●"
    return "".join(cells)


def _place(value: float, scale: float) -> int:
    return _HALF + round(_HALF * min(max(value / scale, -1.0), 1.0))
