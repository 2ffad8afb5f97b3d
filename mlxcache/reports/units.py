"""Numbers as people read them: 12.3 ms, 4.1 MiB, +5.2 %."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))


def format_value(value: float, unit: str) -> str:
    """Three significant digits, in a unit that fits."""
    if not math.isfinite(value):
        return "n/a"
    scales = {"seconds": _SECONDS, "bytes": _BYTES}.get(unit)
    if scales is None:
        # 1,000 hits, not 1e+03 hits; what is very large or very small stays in powers of ten.
        if 1000 <= abs(value) < 1e9:
            return f"{value:,.0f} {unit}".strip()
        return f"{value:.3g} {unit}".strip()
    # 999.6 µs would be "1e+03 µs" in three digits.
    size = abs(float(f"{value:.3g}"))
    scale, name = next(((s, n) for s, n in scales if size >= s), scales[-1])
    shown = float(f"{value / scale:.3g}")
    if shown and not 1e-6 <= abs(shown) < 1e9:
        return f"{shown:.3g} {name}"  # nothing that runs: hundreds of zeros would tell no more
    digits = max(0, 2 - math.floor(math.log10(abs(shown)))) if shown else 0
    return f"{shown:.{digits}f} {name}"


def format_change(change: float) -> str:
    """A relative change with its sign: +5.2 %; factors from a doubling on: x2.1."""
    if not math.isfinite(change):
        return "n/a"
    if change >= 1.0:
        return f"x{1.0 + change:.3g}"
    return f"{100.0 * change:+.1f} %"


def change_of(row: Mapping[Any, Any]) -> str:
    """How much a row of `change_points` changed: relatively, or in its unit where there is no per cent."""
    if math.isfinite(row["magnitude"]) or "difference" not in row:
        return format_change(float(row["magnitude"]))
    text = format_value(float(row["difference"]), str(row["unit"]))
    return text if text.startswith("-") else f"+{text}"


def interval_of(row: Mapping[Any, Any]) -> str:
    """The 95 % interval of `change_of`, said alike."""
    if math.isfinite(row["magnitude"]) or "difference" not in row:
        ends = [float(row["ci95_low"]), float(row["ci95_high"])]
        return " to ".join(map(format_change, ends)) if all(map(math.isfinite, ends)) else "open"
    ends = [float(row["difference_ci95_low"]), float(row["difference_ci95_high"])]
    return " to ".join(format_value(end, str(row["unit"])) for end in ends)
