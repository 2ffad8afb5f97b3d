"""What a counter is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

# Cumulative instructions of all threads of this process, as `timeit` calls a clock.
Reading = Callable[[], int]


class CountError(RuntimeError):
    """A count that cannot be right, or a counter that stopped working; the message says which and why."""


class Reader(Protocol):
    """A counter in the process that is counted."""

    def begin(self) -> None:
        """Start counting; everything before this is start-up."""

    def __call__(self) -> int:
        """Instructions so far."""


class Counter(Protocol):
    """One way of counting. `name` goes into the environment's name, with what else must not share a series."""

    @property
    def name(self) -> str:
        """A word without a hyphen."""

    @property
    def counts(self) -> str:
        """What exactly is counted, for people."""

    @property
    def simulated(self) -> bool:
        """Whether the instructions are those of a processor that valgrind plays, not of the one that is there."""

    def problem(self) -> str:
        """Why it cannot be used here and what to do about it; "" if it can."""

    def command(self, command: list[str], folder: Path) -> list[str]:
        """How to start `command` so that it can be counted; `folder` is for the counter's own files."""

    def open(self, folder: Path) -> Reader:
        """The counter in a process that was started so, before anything starts a thread.

        Raises CountError if it does not work after all.
        """
