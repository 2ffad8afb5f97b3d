"""Samples of a callable in instructions, in the process that is counted."""

from __future__ import annotations

import math
import time
import timeit
from collections.abc import Callable
from typing import Any

from .counter import CountError, Reader

# Python's interpreter adapts to a loop within a few dozen passes.
WARM_CALLS = 24
WARM_SECONDS = 2.0
# valgrind translates anew after counting was switched on, and threads take a while to find their order.
LEAD_CALLS = 6
LEAD_SECONDS = 2.0
CALLS = 24
LEAST_CALLS = 6
SECONDS = 4.0
# A sample is the lower quartile of several calls: threads that meet each other only add instructions.
SAMPLES = 6
# Below this many instructions a call is repeated within a reading, if that is allowed.
SHORT = 1_000_000


def sample(
    call: Callable[[], Any],
    reader: Reader,
    setup: Callable[[], Any],
    repeatable: bool,
    number: int = 0,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Any]:
    """{"samples": instructions a call, "number": calls in a reading}, as asv keeps samples.

    Args:
        call: what is counted.
        reader: the counter.
        setup: called before each reading, not counted.
        repeatable: whether several calls may follow one setup.
        number: calls in a reading, 0: as many as it takes to be exact.
        clock: seconds of processor time, which limit the samples: what else the machine does changes nothing.

    Raises CountError if a count is not above zero: then something else was counted than the call.
    """
    _warm(call, setup, clock)
    reader.begin()
    timer = timeit.Timer(call, setup, timer=reader)
    began = clock()
    for lead in range(LEAD_CALLS):
        timer.timeit(max(1, number))
        if lead and clock() - began > LEAD_SECONDS:
            break
    first = timer.timeit(max(1, number)) / max(1, number)
    if not number:
        number = max(1, math.ceil(SHORT / max(1.0, first))) if repeatable else 1
    empty = overhead(reader, setup, number)
    began = clock()
    counts: list[float] = []
    while len(counts) < CALLS and (len(counts) < LEAST_CALLS or clock() - began < SECONDS):
        counts.append((timer.timeit(number) - empty) / number)
    samples = grouped(counts)
    if min(samples) <= 0:
        raise CountError(f"counted {min(samples):.0f} instructions a call, expected more than none")
    return {"samples": samples, "number": number}


def _warm(call: Callable[[], Any], setup: Callable[[], Any], clock: Callable[[], float]) -> None:
    began = clock()
    for _ in range(WARM_CALLS):
        setup()
        call()
        if clock() - began > WARM_SECONDS:
            break


def overhead(reader: Reader, setup: Callable[[], Any] | None, number: int) -> float:
    """What a reading of nothing costs."""
    timer = timeit.Timer(_nothing, setup or _nothing, timer=reader)
    return min(timer.timeit(number) for _ in range(6))


def _nothing() -> None:
    pass


def grouped(counts: list[float], samples: int = SAMPLES) -> list[float]:
    """Lower quartiles of at most `samples` parts, each spread over the whole run."""
    parts = min(samples, len(counts))
    return [sorted(counts[i::parts])[len(counts[i::parts]) // 4] for i in range(parts)]
