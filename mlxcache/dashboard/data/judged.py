"""How much of what is measured could show a change at all, machine by machine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from mlxcache.dashboard.data.quality import Noise
from mlxcache.history.loading.series_store import SeriesStore

# The detector needs three values on each side of a change.
LEAST_COMMITS: Final = 6
_SIDE: Final = 3
_SURE: Final = 3.3  # standard errors from which a step stands out


@dataclass(frozen=True, slots=True)
class Judged:
    """A machine's series that are still measured: how many there are, how many could show a change.

    `least` is the relative change that its newest three values would have shown in half of its series, None
    where its noise is not known.
    """

    machine: str
    n_series: int
    n_judged: int
    least: float | None


def judged(store: SeriesStore, noise: dict[str, Noise], retired: frozenset[int]) -> list[Judged]:
    """One entry for each machine that still measures something, in the order of their names."""
    found = []
    for machine, positions in store.by_machine.items():
        own = [p for p in positions if store.keys[p].number not in retired]
        lengths = [int(store.stops[p] - store.starts[p]) for p in own]
        able = sum(n >= LEAST_COMMITS for n in lengths)
        between = noise[machine].between
        least = _SURE * between[0] * math.sqrt(2.0 / _SIDE) if between and able else None
        if own:
            found.append(Judged(machine, len(own), able, least))
    return found
