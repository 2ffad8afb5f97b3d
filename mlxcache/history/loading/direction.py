"""Which way is worse: more seconds are, more tokens a minute are not.

What is declared comes first: an attribute of the benchmark's function, which asv copies into benchmarks.json
(`track_x.direction = "higher"`). Then its unit tells, by the rule of `mlxcache.history.loading.units`, and where
the unit says nothing of its own ("%", "unit") a benchmark's name may (`track_accuracy`). Without any of these less
is taken to be better, as asv always assumes (airspeed-velocity/asv#1617), and whoever reports a result says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, Literal

from mlxcache.history.loading.units import is_telling, name_says, unit_says

Direction = Literal["regression", "improvement"]

_HIGHER: Final = frozenset(
    ["higher", "higher_is_better", "up", "maximize", "maximise", "max", "increase", "bigger", "more", "larger"]
)
_LOWER: Final = frozenset(
    ["lower", "lower_is_better", "down", "minimize", "minimise", "min", "decrease", "smaller", "less", "fewer"]
)
_WORD_KEYS: Final = ("direction", "better", "goal", "objective")
_FLAG_KEYS: Final = ("higher_is_better", "bigger_is_better", "more_is_better", "maximize")
_REVERSED_KEYS: Final = ("lower_is_better", "smaller_is_better", "less_is_better", "minimize")


class Basis(StrEnum):
    """What a direction was taken from."""

    DECLARED = "declared"
    UNIT = "unit"
    NAME = "name"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Better:
    """Whether a larger value is the better one, and how that is known."""

    higher: bool
    basis: Basis


def better_of(unit: str, facts: Mapping[str, object] | None = None, benchmark: str = "") -> Better:
    """Which way is better, and from what that is known.

    Args:
        unit: as the benchmark has it.
        facts: the benchmark's entry in benchmarks.json. Its `direction`, `better`, `goal` or `objective`
            ("higher", "lower", "maximize", ...), `higher_is_better` or `lower_is_better` (true or false) decide
            before the unit does; words that mean neither are ignored.
        benchmark: its name, where `facts` has none.
    """
    declared = _declared(facts) if facts else None
    if declared is not None:
        return Better(declared, Basis.DECLARED)
    name = benchmark or str((facts or {}).get("name", ""))
    return _undeclared(unit, name.rpartition(".")[2])


@lru_cache(maxsize=65_536)
def _undeclared(unit: str, name: str) -> Better:
    says = unit_says(unit)
    if says is not None:
        return Better(says, Basis.UNIT)
    if not is_telling(unit):
        says = name_says(name)
        if says is not None:
            return Better(says, Basis.NAME)
    return Better(False, Basis.ASSUMED)


def _declared(facts: Mapping[str, object]) -> bool | None:
    for key in _WORD_KEYS:
        word = re.sub(r"[\s-]+", "_", str(facts.get(key, "")).strip().lower())
        if word in _HIGHER:
            return True
        if word in _LOWER:
            return False
    for keys, meaning in ((_FLAG_KEYS, True), (_REVERSED_KEYS, False)):
        for key in keys:
            if isinstance(flag := facts.get(key), bool):
                return flag is meaning
    return None


def higher_is_better(unit: str, facts: Mapping[str, object] | None = None, benchmark: str = "") -> bool:
    """Whether a larger value is the better one; see `better_of`."""
    return better_of(unit, facts, benchmark).higher


def assumed_notice(
    benchmarks: Iterable[tuple[str, str]], facts: Mapping[str, Mapping[str, object]] | None = None
) -> str:
    """One sentence on the units that say nothing, "" where all do; `benchmarks` are (name, unit)."""
    found: dict[str, list[str]] = {}
    for name, unit in dict.fromkeys(benchmarks):
        if better_of(unit, (facts or {}).get(name), name).basis is Basis.ASSUMED:
            found.setdefault(unit, []).append(name)
    if not found:
        return ""
    units = ", ".join(f"{unit!r}" if unit else "none" for unit in sorted(found)[:6])
    more = f" and {len(found) - 6} more" if len(found) > 6 else ""
    n = sum(map(len, found.values()))
    first = min(name for names in found.values() for name in names)
    return (
        f"less is taken to be better where nothing tells: unit{'s' * (len(found) != 1)} {units}{more} of {n} "
        f'benchmark{"s" * (n != 1)}; `{first.rpartition(".")[2]}.direction = "higher"` in the suite says otherwise'
    )


def direction_of(change: float, higher_better: bool) -> Direction:
    """What a change of the value by `change` (relative, signed) means."""
    return "improvement" if (change > 0) == higher_better else "regression"
