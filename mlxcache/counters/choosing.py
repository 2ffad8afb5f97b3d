"""Which counter is used: the first that works here, or the one that was asked for."""

from __future__ import annotations

from .apple import Rusage
from .counter import Counter, CountError
from .instruction_set import instruction_set
from .kernel import Kernel
from .valgrind import Valgrind

# valgrind first: its counts are the same on all machines of a kind, and it needs no permission.
COUNTERS: tuple[Counter, ...] = (Valgrind(), Kernel(), Rusage())


class NoCounterError(CountError):
    """No counter can be used here; the message says why for each of them, and what to install."""


def usable() -> dict[str, str]:
    """Each counter's name with why it cannot be used here, "" if it can."""
    return {counter.name: counter.problem() for counter in COUNTERS}


def named(name: str) -> Counter:
    """The counter of this name. Raises ValueError if there is none."""
    for counter in COUNTERS:
        if counter.name == name:
            return counter
    raise ValueError(f"counter: got {name!r}, expected one of {', '.join(c.name for c in COUNTERS)}")


def choose(name: str | None = None) -> Counter:
    """The first counter that can be used here, or the one that is named.

    Raises NoCounterError with the reasons, and ValueError for a name that is none.
    """
    candidates = COUNTERS if name is None else (named(name),)
    reasons = []
    for counter in candidates:
        problem = counter.problem()
        if not problem:
            return counter
        reasons.append(f"{counter.name}: {problem}")
    raise NoCounterError("no counter of instructions can be used here; " + "; ".join(reasons))


def series_name(counter: Counter) -> str:
    """What must not share a series: the counter and the instruction set, such as "valgrind_x86_64.avx2"."""
    return f"{counter.name}_{instruction_set(counter.simulated)}"


def of_series_name(label: str) -> Counter:
    """The counter of a series' name; raises ValueError for a name that is none of ours."""
    return named(label.partition("_")[0])
