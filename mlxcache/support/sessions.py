"""Processes that belong together end together.

asv gives each of its children a process group of its own, so what is left of them is found by their session.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def members(session: int) -> list[int]:
    """The processes of a session, apart from its leader; empty where the system has no /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # pid (name) state parent group session ...; the name may hold anything, brackets too.
            rest = entry.read_bytes().rpartition(b")")[2].split()
            pid = int(entry.parent.name)
            if int(rest[3]) == session and pid != session and rest[0] != b"Z":
                found.append(pid)
    return found


def end_session(session: int) -> None:
    """Kill all members of a session but its leader; those that were born meanwhile too."""
    for _ in range(5):
        left = members(session)
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def end_with(parent: int) -> bool:
    """Have Linux send SIGTERM when the thread that started this process ends; whether the parent still lives."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    return os.getppid() == parent
