"""The folder of a site: writes what differs, forgets what is gone, touches nothing that is not its own.

A list of what was written lies in the folder. The next build skips a file whose content is the same, need not
even draw a figure whose key is the same, and removes files that no page has any more. Until a build is done, a
journal beside the list says of which files the list no longer tells the truth.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from mlxcache.support.atomic import Part

LIST_NAME: Final = ".mlxcache-site.json"
JOURNAL_NAME: Final = ".mlxcache-site.journal"
_VERSION: Final = 1


class SiteError(ValueError):
    """The site cannot be written there."""


class Output:
    """One build of a site into one folder.

    `notes` is what pages leave for the next build: plain JSON values by name. `n_written` counts files of the
    site, as `n_files` does; the list of them is in neither.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: dict[str, Any] = {}
        self.n_written = 0
        self._files: dict[str, str] = {}
        self._folders: set[str] = set()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise SiteError(f"--out: {folder} is a file; expected a folder, new or of an earlier build") from None
        self.old_notes, listed = self._read_list()
        listed |= dict.fromkeys(self._read_journal(), "")  # no file's digest or key: it is written anew
        self._old = {path: digest for path, digest in listed.items() if _is_inside(path)}
        if not self._old and (folder / "index.html").exists():
            raise SiteError(
                f"--out: {folder} has an index.html that this command did not write; give a folder that is new, "
                "empty or from an earlier build"
            )

    def text(self, path: str, content: str) -> None:
        """Write a text file; `path` is relative to the site."""
        self.data(path, content.encode("utf-8", "replace"))

    def data(self, path: str, content: bytes) -> None:
        """Write a file unless it has this content already."""
        digest = hashlib.sha256(content).hexdigest()[:32]
        if not self._has(path, digest):
            self._write(path, content)
            self.n_written += 1
        self._files[path] = digest

    def keep(self, path: str, key: str) -> bool:
        """Whether a file was made from the same `key` before; then it stays as it is."""
        if not self._has(path, key):
            return False
        self._files[path] = key
        return True

    def keep_all(self, paths: Iterable[str], key: str) -> bool:
        """`keep` for files that are made together."""
        kept = [self.keep(path, key) for path in paths]
        return all(kept)

    def made(self, path: str, key: str, content: bytes) -> None:
        """Write a file unless it was made from the same `key` before."""
        if not self.keep(path, key):
            self._write(path, content)
            self.n_written += 1
            self._files[path] = key

    def finish(self) -> None:
        """Remove what this build did not write again, and note what there is."""
        for path in self._old.keys() - self._files.keys():
            with contextlib.suppress(OSError):
                self._place(path).unlink()
        listed = {"version": _VERSION, "notes": self.notes, "files": dict(sorted(self._files.items()))}
        self._replace(LIST_NAME, json.dumps(listed, separators=(",", ":")).encode())
        self._place(JOURNAL_NAME).unlink(missing_ok=True)

    @property
    def n_bytes(self) -> int:
        """Size of the site."""
        return sum((self.folder / path).stat().st_size for path in self._files)

    @property
    def n_files(self) -> int:
        """How many files the site has."""
        return len(self._files)

    def _has(self, path: str, digest: str) -> bool:
        return self._old.get(path) == digest and self._place(path).is_file()

    def _place(self, path: str) -> Path:
        return self.folder / path

    def _write(self, path: str, content: bytes) -> None:
        journal = os.open(self._place(JOURNAL_NAME), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(journal, f"{json.dumps(path)}\n".encode())
        finally:
            os.close(journal)
        self._replace(path, content)

    def _replace(self, path: str, content: bytes) -> None:
        # No fsync: a site that a crash cut short is built again, and thousands of files would take minutes.
        target = self._place(path)
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent not in self._folders:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(parent)
        with Part(target) as file:
            file.write(content)

    def _read_list(self) -> tuple[dict[str, Any], dict[str, str]]:
        try:
            listed = json.loads((self.folder / LIST_NAME).read_bytes())
            if listed["version"] != _VERSION:
                # Still ours: everything is written anew, what is gone is removed.
                return {}, dict.fromkeys(map(str, listed["files"]), "")
            files = {str(path): str(digest) for path, digest in listed["files"].items()}
            return dict(listed["notes"]), files
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}, {}

    def _read_journal(self) -> list[str]:
        """What a build wrote that did not finish."""
        paths = []
        with contextlib.suppress(OSError):
            for line in self._place(JOURNAL_NAME).read_bytes().splitlines():
                with contextlib.suppress(ValueError):  # the last line may be cut short
                    paths.append(str(json.loads(line)))
        return paths


def _is_inside(path: str) -> bool:
    return not path.startswith("/") and ".." not in Path(path).parts
