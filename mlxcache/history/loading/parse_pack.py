"""Many entries of the cache in one file, whose columns are mapped into memory and become the table's.

Reading a thousand entries one by one takes longer than everything else that a load does with them. A pack holds
the values of all files of a folder end to end, in the order of the table, with room for more behind them: where
new files come last, its columns become the table's as they are. Like an entry it is found by content, checked
by sums, and as good as none where anything is odd.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from mlxcache.history.asv.columns import Head, ParsedFile
from mlxcache.history.asv.json_text import Fault
from mlxcache.support.atomic import Part

# One number a value; the last ones are one a row.
_COLUMNS: Final = (
    ("values", "<f8"),
    ("ci_low", "<f8"),
    ("ci_high", "<f8"),
    ("n_samples", "<i4"),
    ("status", "i1"),
)
_LAYOUTS: Final = "layouts"
_DERIVED: Final = "table "  # before a table column's name
_ROW_COLUMNS: Final = (("row_started_ms", "<f8"), ("row_duration_s", "<f8"))
_PREFIX: Final = struct.Struct("<4s32sIQQ")  # magic, digest of the code; CRC-32, place and length of the JSON part
_MAGIC: Final = b"mxp1"
_ROOM: Final = 1 << 18  # values that may come behind those of the pack, and a sixteenth of them

Column = npt.NDArray[Any]


class Pack:
    """A pack: `files` by the key of their content, and `columns` by the names of `ParsedFile`.

    `derived` are columns of the table that was made of them, by name; no more than a guess at what they will be
    in the next one. All columns go on behind the pack's `n` values, for whoever has more to put there.
    """

    def __init__(self, files: dict[str, ParsedFile], columns: dict[str, Column], n: int) -> None:
        self.files = files
        self.n = n
        names = [name for name in columns if name.startswith(_DERIVED)]
        self.derived = {name.removeprefix(_DERIVED): columns.pop(name) for name in names}
        self.columns = columns

    @property
    def room(self) -> int:
        """How many values the columns can hold."""
        return len(self.columns["values"])


def read_pack(path: Path, code: bytes) -> Pack | None:
    """The pack of a file, None if it is missing, damaged or of other code."""
    try:
        with path.open("rb") as file:
            # Written to without touching the file: a page that nobody changes takes no memory of this process.
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        magic, digest, checksum, start, length = _PREFIX.unpack_from(content)
        if (magic, digest) != (_MAGIC, code):
            return None
        text = content[start : start + length]
        if len(text) != length or zlib.crc32(text) != checksum:
            return None
        about = json.loads(text)
        with ThreadPoolExecutor(2) as pool:
            columns = list(pool.map(partial(_map_column, content), about["columns"]))
        return _unfold(about, dict(columns))
    except (OSError, ValueError, KeyError, TypeError, IndexError, struct.error, MemoryError):
        return None


def _map_column(content: mmap.mmap, about: tuple[str, str, int, int, int, int]) -> tuple[str, Column]:
    name, kind, start, count, room, total = about
    column = np.frombuffer(content, kind, room, start)
    if not name.startswith(_DERIVED) and _sum(column[:count]) != total:
        raise ValueError("damaged")
    return name, column


def _sum(column: Column) -> int:
    """A checksum at the speed of memory; any single wrong byte changes it, and so do zeros in place of values."""
    content = column.view(np.uint8)
    whole = len(content) // 8 * 8
    tail = int.from_bytes(content[whole:].tobytes(), "little")
    return (int(np.add.reduce(content[:whole].view("<u8"), dtype=np.uint64)) + tail) % 2**64


def _unfold(about: dict[str, Any], columns: dict[str, Column]) -> Pack:
    layouts = []
    texts = columns.pop(_LAYOUTS)
    end = 0
    for length in about["layouts"]:
        layouts.append(texts[end : end + length].tobytes())
        end += length
    files: dict[str, ParsedFile] = {}
    at = row = 0
    for key, n, n_rows, layout, head, faults in about["files"]:
        parts = {name: columns[name][at : at + n] for name, _ in _COLUMNS}
        parts |= {name: columns[name][row : row + n_rows] for name, _ in _ROW_COLUMNS}
        files[key] = ParsedFile(
            head=Head(**head),
            layout=layouts[layout],
            faults=[Fault(*fault) for fault in faults],
            key=key,
            place=at,
            **parts,  # type: ignore[arg-type]
        )
        at += n
        row += n_rows
    return Pack(files, columns, at)


class PackWriter:
    """Writes a pack of parsed files that have keys; `finish` puts it in place.

    What goes wrong costs speed only, so nothing is said.
    """

    def __init__(self, path: Path, code: bytes, files: Sequence[ParsedFile]) -> None:
        self._code = code
        self._part: Part | None = None
        self._columns: list[list[Any]] = []
        layouts: dict[bytes, int] = {}
        listed = []
        for file in files:
            layout = layouts.setdefault(file.layout, len(layouts))
            faults = [[fault.row, fault.reason, fault.n_values] for fault in file.faults]
            counts = [len(file.values), len(file.row_started_ms), layout]
            listed.append([file.key, *counts, asdict(file.head), faults])
        self._about = {"files": listed, "layouts": list(map(len, layouts))}
        try:
            # No fsync: a pack that a crash cut short fails its checks.
            self._part = Part(path, 0o600)
            target = self._part.file
            target.write(bytes(_PREFIX.size))
            for name, kind in (*_COLUMNS, *_ROW_COLUMNS):
                content = np.concatenate([getattr(file, name) for file in files])
                self._columns.append(_write_column(target, name, content.astype(kind, copy=False)))
            texts = np.frombuffer(b"".join(layouts), np.uint8)
            self._columns.append(_write_column(target, _LAYOUTS, texts))
        except OSError:
            self._give_up()

    def finish(self, derived: Mapping[str, Column]) -> None:
        """Add columns of the table that was made of just these files, in this order."""
        if self._part is None:
            return
        try:
            target = self._part.file
            target.seek(0, os.SEEK_END)
            columns = [_write_column(target, f"{_DERIVED}{name}", derived[name]) for name in derived]
            about = {**self._about, "columns": [*self._columns, *columns]}
            text = json.dumps(about, separators=(",", ":")).encode()
            start = target.tell()
            target.write(text)
            target.seek(0)
            target.write(_PREFIX.pack(_MAGIC, self._code, zlib.crc32(text), start, len(text)))
            self._part.replace()
        except OSError:
            self._give_up()

    def _give_up(self) -> None:
        if self._part is not None:
            self._part.drop()
        self._part = None


def _write_column(target: BinaryIO, name: str, content: Column) -> list[Any]:
    """Write a column and return what `read_pack` has to know of it."""
    room = len(content) if name == _LAYOUTS else len(content) + len(content) // 16 + _ROOM
    start = -(-target.tell() // mmap.PAGESIZE) * mmap.PAGESIZE
    target.seek(start)
    target.write(content.view(np.uint8).data)
    target.seek(start + room * content.itemsize)  # what is not written takes no space
    return [name, content.dtype.str, start, len(content), room, _sum(content)]
