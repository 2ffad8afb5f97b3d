"""A function of many arguments, shared by several processes.

They import what a call needs and nothing of the script that started them, so this works from notebooks, from
standard input and without a guard around the main part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pickle import PicklingError
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")

# Rows from which other processes are worth their start, and how many processes at the most.
_WORTH_A_PROCESS = 2_000_000
_MOST_PROCESSES = 4


def spread(function: Callable[[T], U], arguments: Sequence[T], jobs: int) -> Iterator[U]:
    """`function` of each argument, in their order, by `jobs` processes; here where that is one, or where they end.

    Arguments and results have to be picklable; what the function raises is raised.
    """
    done = 0
    if jobs > 1 and len(arguments) > 1:
        import loky  # takes a tenth of a second, and small tables do without

        with suppress(BrokenProcessPool, PicklingError, OSError):
            # The working directory may be any project's checkout: none of its modules is ours.
            pool = loky.ProcessPoolExecutor(jobs, env={"PYTHONSAFEPATH": "1"})
            try:
                for result in pool.map(function, arguments):
                    done += 1
                    yield result
            finally:
                pool.shutdown(kill_workers=True)
    for argument in arguments[done:]:
        yield function(argument)


def processes_for(n_rows: int) -> int:
    """How many processes a table of so many rows is worth."""
    if n_rows < _WORTH_A_PROCESS:
        return 1
    import loky

    return min(_MOST_PROCESSES, int(loky.cpu_count()))
