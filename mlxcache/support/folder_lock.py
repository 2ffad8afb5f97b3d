"""One writer at a time in a results folder, across processes.

The lock is the kernel's (flock) and goes with the process that holds it, so one that was killed leaves
nothing behind but a file that means nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCK_NAME: Final = ".mlxcache-lock"
_RETRY_S: Final = 0.05


class FolderBusyError(RuntimeError):
    """Another process kept the folder locked for longer than the caller would wait."""


@contextmanager
def folder_lock(folder: Path, wait_s: float) -> Iterator[None]:
    """Hold the folder's lock; the folder must exist.

    Raises:
        FolderBusyError: another process held it for `wait_s` seconds; names that process.
    """
    path = folder / LOCK_NAME
    deadline = time.monotonic() + wait_s
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            if time.monotonic() >= deadline:
                raise FolderBusyError(
                    f"{folder} is being written by process {holder}; waited {wait_s:g} s. Try again when it"
                    " is done"
                ) from None
            time.sleep(_RETRY_S)
            continue
        if _is_current(descriptor, path):
            break
        os.close(descriptor)  # its holder removed it between our open and our lock
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
