"""Pushing results to a branch while others do: nothing is lost, nothing is half there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from result_trees import commit as commit_name
from result_trees import document, row, write_document

from mlxcache import cli
from mlxcache.history.merging.publish import PublishError, publish
from mlxcache.history.repository.full_history import is_shallow
from tests.tiny_project import git, make_project


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a bare remote that has the code and no results yet."""
    source = make_project(tmp_path / "source")
    git(tmp_path, "clone", "-q", "--bare", str(source), str(tmp_path / "remote.git"))
    git(tmp_path, "clone", "-q", str(tmp_path / "remote.git"), str(tmp_path / "clone"))
    return tmp_path / "clone"


def shard(folder: Path, number: int, machine: str = "m1") -> Path:
    """A shard with one result, whose runner left a line of record too."""
    write_document(folder, document({f"b.time_{number}": row([float(number)])}, machine=machine))
    (folder / machine / "runs.jsonl").write_text(f'{{"run": {number}}}\n')
    return folder


def on_branch(clone: Path, name: str) -> str:
    """A file as the remote's branch has it."""
    git(clone, "fetch", "-q", "origin", "benchmark-results")
    return git(clone, "show", f"FETCH_HEAD:{name}")


def test_the_first_push_makes_the_branch(clone: Path, tmp_path: Path) -> None:
    """It has results and no code, and the clone is as it was."""
    before = git(clone, "status", "-sb"), git(clone, "worktree", "list")
    done = publish([shard(tmp_path / "s", 1)], clone, branch="benchmark-results")
    assert (done.tries, done.report.added) == (1, 1)
    git(clone, "fetch", "-q", "origin", "benchmark-results")
    names = git(clone, "ls-tree", "-r", "--name-only", "FETCH_HEAD").splitlines()
    assert names == [
        f"results/m1/{commit_name(1)[:8]}-venv-py3.12.json",
        "results/m1/machine.json",
        "results/m1/runs.jsonl",
    ]
    assert (git(clone, "status", "-sb"), git(clone, "worktree", "list")) == before
    assert publish([tmp_path / "s"], clone, branch="benchmark-results").commit == ""
    publish([shard(tmp_path / "t", 2)], clone, branch="benchmark-results")
    # Cutting the branch's history short would make the whole clone a shallow one.
    assert not is_shallow(clone)


def test_pushing_at_once_loses_nothing(clone: Path, tmp_path: Path) -> None:
    """Six runners finish in the same second; all of their benchmarks and records are on the branch."""
    clones = []
    for number in range(6):
        git(tmp_path, "clone", "-q", str(tmp_path / "remote.git"), str(tmp_path / f"clone{number}"))
        clones.append(tmp_path / f"clone{number}")
    shards = [shard(tmp_path / f"s{number}", number + 1) for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        done = list(
            pool.map(
                lambda pair: publish(
                    [pair[0]], pair[1], branch="benchmark-results", tries=30, pause=lambda s: None
                ),
                zip(shards, clones, strict=True),
            )
        )
    assert all(each.commit for each in done)
    text = on_branch(clone, f"results/m1/{commit_name(1)[:8]}-venv-py3.12.json")
    assert all(f"b.time_{number}" in text for number in range(1, 7))
    assert len(on_branch(clone, "results/m1/runs.jsonl").splitlines()) == 6


def test_losing_the_race_for_ever_is_an_error(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shards are as they were, and nothing stays in the clone."""
    monkeypatch.setattr("mlxcache.history.merging.publish._pushed", lambda *_: False)
    pauses: list[float] = []
    with pytest.raises(PublishError, match="was pushed to by others 3 times in a row"):
        publish([shard(tmp_path / "s", 1)], clone, branch="b", tries=3, pause=pauses.append)
    assert len(pauses) == 3
    assert len(git(clone, "worktree", "list").splitlines()) == 1


def test_a_refusal_is_no_lost_race(clone: Path, tmp_path: Path) -> None:
    """What the remote's rules forbid is not tried again, and the message has git's words."""
    hook = tmp_path / "remote.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    pauses: list[float] = []
    with pytest.raises(PublishError, match=r"git push to b on origin failed: .*hook declined\)"):
        publish([shard(tmp_path / "s", 1)], clone, branch="b", pause=pauses.append)
    assert pauses == []


def test_a_push_to_nowhere_says_why(clone: Path, tmp_path: Path) -> None:
    """The reason is git's last line, not a list of lines."""
    git(clone, "remote", "set-url", "--push", "origin", str(tmp_path / "gone.git"))
    with pytest.raises(PublishError, match=r"git push to b on origin failed: [^\[\]]+; the shards are"):
        publish([shard(tmp_path / "s", 1)], clone, branch="b")


def test_the_command(clone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 pushed, 1 conflicts, 2 not done."""
    arguments = ["--repo", str(clone)]
    assert cli.main(["publish", str(shard(tmp_path / "s", 1)), *arguments]) == 0
    assert "1 files added, 0 joined, 0 conflicts" in capsys.readouterr().out
    write_document(tmp_path / "other", document({"b.time_1": row([9.0])}))
    assert cli.main(["publish", str(tmp_path / "other"), *arguments]) == 1
    assert "conflict: " in capsys.readouterr().err
    assert cli.main(["publish", str(tmp_path / "s"), "--remote", "nowhere", *arguments]) == 2
    assert "git ls-remote failed" in capsys.readouterr().err
