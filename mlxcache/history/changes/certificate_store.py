"""Keeps what is known of quiet pieces on disk, so that one new file costs no second search of everything.

One file for all trees, keyed by the pieces' content and by the source of what judges them. It may be deleted at
any time: it is replaced as a whole, carries a checksum, and what does not fit is as good as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from mlxcache.history.changes import detectors, quiet
from mlxcache.history.changes.quiet import Certificate
from mlxcache.history.statistics import noise
from mlxcache.support.atomic import write_cached

_ENTRY: Final = np.dtype(
    [
        ("key", "V16"),
        ("penalty", "<f8"),
        ("sigma", "<f8"),
        ("excess", "<f8"),
        ("clipped", "<u4"),
        ("day", "<u4"),
    ]
)
_PREFIX: Final = struct.Struct("<4sI32s")  # magic, CRC-32 of the entries, digest of the code
_MAGIC: Final = b"mxq2"
_FORGOTTEN_DAYS: Final = 30
_MOST: Final = 1_000_000  # 48 MB


class Used(NamedTuple):
    """Keys of certificates that were of use, and those of them that are new."""

    keys: list[bytes]
    new: dict[bytes, Certificate]


class CertificateStore:
    """The certificates of a cache folder; whatever is set was in use and is kept by `save`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "quiet-pieces.bin"
        self._entries = _read(self._path)
        self._places = dict(zip(self._entries["key"].tolist(), range(len(self._entries)), strict=True))
        self._known = self._entries[list(Certificate._fields)].tolist()
        self._used: set[bytes] = set()
        self._new: dict[bytes, Certificate] = {}

    def get(self, key: bytes) -> Certificate | None:
        """The certificate of a piece, if there is one."""
        place = self._places.get(key)
        if place is None or key in self._new:
            return self._new.get(key)
        return Certificate._make(self._known[place])

    def __setitem__(self, key: bytes, certificate: Certificate) -> None:
        self._used.add(key)
        if self.get(key) != certificate:
            self._new[key] = certificate

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._places.keys() | self._new.keys())

    def __len__(self) -> int:
        return len(self._places.keys() | self._new.keys())

    def __reduce__(self) -> tuple[Callable[[Path], CertificateStore], tuple[Path]]:
        return opened, (self._path.parent,)  # another process reads the file itself

    def take_used(self) -> Used:
        """What was of use since the last call, for the store of another process."""
        used = Used(list(self._used), {key: self._new[key] for key in self._used & self._new.keys()})
        self._used.clear()
        return used

    def note(self, used: Used) -> None:
        """Count something as in use that was taken from another store of this folder, or from this one."""
        self._new.update(used.new)
        self._used.update(used.keys)

    def save(self) -> None:
        """Add what is new to the file. A full disk or a read-only folder costs speed only, so nothing is said."""
        if not self._new:
            return
        today = int(time.time() // 86_400)
        # What another process alone had found in the file, this one knows nothing of.
        old = [place for key in self._used - self._new.keys() if (place := self._places.get(key)) is not None]
        fresh = np.zeros(len(self._new), _ENTRY)
        fresh["key"] = np.array(list(self._new), "V16")
        for name, column in zip(Certificate._fields, zip(*self._new.values(), strict=True), strict=True):
            fresh[name] = column
        mine = np.concatenate([self._entries[old], fresh])
        mine["day"] = today
        # Another process may have written since; its entries stay, and of two for one piece ours.
        others = _read(self._path)
        lately = (others["day"] + _FORGOTTEN_DAYS >= today) & (others["day"] <= today)
        ours = {*mine["key"].tolist()}
        others = others[lately & np.array([key not in ours for key in others["key"].tolist()], np.bool_)]
        others = others[np.argsort(others["day"], kind="stable")]
        body = np.concatenate([others, mine])[-_MOST:].tobytes()
        write_cached(self._path, _PREFIX.pack(_MAGIC, zlib.crc32(body), _code_digest()) + body)


@lru_cache(1)
def opened(folder: Path) -> CertificateStore:
    """The store of a helper, which reads the file once."""
    return CertificateStore(folder)


@cache
def _code_digest() -> bytes:
    digest = hashlib.sha256()
    for module in (noise, detectors, quiet):
        digest.update(Path(str(module.__file__)).read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.digest()


def _read(path: Path) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """The file's entries; none if it is missing, damaged or of other code."""
    with contextlib.suppress(OSError, struct.error):
        payload = path.read_bytes()
        magic, checksum, code = _PREFIX.unpack_from(payload)
        body = memoryview(payload)[_PREFIX.size :]
        sound = magic == _MAGIC and zlib.crc32(body) == checksum and len(body) % _ENTRY.itemsize == 0
        if sound and code == _code_digest():
            return np.frombuffer(body, _ENTRY)
    return np.empty(0, _ENTRY)
