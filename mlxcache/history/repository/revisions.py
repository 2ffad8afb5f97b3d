"""What the names that people give commits mean in a repository."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from mlxcache.history.repository.commits import RepositoryError
from mlxcache.history.repository.full_history import require_full_history
from mlxcache.support.git import run_git


def resolve_commit(repo: str | os.PathLike[str], revision: str) -> str:
    """The full hash of a revision. Raises RepositoryError if the repository has no such commit."""
    done = run_git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if not done.ok:
        if "not a git repository" in done.complaint:
            raise RepositoryError(
                f"repo: {Path(repo).resolve()} is no git repository; give the project's with --repo"
            )
        raise RepositoryError(
            f"{revision!r} is no commit of the repository at {Path(repo).resolve()}; in a shallow clone, "
            "`git fetch --unshallow` brings the history"
        )
    return done.text.strip()


def one_beginning(names: Sequence[str], name: str, role: str) -> str:
    """The one of the results' commits that is called, or begins with, `name`.

    Raises ValueError, which says `role`, if none is, or several.
    """
    if name in names:
        return name
    fits = [full for full in names if full.startswith(name)] if len(name) >= 4 else []
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise ValueError(f"{role}: {name!r} begins {len(fits)} commits of the results; give more characters")
    raise ValueError(
        f"{role}: no results for commit {name!r} ({len(names)} commits have some); tags, branches and HEAD~3 "
        "need the repository"
    )


def subject_of(repo: str | os.PathLike[str], commit: str) -> str:
    """The first line of a commit's message; "" where git does not know it."""
    return run_git(repo, "log", "-1", "--format=%s", "--end-of-options", commit).text.strip()


def merge_base(repo: str | os.PathLike[str], one: str, other: str) -> str | None:
    """The newest commit that both have in their history, or None."""
    done = run_git(repo, "merge-base", one, other)
    return done.text.strip() or None if done.ok else None


def where_left(repo: str | os.PathLike[str], base: str, head: str) -> str:
    """The commit at which `head` left the history of `base`; both are revisions.

    Raises RepositoryError if they have no common history, or the clone is too shallow to know.
    """
    require_full_history(repo)
    left = merge_base(repo, resolve_commit(repo, base), resolve_commit(repo, head))
    if left is None:
        raise RepositoryError(
            f"{base} and {head} have no common history; in a shallow clone "
            "`git fetch --unshallow` brings it, or compare with --exact-base"
        )
    return left


def first_parent_line(
    repo: str | os.PathLike[str], revisions: str, newest: int | None = None, touching: Sequence[str] = ()
) -> list[str]:
    """Commits on the first-parent line of a branch or a range, oldest first; at most the `newest` ones.

    `touching` keeps those that change one of the paths; none keeps all.

    Raises RepositoryError if git does not know them.
    """
    if revisions.startswith("-"):
        raise RepositoryError(f"range: got {revisions!r}, expected a branch or a range such as main~20..main")
    limit = [] if newest is None else [f"--max-count={newest}"]
    done = run_git(repo, "rev-list", "--first-parent", *limit, "--end-of-options", revisions, "--", *touching)
    if not done.ok:
        raise RepositoryError(
            f"range: git knows no {revisions!r} in {Path(repo).resolve()} ({done.reason}); "
            "expected a branch or a range such as main~20..main"
        )
    return done.text.split()[::-1]
