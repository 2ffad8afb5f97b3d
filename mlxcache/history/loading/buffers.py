"""Memory for reading many files: new memory costs the system as much as reading what goes into it.

A buffer that is used again for each file has its pages already, and a few large blocks get large pages.
"""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

_BLOCK: Final = 16 * 1024 * 1024
_ALIGNED: Final = 8


class Scratch:
    """One buffer that file after file is read into; not for two threads at once."""

    def __init__(self) -> None:
        self._buffer = bytearray(64 * 1024)

    def read(self, path: Path) -> memoryview:
        """A file's content, until the next one is read.

        Raises:
            OSError: the file cannot be read.
        """
        with io.FileIO(os.fspath(path)) as file:
            filled = 0
            while True:
                expected = os.fstat(file.fileno()).st_size + 1  # one more, to see the end
                if len(self._buffer) < max(expected, filled + 1):
                    # A new one, since whoever holds a view of the old one keeps it from growing.
                    larger = bytearray(max(expected, 2 * filled) * 5 // 4)
                    larger[:filled] = memoryview(self._buffer)[:filled]
                    self._buffer = larger
                n = file.readinto(memoryview(self._buffer)[filled:])
                if not n:
                    return memoryview(self._buffer)[:filled]
                filled += n


class Blocks:
    """Copies that lie in large blocks; a block goes when all that lies in it is gone."""

    def __init__(self) -> None:
        self._block = np.empty(0, np.uint8)
        self._used = 0

    def copy(self, content: memoryview) -> npt.NDArray[np.uint8]:
        """The content's bytes, at an address that any type of number may have."""
        n = len(content)
        if self._used + n > len(self._block):
            self._block = np.empty(max(n, _BLOCK), np.uint8)
            self._used = 0
        place = self._block[self._used : self._used + n]
        place[:] = np.frombuffer(content, np.uint8)
        self._used += -(-n // _ALIGNED) * _ALIGNED
        return place


class Buffers(threading.local):
    """What a thread reads with: its own in each."""

    def __init__(self) -> None:
        self.content, self.packed = Scratch(), Scratch()
        self.blocks = Blocks()
