"""Turns a callable, or a `time_` benchmark, into a tracked count for asv."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from .choosing import NoCounterError, choose
from .counter import CountError
from .counting import count_call


def counted(
    function: Callable[..., Any], counter: str | None = None, timeout: float = 600.0
) -> Callable[..., float]:
    """A `track_` benchmark, in instructions a call, of a function that can be imported by its name.

        def time_parse(text): ...

        track_parse = counted(time_parse)     # takes over params, param_names, setup and teardown

    The function's parameters have to be values of JSON. What `setup` leaves is not handed over, since the count is
    taken in a process of its own: it is called there before anything is counted. For benchmarks in classes use
    `mlxcache bench --count REGEX`, which needs no change of the suite.

    Where there is no counter the benchmark skips itself with the reasons. It raises CountError with the process's
    output if counting fails, and never gives a zero.

    Raises ValueError for a function that cannot be imported by its name, such as a lambda.
    """
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not module or not name or "<" in name or "." in name:
        raise ValueError(
            f"function: got {function!r}, expected a function at the top of a module; "
            "for a benchmark in a class use `mlxcache bench --count REGEX`"
        )

    def track(*params: Any) -> float:
        try:
            chosen = choose(counter)
        except NoCounterError as error:
            raise _skip(str(error)) from error
        samples = count_call(chosen, module, name, list(params), timeout)["samples"]
        count = statistics.median(samples)
        if count <= 0:
            raise CountError(f"{module}.{name}: counted {count} instructions, expected more than none")
        return float(count)

    track.__name__ = track.__qualname__ = "track_" + name.partition("_")[2] if name.startswith("time_") else name
    track.__module__, track.__doc__ = module, function.__doc__
    for attribute in ("params", "param_names", "setup", "teardown"):
        if hasattr(function, attribute):
            setattr(track, attribute, getattr(function, attribute))
    track.unit = "instructions"  # type: ignore[attr-defined]
    track.timeout = timeout  # type: ignore[attr-defined]
    track.version = str(getattr(function, "version", "1")) + VERSION  # type: ignore[attr-defined]
    return track


# What a count means; another way of taking it starts another series.
VERSION = "+count2"  # 1 took means of calls, with threads on all CPUs


def _skip(reason: str) -> Exception:
    try:
        from asv_runner.benchmarks.mark import SkipNotImplemented
    except ImportError:
        return NotImplementedError(reason)
    found: Exception = SkipNotImplemented(reason)
    return found
