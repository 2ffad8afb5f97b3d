"""Pushes results to a branch that others push to as well: merge, commit, push, and again if somebody was faster.

The branch lives in a worktree of its own, which goes away afterwards. A push is all or nothing, and a merge never
changes a value that is there, so whoever comes second adds to what the first one pushed.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mlxcache.history.merging.merge import MergeReport, merge
from mlxcache.support.git import GitReply, run_git

_AUTHOR: Final = ("-c", "user.name=mlxcache", "-c", "user.email=mlxcache@users.noreply.github.com")
# Git's words for "somebody pushed before you".
_REJECTED: Final = ("[rejected]", "[remote rejected]", "fetch first", "non-fast-forward", "cannot lock ref")
# And for what trying again does not change: a hook, a rule, or a clone that works on the branch.
_REFUSED: Final = ("declined", "denied", "currently checked out")


class PublishError(RuntimeError):
    """The results are not on the branch; the message says why and what to do."""


@dataclass(frozen=True)
class Published:
    """What the last try merged, the commit that was pushed ("" if nothing was new) and how many tries it took."""

    report: MergeReport
    commit: str
    tries: int


def publish(
    shards: Sequence[Path],
    repo: str | os.PathLike[str],
    *,
    branch: str,
    remote: str = "origin",
    folder: str = "results",
    message: str = "Add benchmark results",
    tries: int = 8,
    pause: Callable[[float], None] = time.sleep,
) -> Published:
    """Merge `shards` into `folder` of `branch` and push it.

    Raises:
        PublishError: git refused for another reason than a race, or the race was lost `tries` times.
        what `merge` raises.
    """
    for attempt in range(1, tries + 1):
        with tempfile.TemporaryDirectory(prefix="mlxcache-publish-") as place:
            tree = Path(place) / "tree"
            _start(repo, tree, remote, branch)
            try:
                report = merge(shards, tree / folder, show_progress=False)
                commit = _commit(tree, folder, message)
                if not commit or _pushed(tree, remote, branch):
                    return Published(report, commit, attempt)
            finally:
                _run(repo, "worktree", "remove", "--force", str(tree))
        # Runners that lost together must not come back together.
        pause(random.uniform(0.5, 1.5) * min(2.0**attempt, 30.0))
    raise PublishError(
        f"{remote} {branch} was pushed to by others {tries} times in a row; the shards are as they were, try again"
    )


def _start(repo: str | os.PathLike[str], tree: Path, remote: str, branch: str) -> None:
    """A worktree with the branch as the remote has it, or with an empty one."""
    found = _git(repo, "ls-remote", "--heads", remote, f"refs/heads/{branch}").split()
    if found:
        _git(repo, "fetch", "--quiet", remote, f"refs/heads/{branch}")
        _git(repo, "worktree", "add", "--quiet", "--detach", str(tree), found[0])
        return
    _git(repo, "worktree", "add", "--quiet", "--no-checkout", "--detach", str(tree), "HEAD")
    # A commit without a parent and without files: the branch has nothing to do with the code's history.
    empty = _git(tree, "hash-object", "-t", "tree", os.devnull).strip()
    root = _git(tree, *_AUTHOR, "commit-tree", "-m", "Start the branch of benchmark results", empty).strip()
    _git(tree, "checkout", "--quiet", "--detach", root)


def _commit(tree: Path, folder: str, message: str) -> str:
    """The new commit, or "" where nothing changed."""
    _git(tree, "add", "--all", "--force", "--", folder)
    if _run(tree, "diff", "--cached", "--quiet").ok:
        return ""
    _git(tree, *_AUTHOR, "commit", "--quiet", "--no-verify", "-m", message)
    return _git(tree, "rev-parse", "HEAD").strip()


def _pushed(tree: Path, remote: str, branch: str) -> bool:
    done = _run(tree, "push", "--quiet", "--no-verify", remote, f"HEAD:refs/heads/{branch}")
    if done.ok:
        return True
    refused = [line for line in done.complaint.splitlines() if any(word in line for word in _REFUSED)]
    if not refused and any(word in done.complaint for word in _REJECTED):
        return False
    reason = refused[-1].strip() if refused else done.reason
    raise PublishError(f"git push to {branch} on {remote} failed: {reason}; the shards are as they were")


def _run(folder: str | os.PathLike[str], *arguments: str) -> GitReply:
    return run_git(folder, *arguments, environment={"GIT_TERMINAL_PROMPT": "0"})


def _git(folder: str | os.PathLike[str], *arguments: str) -> str:
    done = _run(folder, *arguments)
    if not done.ok:
        command = next(a for a in arguments if a[0] != "-" and "=" not in a)
        raise PublishError(f"git {command} failed: {done.reason}")
    return done.text
