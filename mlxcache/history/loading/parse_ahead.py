"""A second process that parses from the far end, so that a tree seen for the first time uses two cores.

It only fills the cache: the first process goes through the files from the front, and from where the two meet
it finds every entry there. Should the second one fail, the first does all the work itself.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

from mlxcache.history.loading.parse_cache import ParseCache
from mlxcache.support.workers import cores, start_python

# Less than a second's work is not worth a process.
_WORTHWHILE_BYTES: Final = 24 * 1024 * 1024


class ParseAhead:
    """Starts the second process once enough had to be parsed; ends it on leaving the context."""

    def __init__(self, cache: Path | None, *, spread: bool) -> None:
        self._cache = cache
        self._spread = spread
        self._missed = 0
        self._process: subprocess.Popen[bytes] | None = None

    def missed(self, n_bytes: int, remaining: Callable[[], list[tuple[str, str]]]) -> None:
        """Tell that so much was just parsed; `remaining` gives (file, machine folder) of what is to come."""
        self._missed += n_bytes
        if self._process is None and self._cache is not None and self._missed >= _WORTHWHILE_BYTES:
            self._missed = -(2**62)  # once
            if cores() > 1:
                self._start(self._cache, remaining())

    def _start(self, cache: Path, files: list[tuple[str, str]]) -> None:
        try:
            self._process = start_python(__name__, subprocess.DEVNULL)
            assert self._process.stdin is not None
            with self._process.stdin as pipe:
                pipe.write(json.dumps([str(cache.resolve()), self._spread, files[::-1]]).encode())
        except OSError:
            self._stop()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> ParseAhead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()


def main() -> None:
    """Parse the files that standard input names into the cache that it names."""
    cache, spread, files = json.load(sys.stdin)
    caches: dict[str, ParseCache] = {}
    for path, folder in files:
        if folder not in caches:
            caches[folder] = ParseCache(Path(cache), Path(folder), spread=spread)
        with contextlib.suppress(OSError):
            caches[folder].parse(caches[folder].fetch(Path(path)))


if __name__ == "__main__":
    main()
