"""What the repository tells beyond the order of commits: subjects in a range, and where a commit is shown.

Everything here may be missing; then pages say less, never something else.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mlxcache.history.repository.commits import Commit, RepositoryError, read_line
from mlxcache.support.git import run_git
from mlxcache.support.names import digest, slug

_REMOTE: Final = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^/@\s]+@)?|[\w.-]+@)(?P<host>[\w.-]+)(?::\d+)?[:/](?P<path>[\w./~+-]+?)(?:\.git)?/?"
)


def commit_page(name: str) -> str:
    """Where the site's own page of a measured commit is, relative to the site."""
    plain = re.fullmatch(r"[0-9a-f]{12,64}", name)
    return f"commits/{name[:12] if plain else f'{slug(name, 20)}-{digest(name)}'}.html"


@dataclass(frozen=True, slots=True)
class RangeCommit:
    """One commit of a range; `measured` says whether any result is of it."""

    name: str
    subject: str
    measured: bool


class Repository:
    """The branch's line of commits, and the address of a commit's page."""

    def __init__(self, folder: Path | None, branch: str, commits: Mapping[str, Commit]) -> None:
        self._commits = commits
        self._in_order = sorted(set(commits.values()), key=lambda commit: commit.index)
        self._line: list[tuple[str, str]] = []
        self._pattern = ""
        self._tags: list[tuple[str, str]] = []
        self.name = ""
        if folder is not None:
            self._line = _line(folder, branch)
            self._pattern = _commit_address(folder)
            self._tags = _tags(folder)
            self.name = _project_name(folder)

    @property
    def line(self) -> list[tuple[str, str]]:
        """Hash and subject of every first-parent commit, oldest first; empty without a repository."""
        return self._line

    def address(self, commit: str) -> str:
        """Where the commit is shown on the web, or ""."""
        known = self._commits.get(commit)
        on_line = known is None or known.place in ("line", "side")
        return f"{self._pattern}{commit}" if self._pattern and on_line and commit.isalnum() else ""

    @property
    def address_pattern(self) -> str:
        """What stands before a commit's hash in its address on the web, or ""."""
        return self._pattern

    def tags(self) -> list[tuple[int, str]]:
        """(index of the first measured commit that has it, name) of each tag on the line, oldest first."""
        places = {name: position for position, (name, _) in enumerate(self._line)}
        on_line = sorted((c.position, c.index) for c in self._in_order if c.position is not None)
        positions = [position for position, _ in on_line]
        found = []
        for name, commit in self._tags:
            at = bisect_left(positions, places[commit]) if commit in places else len(positions)
            if at < len(positions):
                found.append((on_line[at][1], name))
        return sorted(found)

    def subject(self, commit: str) -> str:
        """The first line of its message, or ""."""
        known = self._commits.get(commit)
        return known.subject if known else ""

    def between(self, before: str, after: str, limit: int = 200) -> tuple[list[RangeCommit], int]:
        """Commits after `before` up to `after`, the newest first, at most `limit`, and how many there are.

        Without the repository only measured ones are known.
        """
        first, last = self._commits.get(before), self._commits.get(after)
        if first is None or last is None:
            return [], 0
        if self._line and first.position is not None and last.position is not None:
            part = self._line[first.position + 1 : last.position + 1]
            found = [RangeCommit(name, subject, name in self._commits) for name, subject in part]
        else:
            known = self._in_order[first.index + 1 : last.index + 1]
            found = [RangeCommit(commit.name, commit.subject, True) for commit in known]
        return found[::-1][:limit], len(found)


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = run_git(folder, *arguments)
    except OSError:
        return ""
    return done.text if done.ok else ""


def _line(folder: Path, branch: str) -> list[tuple[str, str]]:
    try:
        return [(known.hash, known.subject) for known in read_line(folder, branch)]
    except RepositoryError:
        return []


def _tags(folder: Path) -> list[tuple[str, str]]:
    """Each tag's name and the commit that it names."""
    text = _git(folder, "for-each-ref", "refs/tags", "--format=%(refname:short)%09%(objectname)%09%(*objectname)")
    rows = (row.split("\t") for row in text.split("\n") if row.count("\t") == 2)
    return [(name, peeled or own) for name, own, peeled in rows]


def _commit_address(folder: Path) -> str:
    """What stands before a commit's hash in the address of its page, or ""."""
    own = _from_asv(folder / "asv.conf.json")
    if own:
        return own
    match = _REMOTE.fullmatch(_git(folder, "remote", "get-url", "origin").strip())
    if not match or "." not in match["host"]:
        return ""
    middle = "commits" if match["host"] == "bitbucket.org" else "commit"
    return f"https://{match['host']}/{match['path']}/{middle}/"


def _project_name(folder: Path) -> str:
    """What asv's settings call the project (they may have comments, so they are not read as JSON)."""
    try:
        text = (folder / "asv.conf.json").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    match = re.search(r'^\s*"project"\s*:\s*"([^"\\]+)"', text, re.MULTILINE)
    return match[1] if match else folder.resolve().name


def _from_asv(path: Path) -> str:
    """asv's own setting; its comments are not JSON, so only a plain file is understood."""
    try:
        settings: Any = json.loads(path.read_text(encoding="utf-8"))
        address = str(settings.get("show_commit_url", ""))
    except (OSError, ValueError, AttributeError):
        return ""
    return address if address.startswith(("https://", "http://")) else ""
