"""Puts commits into the order in which the branch saw them, with three git calls however many there are.

Dates are no order: rebased and cherry-picked commits carry old ones. The line of first parents of the branch
is the order; commits that are not on it are kept and placed by their date among those that are.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Literal

from mlxcache.support.git import READ_ONLY, run_git

Place = Literal["line", "side", "unknown", "no repository"]

_ASKABLE: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._/+-]*")  # what git may be asked for as a commit's name
_FORMAT: Final = "%H%x09%at%x09%ct%x09%s"


class RepositoryError(ValueError):
    """The repository or branch that was named cannot be used."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit that has results.

    `index` is its rank among all commits of the table, oldest 0. `position` is its rank on the branch's line
    (all commits of it, measured or not, oldest 0), None where it is not on it. `place` says how sure that is:
    "line" (on the branch), "side" (in the repository only), "unknown" (not in it), "no repository".
    """

    name: str  # the full hash; what the results say where no repository knows it
    index: int
    date_s: int | None  # seconds since 1970 UTC
    subject: str = ""
    position: int | None = None
    place: Place = "no repository"


@dataclass(frozen=True, slots=True)
class CommitOrder:
    """Commits by the name that the results use, with what is to be said about their order."""

    commits: dict[str, Commit]
    notices: tuple[str, ...]
    strays: tuple[tuple[str, str], ...]  # (name as in the results, why its place is by date only)


@dataclass(frozen=True, slots=True)
class Known:
    """What git says of a commit: its dates in seconds since 1970, and the first line of its message."""

    hash: str
    author_s: int
    committer_s: int
    subject: str


def order_commits(
    recorded: Mapping[str, int | None],
    repo: str | os.PathLike[str] | None = None,
    *,
    branch: str = "HEAD",
    first_parent: bool = True,
) -> CommitOrder:
    """Order the commits that results name.

    Args:
        recorded: commit names as the results have them (full or abbreviated hashes, tags) with the date that
            the results record, in seconds since 1970, or None.
        repo: the repository; None orders by date and says so in `notices`.
        branch: whose history is the line.
        first_parent: only first parents are on the line; False takes every ancestor, in topological order.

    Raises:
        RepositoryError: `repo` is no git repository, has no such branch, or git is missing.
    """
    if repo is None:
        by_date = sorted(recorded, key=lambda name: (_date_key(recorded[name]), name))
        commits = {name: Commit(name, index, recorded[name]) for index, name in enumerate(by_date)}
        notice = "commits are ordered by date: no repository given"
        return CommitOrder(commits, (notice,) if commits else (), ())

    shallow = _git(repo, "rev-parse", "--is-shallow-repository").strip() == b"true"
    line = read_line(repo, branch, first_parent)
    positions = {known.hash: position for position, known in enumerate(line)}
    missing = [name for name in recorded if name not in positions]
    found = _look_up(repo, missing) if missing else {}
    # Dates along the line may step back; the latest so far is what places others among them.
    latest = list(accumulate((known.committer_s for known in line), max))

    keyed: list[tuple[tuple[float, int, str], str, Commit]] = []
    strays: list[tuple[str, str]] = []
    for name, date_s in recorded.items():
        known = line[positions[name]] if name in positions else found.get(name)
        full = known.hash if known else name
        position = positions.get(full)
        date_s = date_s if date_s is not None else known.author_s if known else None
        commit = Commit(full, 0, date_s, known.subject if known else "", position, "line")
        if position is not None:
            key = (float(position), 0, "")
        else:
            placing = known.committer_s if known else date_s
            if known:
                commit = replace(commit, place="side")
                why = f"commit {name} is in the repository but not on the line of {branch}"
            else:
                commit = replace(commit, place="unknown")
                why = f"commit {name} is not in the repository"
                if shallow:
                    why += ", which is a shallow clone"
            strays.append(
                (name, f"{why}: placed by its date" if placing is not None else f"{why} and has no date")
            )
            after = bisect_right(latest, placing) - 1 if placing is not None else -1
            key = (after + 0.5, _date_key(placing), full)
        keyed.append((key, name, commit))

    keyed.sort(key=lambda item: item[:2])
    ranks = {full: rank for rank, full in enumerate(dict.fromkeys(commit.name for _, _, commit in keyed))}
    commits = {name: replace(commit, index=ranks[commit.name]) for _, name, commit in keyed}
    notices = []
    if strays:
        advice = "; the clone is shallow: `git fetch --unshallow` gets the rest" if shallow else ""
        notices.append(f"{len(strays)} of {len(recorded)} commits are not on {branch}: placed by date{advice}")
    return CommitOrder(commits, tuple(notices), tuple(strays))


def _date_key(date_s: int | None) -> int:
    return date_s if date_s is not None else -(2**62)


def read_line(repo: str | os.PathLike[str], branch: str, first_parent: bool = True) -> list[Known]:
    """Every commit of a branch's line, oldest first. Raises RepositoryError where git has none."""
    shape = "--first-parent" if first_parent else "--topo-order"
    if branch.startswith("-"):
        raise RepositoryError(f"branch: got {branch!r}, expected the name of a branch, tag or commit")
    output = _git(repo, "log", shape, "--reverse", f"--format={_FORMAT}", branch, "--")
    line = []
    for row in output.decode("utf-8", "replace").split("\n"):
        parts = row.split("\t", 3)
        if len(parts) == 4:
            line.append(Known(parts[0], int(parts[1]), int(parts[2]), parts[3]))
    return line


def _look_up(repo: str | os.PathLike[str], names: Iterable[str]) -> dict[str, Known]:
    """What the repository knows of commits that are not on the line, all in one call."""
    asked = [name for name in names if _ASKABLE.fullmatch(name)]
    output = _git(repo, "cat-file", "--batch", text="".join(f"{name}^{{commit}}\n" for name in asked))
    found: dict[str, Known] = {}
    start = 0
    for name in asked:
        end = output.find(b"\n", start)
        if end < 0:
            break
        words = output[start:end].split()
        start = end + 1
        if len(words) == 3 and words[1] == b"commit" and words[2].isdigit():
            size = int(words[2])
            found[name] = _parse_commit(words[0].decode(), output[start : start + size])
            start += size + 1
    return found


def _parse_commit(full: str, content: bytes) -> Known:
    header, _, message = content.decode("utf-8", "replace").partition("\n\n")
    times = {"author": 0, "committer": 0}
    for row in header.split("\n"):
        role, _, rest = row.partition(" ")
        match = re.search(r"> (-?\d+) [-+]\d+$", rest)
        if role in times and match:
            times[role] = int(match[1])
    return Known(full, times["author"], times["committer"], message.lstrip("\n").partition("\n")[0])


def _git(repo: str | os.PathLike[str], *arguments: str, text: str = "") -> bytes:
    try:
        done = run_git(repo, "-c", "log.showSignature=false", *arguments, given=text, environment=READ_ONLY)
    except FileNotFoundError:
        raise RepositoryError(
            "git was not found on PATH; install it, or give no repository to order commits by date"
        ) from None
    if not done.ok:
        raise RepositoryError(
            f"git {arguments[0]} failed in {repo}: {done.reason}; expected a git"
            " repository that has the branch (or give none, and commits are ordered by date)"
        )
    return done.data
