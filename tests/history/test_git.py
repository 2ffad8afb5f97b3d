"""What the one place that runs git hands back."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlxcache.support.git import run_git
from tests.tiny_project import commit, git


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with one commit."""
    git(tmp_path, "init", "-q")
    commit(tmp_path, "start")
    return tmp_path


def test_what_git_prints_is_kept(repo: Path) -> None:
    """Standard output as bytes and as text, whatever is given on standard input."""
    reply = run_git(repo, "hash-object", "--stdin", given="h\u00e9llo\n")
    assert reply.ok
    assert reply.text.strip() == reply.data.decode().strip()
    assert len(reply.text.strip()) == 40


def test_the_reason_is_the_last_line_of_the_complaint(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In English, whatever the user speaks; a command that fails in silence has a reason too."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    reply = run_git(repo, "rev-parse", "--verify", "nothing")
    assert not reply.ok
    assert reply.reason == "fatal: Needed a single revision"
    assert run_git(repo, "rev-parse", "--verify", "--quiet", "nothing").reason == "no message"


def test_variables_come_on_top_of_the_users(repo: Path) -> None:
    """A caller's environment reaches git beside ours."""
    reply = run_git(repo, "var", "GIT_AUTHOR_IDENT", environment={
        "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
    })  # fmt: skip
    assert reply.text.startswith("A <a@example.org>")
