"""Runs git in a repository and keeps what it said, so that each caller only has to name its own error."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# For whoever only reads: take no lock, and in a partial clone do not fetch what is missing, commit by commit.
READ_ONLY: Final[Mapping[str, str]] = {"GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}


@dataclass(frozen=True, slots=True)
class GitReply:
    """How git ended, what it printed, and what it complained of."""

    status: int
    data: bytes
    complaint: str

    @property
    def ok(self) -> bool:
        """Whether git did what it was asked for."""
        return self.status == 0

    @property
    def text(self) -> str:
        """What it printed; what is no UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace")

    @property
    def reason(self) -> str:
        """The last line of the complaint, for messages."""
        return (self.complaint.splitlines() or ["no message"])[-1]


def run_git(
    folder: str | os.PathLike[str],
    *arguments: str,
    given: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> GitReply:
    """Run git in `folder` and wait; it complains in English, whatever the user's language.

    Args:
        folder: where to.
        arguments: what a user would type after `git`.
        given: what it reads on standard input; None leaves it ours.
        environment: variables beside the process's own.

    Raises OSError where there is no git.
    """
    done = subprocess.run(
        ["git", "-C", os.fspath(folder), *arguments],
        input=None if given is None else given.encode(),
        capture_output=True,
        env={**os.environ, "LC_ALL": "C", **(environment or {})},
        check=False,
    )
    return GitReply(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace").strip())
