"""Keeps parsed result files on disk, so that a tree is parsed once and each new file alone after that.

An entry is NumPy's archive of arrays, keyed by the file's content and by the source of the parser; the archive
has a checksum of each array, and what does not fit is parsed again. So the cache is never wrong, and its folder
may be deleted at any time, even in use.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlxcache.history.asv import columns as asv_columns
from mlxcache.history.asv import json_text as asv_json
from mlxcache.history.asv import results as asv_results
from mlxcache.history.asv.columns import Head, ParsedFile, Spread
from mlxcache.history.asv.json_text import Fault
from mlxcache.history.asv.results import parse_results
from mlxcache.support.atomic import write_cached

# Parsing a smaller file takes no longer than looking its entry up.
_WORTHWHILE_BYTES: Final = 32 * 1024
_FORGOTTEN_S: Final = 30 * 24 * 3600


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
    data: bytes
    entry: Path | None  # None: not to be kept
    parsed: ParsedFile | None


class ParseCache:
    """The entries of one folder of result files; with no `folder` it only parses."""

    def __init__(self, folder: Path | None, source: Path, *, spread: bool) -> None:
        self._spread = spread
        self._present: set[str] = set()  # keys of the files that there are
        self._folder: Path | None = None
        if folder is not None:
            name = hashlib.sha256(os.fsencode(os.path.realpath(source))).hexdigest()[:20]
            self._folder = folder / "parsed" / name

    def fetch(self, path: Path) -> Fetched:
        """Read a results file or, where there is one, its entry; may run in several threads at once.

        Raises:
            OSError: the file cannot be read.
        """
        content = path.read_bytes()
        if self._folder is None or len(content) < _WORTHWHILE_BYTES:
            return Fetched(path.name, content, None, None)
        entry = self._folder / (_key(content, path.name) + (".spread.npz" if self._spread else ".values.npz"))
        try:
            return Fetched(path.name, b"", entry, _unpack(entry.read_bytes(), spread=self._spread))
        except Exception:  # noqa: BLE001  # missing, or damaged in whatever way
            return Fetched(path.name, content, entry, None)

    def parse(self, fetched: Fetched) -> ParsedFile:
        """The parsed file; it gets an entry where it has none."""
        if fetched.entry is not None:
            self._present.add(fetched.entry.name.partition(".")[0])
        if fetched.parsed is not None:
            return fetched.parsed
        parsed = parse_results(fetched.data, fetched.filename, spread=self._spread)
        if fetched.entry is not None:
            write_cached(fetched.entry, _pack(parsed))
        return parsed

    def prune(self) -> None:
        """Remove entries of content that this folder no longer has, and folders not used for a month."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._folder):
                if entry.name.partition(".")[0] not in self._present:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)  # noqa: PTH108
            os.utime(self._folder)
        with contextlib.suppress(OSError):
            horizon = time.time() - _FORGOTTEN_S
            for entry in os.scandir(self._folder.parent):
                if entry.stat().st_mtime < horizon:
                    shutil.rmtree(entry.path, ignore_errors=True)


@cache
def _parser_digest() -> bytes:
    digest = hashlib.sha256()
    for module in (asv_json, asv_columns, asv_results):
        digest.update(Path(str(module.__file__)).read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.digest()


def _key(data: bytes, filename: str) -> str:
    digest = hashlib.sha256(_parser_digest())
    digest.update(os.fsencode(filename) + b"\0")
    digest.update(data)
    return digest.hexdigest()[:40]


def _pack(parsed: ParsedFile) -> bytes:
    about = {
        "head": asdict(parsed.head),
        "faults": [[fault.row, fault.reason, fault.n_values] for fault in parsed.faults],
    }
    # Few arrays: each costs as much to open as a hundred kilobytes to read.
    arrays: dict[str, Any] = {
        "about": np.frombuffer(json.dumps(about).encode(), np.uint8),
        "layout": np.frombuffer(parsed.layout, np.uint8),
        "of_values": np.stack([parsed.values, parsed.ci_low, parsed.ci_high]),
        "of_rows": np.stack([parsed.row_started_ms, parsed.row_duration_s]),
        "n_samples": parsed.n_samples,
        "status": parsed.status,
    }
    if parsed.spread is not None:
        spread = parsed.spread
        arrays |= {"quartiles": np.stack([spread.q_25, spread.q_75]), "samples": spread.samples}
        arrays["offsets"] = spread.offsets
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _unpack(content: bytes, *, spread: bool) -> ParsedFile:
    """The reverse of `_pack`; any exception for anything else."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays: Mapping[str, Any] = archive
        about = json.loads(arrays["about"].tobytes())
        values, ci_low, ci_high = arrays["of_values"]
        started, duration = arrays["of_rows"]
        return ParsedFile(
            head=Head(**about["head"]),
            layout=arrays["layout"].tobytes(),
            values=values,
            status=arrays["status"],
            ci_low=ci_low,
            ci_high=ci_high,
            n_samples=arrays["n_samples"],
            row_started_ms=started,
            row_duration_s=duration,
            faults=[Fault(*fault) for fault in about["faults"]],
            spread=_spread(arrays) if spread else None,
        )


def _spread(arrays: Mapping[str, Any]) -> Spread:
    q_25, q_75 = arrays["quartiles"]
    return Spread(q_25, q_75, arrays["samples"], arrays["offsets"])
