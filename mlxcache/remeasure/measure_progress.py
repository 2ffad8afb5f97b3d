"""Says how far a measurement is and how long it will take, from what its own runs have taken so far.

Nothing is known before the first runs, and until each benchmark has run once the rest is taken to be like those
that have; that is said. Then each benchmark counts with its own time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final

Say = Callable[[str], None]

# The first line that tells how long it takes, and how often it is told after that: on a terminal, in a log.
_FIRST_S: Final = 8.0
_TERMINAL_S: Final = 5.0
_LOG_S: Final = 30.0


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class MeasureProgress:
    """Hears a driver's events and says a line when there is something new to know."""

    def __init__(
        self, say: Say, clock: Callable[[], float] = time.monotonic, every_s: float | None = None
    ) -> None:
        self._say = say
        self._clock = clock
        watched = sys.stderr is not None and sys.stderr.isatty()
        self._every = every_s if every_s is not None else (_TERMINAL_S if watched else _LOG_S)
        self._stage = ""
        self._since = clock()
        self._due = self._since + _FIRST_S
        self._works: list[tuple[str, str]] = []
        self._rounds = 0
        self._round = 0
        self._took: dict[tuple[str, str], list[float]] = {}
        self._done: dict[tuple[str, str], int] = {}
        self._current = ""

    def hear(self, event: dict[str, Any]) -> None:
        """Take one event; "tick" is that there was none."""
        kind = event["event"]
        if kind == "waiting":
            self._begin(f"waiting for process {event['process']}, which measures in {event['folder']}")
        elif kind == "build":
            commit = f" {event['commit'][:10]}" if event.get("commit") else ""
            self._begin(f"building {event.get('side', 'both commits')}{commit} for {event['env']}", short=True)
        elif kind == "listing":
            self._begin(f"reading the benchmarks of both commits in {event['env']}", short=True)
        elif kind == "start":
            self._works = [(env, name) for env, name in event.get("works", [])]
            self._rounds = int(event["rounds"])
            count = len({name for _, name in self._works})
            self._begin(
                f"measuring {count} benchmark{'s' * (count != 1)} in {self._rounds} rounds, base and head in turn"
            )
            self._stage = "measuring"
        elif kind == "ran":
            key = (event["env"], event["benchmark"])
            self._took.setdefault(key, []).append(float(event["seconds"]))
            self._done[key] = self._done.get(key, 0) + 1
            self._current = event["benchmark"]
        elif kind == "dead":
            self._done[event["env"], event["benchmark"]] = 2 * self._rounds
        elif kind == "round":
            self._round = int(event["number"]) + 1
            if self._round < self._rounds:
                self._tell()
            else:
                self._say(f"round {self._round} of {self._rounds} done")
            return
        if self._clock() >= self._due:
            self._tell()

    def _begin(self, stage: str, short: bool = False) -> None:
        if stage == self._stage:
            return
        self._stage = stage
        self._since = self._clock()
        self._due = self._since + _FIRST_S
        if not short:
            self._say(stage)

    def _tell(self) -> None:
        self._due = self._clock() + self._every
        if self._stage != "measuring":
            if self._stage:
                self._say(f"{self._stage}: {duration(self._clock() - self._since)} so far")
            return
        left, guess = self.seconds_left()
        where = f"round {self._round} of {self._rounds} done" if self._round else f"round 1 of {self._rounds}"
        if left is None:
            self._say(f"{where}: the first run is going on, {duration(self._clock() - self._since)} so far")
            return
        rough = ", if the rest is like what ran so far" if guess else ""
        self._say(f"{where}, about {duration(left)} left{rough}")

    def seconds_left(self) -> tuple[float | None, bool]:
        """About how long the rounds will still take, and whether some benchmarks never ran yet; None: no idea."""
        known = {key: sum(took) / len(took) for key, took in self._took.items()}
        if not known:
            return None, True
        usual = sum(known.values()) / len(known)
        runs = 2 * self._rounds
        left = sum(known.get(key, usual) * max(0, runs - self._done.get(key, 0)) for key in self._works)
        return left, any(key not in known for key in self._works)
