"""Writes files so that whoever looks, also after a crash or a full disk, finds the old content or the new."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO


class Part:
    """A new file beside `path`, which takes its place when the context ends and goes if that fails.

    Until somebody syncs it, a crash may leave less of it than was written.
    """

    def __init__(self, path: Path, mode: int = 0o666) -> None:
        self._path = path
        # Not mkstemp: only the owner can read its files, and whoever changes that has to look the umask up.
        self._name = os.path.join(path.parent, f".{os.urandom(8).hex()}.part")  # noqa: PTH118
        descriptor = os.open(self._name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        self.file: BinaryIO = os.fdopen(descriptor, "wb")

    def replace(self) -> None:
        """Take the place of `path`.

        Raises:
            OSError: that failed; `path` is as it was and nothing is left beside it.
        """
        try:
            self.file.close()
            os.replace(self._name, self._path)  # noqa: PTH105
        except BaseException:
            self.drop()
            raise

    def drop(self) -> None:
        """Go, and leave `path` as it is."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._name)  # noqa: PTH108

    def __enter__(self) -> BinaryIO:
        return self.file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.replace()
        else:
            self.drop()


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the file's content as one step, on the disk when this returns.

    Raises:
        OSError: it could not be written; the old content is untouched and nothing is left beside it.
    """
    with Part(path) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def write_cached(path: Path, data: bytes) -> None:
    """Replace a file of a cache as one step, and make its folder; nobody but the user can read it.

    A full disk or a read-only folder costs speed only, so nothing is said; and there is no fsync, so whoever reads
    must tell by a checksum what a crash cut short.
    """
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with Part(path, 0o600) as file:
            file.write(data)


def sync_folder(folder: Path) -> None:
    """Make the folder's list of names durable; without it a crash may forget a rename."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
