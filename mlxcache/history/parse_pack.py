"""Many entries of the cache in one file, whose columns are read straight into the memory of the table.

Reading a thousand entries one by one takes longer than everything else that a load does with them. A pack holds
the values of all files of a folder end to end, in the order of the table, with room for more behind them: where
new files come last, its columns become the table's as they are. Like an entry it is found by content, checked
by sums, and as good as none where anything is odd.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import struct
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from mlxcache.history.asv_columns import Head, ParsedFile
from mlxcache.history.asv_json import Fault

# One number a value; the last ones are one a row.
_COLUMNS: Final = (
    ("values", "<f8"),
    ("ci_low", "<f8"),
    ("ci_high", "<f8"),
    ("n_samples", "<i4"),
    ("status", "i1"),
)
_LAYOUTS: Final = "layouts"
_ROW_COLUMNS: Final = (("row_started_ms", "<f8"), ("row_duration_s", "<f8"))
_PREFIX: Final = struct.Struct("<4s32sIQQ")  # magic, digest of the code; CRC-32, place and length of the JSON part
_MAGIC: Final = b"mxp1"
_BLOCK: Final = 4 * 1024 * 1024  # what stays in the processor's cache between reading and adding up
_ROOM: Final = 1 << 18  # values that may come behind those of the pack, and a sixteenth of them

Column = npt.NDArray[Any]


class Pack:
    """A pack in memory: `files` by the key of their content, and `columns` by the names of `ParsedFile`.

    The columns go on behind the pack's values, for whoever has more to put there.
    """

    def __init__(self, files: dict[str, ParsedFile], columns: Mapping[str, Column], n: int) -> None:
        self.files = files
        self.columns = columns
        self.n = n

    @property
    def room(self) -> int:
        """How many values the columns can hold."""
        return len(self.columns["values"])


def read_pack(path: Path, code: bytes) -> Pack | None:
    """The pack of a file, None if it is missing, damaged or of other code."""
    try:
        with io.FileIO(os.fspath(path)) as file:
            magic, digest, checksum, start, length = _PREFIX.unpack(file.read(_PREFIX.size))
            text = os.pread(file.fileno(), length, start)
            if (magic, digest) != (_MAGIC, code) or len(text) != length or zlib.crc32(text) != checksum:
                return None
            about = json.loads(text)
            jobs = []
            for name, kind, start, count, total in about["columns"]:
                room = count if name == _LAYOUTS else count + count // 16 + _ROOM
                jobs.append((file.fileno(), start, kind, count, room, total))
            with ThreadPoolExecutor(2) as pool:
                read = list(pool.map(_read_column, jobs))
            columns = {name: column for (name, *_), column in zip(about["columns"], read, strict=True)}
            return _unfold(about, columns)
    except (OSError, ValueError, KeyError, TypeError, IndexError, struct.error, MemoryError):
        return None


def _read_column(job: tuple[int, int, str, int, int, int]) -> Column:
    descriptor, start, kind, count, room, total = job
    column = np.empty(room, kind)
    content = memoryview(column.view(np.uint8))[: count * column.itemsize]
    found = 0
    for at in range(0, len(content), _BLOCK):
        block = content[at : at + _BLOCK]
        if os.preadv(descriptor, [block], start + at) != len(block):
            raise ValueError("too short")
        found += _sum(block)
    if found % 2**64 != total:
        raise ValueError("damaged")
    return column


def _sum(content: memoryview) -> int:
    """A checksum at the speed of memory; any single wrong byte changes it, and so do zeros in place of values."""
    whole = len(content) // 8 * 8
    tail = int.from_bytes(content[whole:], "little")
    return int(np.add.reduce(np.frombuffer(content[:whole], "<u8"), dtype=np.uint64)) + tail


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
            **parts,
        )
        at += n
        row += n_rows
    return Pack(files, columns, at)


def write_pack(path: Path, code: bytes, files: Sequence[ParsedFile]) -> None:
    """Write a pack of parsed files that have keys. What goes wrong costs speed only, so nothing is said."""
    layouts: dict[bytes, int] = {}
    listed = []
    for file in files:
        layout = layouts.setdefault(file.layout, len(layouts))
        faults = [[fault.row, fault.reason, fault.n_values] for fault in file.faults]
        counts = [len(file.values), len(file.row_started_ms), layout]
        listed.append([file.key, *counts, asdict(file.head), faults])
    with contextlib.suppress(OSError):
        # No fsync: a pack that a crash cut short fails its checks.
        descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as target:
                target.write(bytes(_PREFIX.size))
                columns = []
                for column, kind in (*_COLUMNS, *_ROW_COLUMNS):
                    content = np.concatenate([getattr(file, column) for file in files])
                    columns.append(_write_column(target, column, kind, content))
                texts = np.frombuffer(b"".join(layouts), np.uint8)
                columns.append(_write_column(target, _LAYOUTS, "u1", texts))
                about = {"files": listed, "layouts": list(map(len, layouts)), "columns": columns}
                text = json.dumps(about, separators=(",", ":")).encode()
                start = target.tell()
                target.write(text)
                target.seek(0)
                target.write(_PREFIX.pack(_MAGIC, code, zlib.crc32(text), start, len(text)))
            os.replace(name, path)  # noqa: PTH105
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)  # noqa: PTH108
            raise


def _write_column(target: BinaryIO, name: str, kind: str, content: Column) -> list[Any]:
    """Write a column and return what `read_pack` has to know of it."""
    start = target.tell()
    view = memoryview(content.astype(kind, copy=False).view(np.uint8))
    total = sum(_sum(view[at : at + _BLOCK]) for at in range(0, len(view), _BLOCK))
    target.write(view)
    return [name, kind, start, len(content), total % 2**64]
