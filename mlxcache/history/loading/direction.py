"""Which way is worse: more seconds are, more tokens a second are not.

A benchmark may say so itself, with an attribute that asv copies into benchmarks.json. Otherwise its unit
tells, and without a telling unit less is better, as asv always assumes (airspeed-velocity/asv#1617).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

Direction = Literal["regression", "improvement"]

_RATE = re.compile(
    r"/\s*s(ec(onds?)?)?\b|\bper[ _-]?s(ec(onds?)?)?\b|\b[kmgt]?i?bps\b|\b[kmgtp]?flops?\b|\bhz\b|\bfps\b",
    re.IGNORECASE,
)
_GOOD_WORDS = re.compile(
    r"\b(throughput|speed-?up|accuracy|hit[ _-]?rate|recall|score|efficiency)\b", re.IGNORECASE
)
_HIGHER = frozenset({"higher", "higher_is_better", "up", "maximize", "maximise", "max", "increase", "bigger"})
_LOWER = frozenset({"lower", "lower_is_better", "down", "minimize", "minimise", "min", "decrease", "smaller"})
_WORD_KEYS = ("direction", "better", "goal", "objective")


def higher_is_better(unit: str, facts: Mapping[str, object] | None = None) -> bool:
    """Whether a larger value is the better one.

    `facts` is the benchmark's entry in benchmarks.json. Its `direction`, `better`, `goal` or `objective`
    ("higher", "lower", "maximize", ...), `higher_is_better` or `lower_is_better` (true or false) decide
    before the unit does.
    """
    if facts:
        for key in _WORD_KEYS:
            word = str(facts.get(key, "")).strip().lower().replace(" ", "_")
            if word in _HIGHER:
                return True
            if word in _LOWER:
                return False
        if isinstance(facts.get("higher_is_better"), bool):
            return bool(facts["higher_is_better"])
        if isinstance(facts.get("lower_is_better"), bool):
            return not facts["lower_is_better"]
    if re.search(r"\b(seconds?|bytes?)\s*$", unit, re.I) and "/" not in unit and "per" not in unit:
        return False
    return _RATE.search(unit) is not None or _GOOD_WORDS.search(unit) is not None


def direction_of(change: float, higher_better: bool) -> Direction:
    """What a change of the value by `change` (relative, signed) means."""
    return "improvement" if (change > 0) == higher_better else "regression"
