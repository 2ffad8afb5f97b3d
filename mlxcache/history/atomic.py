"""Writes files so that whoever looks, also after a crash or a full disk, finds the old content or the new."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the file's content as one step, on the disk when this returns.

    Raises:
        OSError: it could not be written; the old content is untouched and nothing is left beside it.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files that only their owner can read; results are to be like any other file.
        os.chmod(name, 0o666 & ~_umask())  # noqa: PTH101
        os.replace(name, path)  # noqa: PTH105
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise
    sync_folder(path.parent)


def write_cached(path: Path, data: bytes) -> None:
    """Replace a file of a cache as one step, and make its folder.

    A full disk or a read-only folder costs speed only, so nothing is said; and there is no fsync, so whoever reads
    must tell by a checksum what a crash cut short.
    """
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(name, path)  # noqa: PTH105
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)  # noqa: PTH108
            raise


def sync_folder(folder: Path) -> None:
    """Make the folder's list of names durable; without it a crash may forget a rename."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    current = os.umask(0o022)
    os.umask(current)
    return current
