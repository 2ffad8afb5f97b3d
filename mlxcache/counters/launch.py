"""Starts a program so that it can be counted: `python launch.py COUNTER FOLDER SCRIPT ARGUMENTS`.

A script, run by the interpreter of the environment that is measured, and replaced by what it starts: so whoever
started it, and kills it after a time limit, deals with one process.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# So called where mlxcache's own is another one, or none.
PACKAGE = "_mlxcache_counters"
_NO_RANDOM_ADDRESSES = 0x0040000


def counters() -> Any:
    """This package, from its folder."""
    if PACKAGE not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            PACKAGE, str(HERE / "__init__.py"), submodule_search_locations=[str(HERE)]
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[PACKAGE] = module
        spec.loader.exec_module(module)
        importlib.import_module(PACKAGE + ".sampling")
    return sys.modules[PACKAGE]


def steady(environment: MutableMapping[str, str]) -> None:
    """The same addresses, hashes and order of threads in every run.

    A table's collisions cost instructions, and so does waiting for another thread. On one CPU, as a batch job, a
    thread runs on until it waits: one that it wakes does not take its place. Counts then differ by a fifth of what
    they do otherwise.
    """
    environment["PYTHONHASHSEED"] = "0"
    environment["MALLOC_ARENA_MAX"] = "1"  # glibc gives a thread that has to wait for memory a heap elsewhere
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.personality(libc.personality(ctypes.c_ulong(0xFFFFFFFF)) | _NO_RANDOM_ADDRESSES)
        allowed = sorted(os.sched_getaffinity(0))
        try:
            os.sched_setaffinity(0, {allowed[os.getpid() % len(allowed)]})
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        except OSError:  # a container that forbids it: counts repeat less well, which their samples show
            pass


def main(arguments: list[str]) -> None:
    """Does not come back."""
    name, folder, script, *rest = arguments
    counter = counters().choosing.named(name)
    steady(os.environ)
    command = counter.command([sys.executable, script, *rest], Path(folder))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
