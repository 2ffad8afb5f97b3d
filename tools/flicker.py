"""How steady alarms are while a series grows: what one commit raises, later ones should not take back and raise.

A series is judged at each of its newest commits as if it were the last. An alarm is a change within three commits
of where it was, with the same sign; a drift over that place is the same alarm under another name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mlxcache.history.changes.segments import Change
from mlxcache.history.statistics.noise import FloatArray

NEWEST = 60
_SOON = 10
_SAME = 3


@dataclass
class Flicker:
    """Counts: alarms raised, taken back within ten commits, and raised again within ten of that."""

    raised: int = 0
    taken_back: int = 0
    again: int = 0

    def __add__(self, other: Flicker) -> Flicker:
        """The sum of both."""
        return Flicker(self.raised + other.raised, self.taken_back + other.taken_back, self.again + other.again)


@dataclass
class _Alarm:
    index: int
    up: bool
    since: int
    gone: int | None = None

    def is_in(self, change: Change) -> bool:
        first = change.index if change.since is None else change.since
        same = (change.effect.shift > 0) == self.up
        return same and first - _SAME <= self.index <= change.index + _SAME


def flicker(series: Iterable[FloatArray], changes_of: Callable[[FloatArray], list[Change]]) -> Flicker:
    """The sum over `series` (log values)."""
    total = Flicker()
    for x in series:
        known: list[_Alarm] = []
        first = max(20, len(x) - NEWEST)
        for n in range(first, len(x) + 1):
            free = list(changes_of(x[:n]))
            for alarm in known:
                found = next((change for change in free if alarm.is_in(change)), None)
                if found is None:
                    if alarm.gone is None:
                        alarm.gone = n
                        total.taken_back += n - alarm.since <= _SOON
                    continue
                free.remove(found)
                if alarm.gone is not None:
                    total.again += n - alarm.gone <= _SOON
                    alarm.gone = None
            fresh = [_Alarm(change.index, change.effect.shift > 0, n if n > first else -_SOON) for change in free]
            total.raised += len(fresh) * (n > first)
            known += fresh
    return total
