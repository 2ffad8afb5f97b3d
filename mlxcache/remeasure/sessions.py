"""Ends what a session of processes has left: asv gives each of its children a process group of its own."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


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
