"""Keeps parsed result files on disk, so that a tree is parsed once and each new file alone after that.

An entry is keyed by the file's content and by the source of the parser, and carries a checksum: what does
not fit is parsed again. So the cache is never wrong, and its folder may be deleted at any time, even in use.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import struct
import time
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from mlxcache.history.asv import columns as asv_columns
from mlxcache.history.asv import json_text as asv_json
from mlxcache.history.asv import results as asv_results
from mlxcache.history.asv.columns import Head, ParsedFile, Spread
from mlxcache.history.asv.json_text import Fault
from mlxcache.history.asv.results import parse_results
from mlxcache.history.loading import parse_pack
from mlxcache.history.loading.buffers import Blocks, Buffers
from mlxcache.history.loading.parse_pack import Pack, PackWriter, read_pack
from mlxcache.support.atomic import write_cached

# Parsing a smaller file takes no longer than looking its entry up.
_WORTHWHILE_BYTES: Final = 32 * 1024
# With fewer values, reading entries one by one takes no time that anybody would notice.
_WORTH_A_PACK: Final = 500_000
_PACK: Final = "all.pack"
_FORGOTTEN_S: Final = 30 * 24 * 3600
_PREFIX: Final = struct.Struct("<4sII")  # magic, CRC-32 of what follows, length of the JSON part
_MAGIC: Final = b"mxh1"


def default_folder() -> Path:
    """`$MLXCACHE_CACHE_DIR`, else `mlxcache` in `$XDG_CACHE_HOME`, else in `~/.cache`."""
    own = os.environ.get("MLXCACHE_CACHE_DIR")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mlxcache"


@dataclass(frozen=True, slots=True)
class Fetched:
    """A results file: what its entry holds, or its content where it has no sound entry."""

    filename: str
    n_bytes: int
    data: bytes
    entry: Path | None  # None: not to be kept
    parsed: ParsedFile | None


class ParseCache:
    """The entries of one folder of result files; with no `folder` it only parses."""

    def __init__(self, folder: Path | None, source: Path, *, spread: bool, buffers: Buffers | None = None) -> None:
        self._spread = spread
        self._present: set[str] = set()  # keys of the files that there are
        self.pack: Pack | None = None
        self._buffers = buffers if buffers is not None else Buffers()
        self._folder: Path | None = None
        if folder is not None:
            name = hashlib.sha256(os.fsencode(os.path.realpath(source))).hexdigest()[:20]
            self._folder = folder / "parsed" / name

    def open_pack(self) -> None:
        """Read what is known of the folder's files all at once, where somebody packed it."""
        if self._folder is not None and not self._spread:
            self.pack = read_pack(self._folder / _PACK, _parser_digest())

    def fetch(self, path: Path) -> Fetched:
        """Read a results file or, where there is one, its entry; may run in several threads at once.

        Raises:
            OSError: the file cannot be read.
        """
        content = self._buffers.content.read(path)
        n = len(content)
        if self._folder is None or n < _WORTHWHILE_BYTES:
            return Fetched(path.name, n, bytes(content), None, None)
        key = _key(content, path.name)
        entry = self._folder / (key + (".spread" if self._spread else ".values"))
        if self.pack is not None and key in self.pack.files:
            return Fetched(path.name, n, b"", entry, self.pack.files[key])
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, struct.error):
            parsed = _unpack(self._buffers.packed.read(entry), self._buffers.blocks, spread=self._spread)
            parsed.key = key
            return Fetched(path.name, n, b"", entry, parsed)
        return Fetched(path.name, n, bytes(content), entry, None)

    def parse(self, fetched: Fetched) -> tuple[ParsedFile, bool]:
        """The parsed file, and whether it had to be parsed for want of a sound entry."""
        if fetched.entry is not None:
            self._present.add(fetched.entry.stem)
        if fetched.parsed is not None:
            return fetched.parsed, False
        parsed = parse_results(fetched.data, fetched.filename, spread=self._spread)
        if fetched.entry is not None:
            write_cached(fetched.entry, _pack(parsed))
            parsed.key = fetched.entry.stem
        return parsed, fetched.entry is not None

    def prune(self) -> None:
        """Remove entries of content that this folder no longer has, and folders not used for a month."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._folder):
                if not self._is_wanted(entry.name):
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)  # noqa: PTH108
            os.utime(self._folder)
        with contextlib.suppress(OSError):
            horizon = time.time() - _FORGOTTEN_S
            for entry in os.scandir(self._folder.parent):
                if entry.stat().st_mtime < horizon:
                    shutil.rmtree(entry.path, ignore_errors=True)

    def _is_wanted(self, name: str) -> bool:
        stem, _, kind = name.partition(".")
        packed = self.pack is not None and kind == "values" and stem in self.pack.files
        return name == _PACK or (stem in self._present and not packed)

    def repack(self, files: Sequence[ParsedFile]) -> PackWriter | None:
        """Begin to pack the folder's files, given in the order of the table, if enough are new to the pack."""
        if self._folder is None or self._spread:
            return None
        kept = list({file.key: file for file in files if file.key}.values())
        total = sum(len(file.values) for file in kept)
        fresh = sum(len(file.values) for file in kept if file.place < 0)
        gone = self.pack.n - (total - fresh) if self.pack is not None else 0
        if total < _WORTH_A_PACK or (fresh <= total // 32 and gone <= total // 4):
            return None
        return PackWriter(self._folder / _PACK, _parser_digest(), kept)


@cache
def _parser_digest() -> bytes:
    digest = hashlib.sha256()
    for module in (asv_json, asv_columns, asv_results, parse_pack):
        digest.update(Path(str(module.__file__)).read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.digest()


def _key(data: bytes | memoryview, filename: str) -> str:
    digest = hashlib.sha256(_parser_digest())
    digest.update(os.fsencode(filename) + b"\0")
    digest.update(data)
    return digest.hexdigest()[:40]


def _pack(parsed: ParsedFile) -> bytes:
    spread = parsed.spread
    arrays = [
        parsed.values.astype("<f8", copy=False),
        parsed.ci_low.astype("<f8", copy=False),
        parsed.ci_high.astype("<f8", copy=False),
        parsed.row_started_ms.astype("<f8", copy=False),
        parsed.row_duration_s.astype("<f8", copy=False),
    ]
    if spread is not None:
        arrays += [
            spread.q_25.astype("<f8", copy=False),
            spread.q_75.astype("<f8", copy=False),
            spread.samples.astype("<f8", copy=False),
        ]
    parts = [array.tobytes() for array in arrays]
    if spread is not None:
        parts.append(spread.offsets.astype("<i8", copy=False).tobytes())
    parts.append(parsed.n_samples.astype("<i4", copy=False).tobytes())
    parts.append(parsed.status.tobytes())
    about = {
        "head": asdict(parsed.head),
        "faults": [[fault.row, fault.reason, fault.n_values] for fault in parsed.faults],
        "n": len(parsed.values),
        "rows": len(parsed.row_started_ms),
        "samples": len(spread.samples) if spread is not None else -1,
        "layout": len(parsed.layout),
    }
    text = json.dumps(about, separators=(",", ":")).encode()
    body = b"".join([text, parsed.layout, *parts])
    return _PREFIX.pack(_MAGIC, zlib.crc32(body), len(text)) + body


def _unpack(payload: memoryview, blocks: Blocks, *, spread: bool) -> ParsedFile:
    """The reverse of `_pack`; ValueError and the like for anything else."""
    magic, checksum, text_length = _PREFIX.unpack_from(payload)
    body = payload[_PREFIX.size :]
    if magic != _MAGIC or zlib.crc32(body) != checksum:
        raise ValueError("damaged")
    about = json.loads(bytes(body[:text_length]))
    n, rows, n_samples = about["n"], about["rows"], about["samples"]
    layout_end = text_length + about["layout"]
    arrays = blocks.copy(body[layout_end:])
    position = 0

    def take(kind: str, count: int) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        nonlocal position
        array = np.frombuffer(arrays, kind, count, position)
        position += array.nbytes
        return array

    floats = [take("<f8", count) for count in (n, n, n, rows, rows)]
    extra = None
    if spread:
        quartiles = [take("<f8", n), take("<f8", n)]
        extra = Spread(quartiles[0], quartiles[1], take("<f8", n_samples), take("<i8", n + 1))  # type: ignore[arg-type]
    counts = take("<i4", n)
    status = take("i1", n)
    return ParsedFile(
        head=Head(**about["head"]),
        layout=bytes(body[text_length:layout_end]),
        values=floats[0],  # type: ignore[arg-type]
        status=status,  # type: ignore[arg-type]
        ci_low=floats[1],  # type: ignore[arg-type]
        ci_high=floats[2],  # type: ignore[arg-type]
        n_samples=counts,  # type: ignore[arg-type]
        row_started_ms=floats[3],  # type: ignore[arg-type]
        row_duration_s=floats[4],  # type: ignore[arg-type]
        faults=[Fault(*fault) for fault in about["faults"]],
        spread=extra,
    )
