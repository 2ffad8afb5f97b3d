"""Numbers on pages and axes: the unit follows the top of an axis, the digits follow the step between its ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mlxcache.reports.units import format_value

TIMES: Final = "\N{MULTIPLICATION SIGN}"
_SCALES: Final = {
    "seconds": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    "bytes": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
}
_LARGE: Final = ((1e9, "billion"), (1e6, "million"))
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_LOG_STEPS: Final = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0))


@dataclass(frozen=True, slots=True)
class Ticks:
    """Places along an axis with their labels, and the unit that the axis' title names."""

    places: tuple[float, ...]
    labels: tuple[str, ...]
    unit: str


def value_text(value: float, unit: str) -> str:
    """A value with its unit; a ratio is a factor, and a count in millions has four digits."""
    if unit == "ratio":
        return f"{TIMES}{value:.3g}" if math.isfinite(value) else "n/a"
    size, name = scale_of(unit, value)
    if unit not in _SCALES and size > 1.0:
        return f"{value / size:.4g} {name}"
    return format_value(value, name if unit not in _SCALES else unit)


def values_text(values: Sequence[float], unit: str) -> str:
    """Values with arrows between them; a unit that all share stands once, at the end."""
    texts = [value_text(value, unit) for value in values]
    tails = {text.partition(" ")[2] for text in texts}
    if len(tails) == 1 and "n/a" not in texts:
        texts[:-1] = [text.partition(" ")[0] for text in texts[:-1]]
    return " → ".join(texts)


def course_text(before: float, after: float, newest: float, unit: str) -> str:
    """A change's two levels and where the series is now."""
    now = value_text(newest, unit)
    rest = "still so" if now == value_text(after, unit) else f"now {now}"
    return f"{values_text([before, after], unit)}, {rest}"


def scale_of(unit: str, top: float) -> tuple[float, str]:
    """What values are divided by for an axis that ends at `top`, and the name of the unit then."""
    if unit == "ratio":
        return 1.0, ""
    scales = _SCALES.get(unit)
    if scales is None:
        own = "" if unit == "unit" else unit  # asv's name for none
        return next(
            ((size, f"{name} {own}".strip()) for size, name in _LARGE if size <= abs(top) < 1e15), (1.0, own)
        )
    return next(((size, name) for size, name in scales if abs(top) >= size), scales[-1])


def ticks(low: float, high: float, unit: str, most: int = 6) -> Ticks:
    """Round, even places between low and high."""
    size, name = scale_of(unit, max(abs(low), abs(high)))
    span = (high - low) / size
    raw = span / max(1, most - 1)
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    step = power * next(s for s in _STEPS if s * power >= raw * 0.999999)
    first = math.ceil(low / size / step - 1e-9)
    last = math.floor(high / size / step + 1e-9)
    digits = decimals(step)
    sign = TIMES if unit == "ratio" else ""
    shown = [n * step for n in range(first, last + 1)]
    labels = tuple(f"{sign}{value:,.{digits}f}" if abs(value) < 1e7 else f"{sign}{value:.3g}" for value in shown)
    return Ticks(tuple(value * size for value in shown), labels, name)


def decimals(step: float) -> int:
    """How many decimals tell neighbours of this step apart."""
    for digits in range(9):
        if abs(round(step, digits) - step) < step * 1e-6:
            return digits
    return 9


def log_ticks(low: float, high: float, unit: str, most: int = 6) -> Ticks:
    """Round places along a logarithmic axis, each label with its own unit."""
    if unit == "bytes":
        scales = [[2.0**n for n in range(0, 64, step)] for step in (10, 5, 2, 1)]
    else:
        scales = [[digit * 10.0**n for n in range(-12, 16) for digit in digits] for digits in _LOG_STEPS]
    inside = [[level for level in scale if low <= level <= high] for scale in scales]
    fitting = [levels for levels in inside if 2 < len(levels) <= most]
    if not fitting and high / low < 10.0:  # too short for round powers: even steps read better
        found = ticks(low, high, unit, most)
        return Ticks(found.places, tuple(value_text(place, unit) for place in found.places), "")
    chosen = fitting[-1] if fitting else inside[-1][:: max(1, math.ceil(len(inside[-1]) / most))]
    return Ticks(tuple(chosen), tuple(value_text(level, unit) for level in chosen), "")


def spaced(n: int, most: int) -> list[int]:
    """Indices of so many of n ticks at most, evenly spaced, counted from the last, which is always among them."""
    if n <= 0:
        return []
    step = max(1, math.ceil(n / max(1, most)))
    return sorted(range(n - 1, -1, -step))


def apart(places: Sequence[float], least: float) -> list[int]:
    """Indices of places that are so far apart that their labels do not meet; the last one is kept."""
    kept: list[int] = []
    for i in range(len(places) - 1, -1, -1):
        if not kept or places[kept[-1]] - places[i] >= least:
            kept.append(i)
    return kept[::-1]
