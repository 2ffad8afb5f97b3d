"""Keeps what is known of quiet pieces on disk, so that one new file costs no second search of everything.

One file for all trees, keyed by the pieces' content and by the source of what judges them. It may be deleted at
any time: it is replaced as a whole, carries a checksum, and what does not fit is as good as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from mlxcache.history import detectors, noise, quiet
from mlxcache.history.quiet import Certificate

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


class CertificateStore(dict[bytes, Certificate]):
    """The certificates of a cache folder; whatever is set was in use and is kept by `save`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "quiet-pieces.bin"
        self._used: set[bytes] = set()
        self._added = False
        entries = _read(self._path)
        certificates = map(Certificate._make, entries[list(Certificate._fields)].tolist())
        super().__init__(zip(entries["key"].tolist(), certificates, strict=True))

    def __setitem__(self, key: bytes, certificate: Certificate) -> None:
        self._used.add(key)
        if self.get(key) != certificate:
            self._added = True
            super().__setitem__(key, certificate)

    def __reduce__(self) -> tuple[Callable[[Path], CertificateStore], tuple[Path]]:
        return opened, (self._path.parent,)  # another process reads the file itself

    def take_used(self) -> dict[bytes, Certificate]:
        """What was in use since the last call, for the store of another process."""
        used = {key: self[key] for key in self._used}
        self._used.clear()
        return used

    def note(self, used: Mapping[bytes, Certificate]) -> None:
        """Set what was of use, here or elsewhere."""
        for key, certificate in used.items():
            self[key] = certificate

    def save(self) -> None:
        """Add what is new to the file. A full disk or a read-only folder costs speed only, so nothing is said."""
        if not self._added:
            return
        today = int(time.time() // 86_400)
        mine = np.zeros(len(self._used), _ENTRY)
        keys = list(self._used)
        mine["key"] = np.array(keys, "V16")
        for name, column in zip(Certificate._fields, zip(*(self[key] for key in keys), strict=True), strict=True):
            mine[name] = column
        mine["day"] = today
        # Another process may have written since; its entries stay, and of two for one piece ours.
        others = _read(self._path)
        fresh = (others["day"] + _FORGOTTEN_DAYS >= today) & (others["day"] <= today)
        kept = [key not in self._used for key in others["key"].tolist()]
        others = others[fresh & np.array(kept, np.bool_)]
        others = others[np.argsort(others["day"], kind="stable")]
        _write(self._path, np.concatenate([others, mine])[-_MOST:].tobytes())


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


def _write(path: Path, body: bytes) -> None:
    # No fsync: what a crash cut short fails its checksum.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_PREFIX.pack(_MAGIC, zlib.crc32(body), _code_digest()) + body)
            os.replace(name, path)  # noqa: PTH105
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)  # noqa: PTH108
            raise
