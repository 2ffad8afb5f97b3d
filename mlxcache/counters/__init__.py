"""Counts the instructions of a benchmark: a number that other work on the machine does not move.

    mlxcache bench --count 'decode' HEAD^!       # any asv project's `time_` benchmarks, the suite unchanged

    from mlxcache.counters import counted        # or in a suite of your own, for plain `asv run`
    track_parse = counted(time_parse)

A counter is valgrind, the kernel's (perf) or macOS's; see `choosing`. What is counted runs in a process of its
own, started by `launch` with the interpreter of the environment that is measured. That one may hold any commit, or
another project, so nothing here may need an installed mlxcache, or more than the standard library of Python 3.9:
imports are relative.
"""

from __future__ import annotations

from .choosing import COUNTERS, NoCounterError, choose, usable
from .counter import CountError
from .tracked import counted

__all__ = ["COUNTERS", "CountError", "NoCounterError", "choose", "counted", "usable"]
