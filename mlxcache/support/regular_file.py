"""Reads a file that may be anything: a pipe would wait for ever, a device or a huge file fill all memory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

# asv's largest results files have some 50 MB.
MAX_BYTES: Final = 1 << 30


def oddity(found: os.stat_result) -> str:
    """Why a file of this kind or size is not read, "" where it is."""
    if not stat.S_ISREG(found.st_mode):
        return "not a regular file"
    if found.st_size > MAX_BYTES:
        return f"{found.st_size:,} bytes, more than the {MAX_BYTES:,} that are read"
    return ""


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """A regular file's content.

    Raises:
        OSError: it cannot be read, or is no regular file of a usual size.
    """
    # Without O_NONBLOCK to open a pipe waits for whoever writes into it.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        why = oddity(os.fstat(file.fileno()))
        if why:
            raise OSError(errno.EINVAL, why, os.fspath(path))
        return file.read()


def why_not_read(path: Path) -> str:
    """Why `read_regular` would refuse what lies there, "" if it would not."""
    try:
        return oddity(path.stat())
    except FileNotFoundError:  # a link to nothing
        return "not a regular file"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
