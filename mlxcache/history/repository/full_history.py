"""Refuses a shallow clone, in which every question about history gets an answer and the wrong one.

Ranges end early, merge bases are missing, and commits that have results look as if they were of another
project; asv itself drops them and ends with status 0.
"""

from __future__ import annotations

import os
from pathlib import Path

from mlxcache.history.repository.commits import RepositoryError
from mlxcache.support.git import run_git


def is_shallow(repo: str | os.PathLike[str]) -> bool:
    """Whether the repository lacks history; False for what is no git repository."""
    done = run_git(repo, "rev-parse", "--is-shallow-repository")
    return done.ok and done.text.strip() == "true"


def require_full_history(repo: str | os.PathLike[str]) -> None:
    """Raise RepositoryError for a shallow clone, saying how to get the rest."""
    if is_shallow(repo):
        raise RepositoryError(
            f"the repository at {Path(repo).resolve()} is a shallow clone: history and ranges are cut short. "
            "`git fetch --unshallow` gets the rest (in GitHub Actions: actions/checkout with fetch-depth: 0)"
        )
