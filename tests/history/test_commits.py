"""The order of commits comes from git's history, and what is not in it is kept and said."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from result_trees import document, row, write_benchmarks, write_document

from mlxcache.history import load
from mlxcache.history.repository.commits import CommitOrder, RepositoryError, order_commits
from mlxcache.support import git as git_module

DAY = 86_400


def git(repo: Path, *arguments: str, day: int = 0) -> str:
    """Run git in the repository as an author of its own, at noon of that day since 1970."""
    when = f"@{day * DAY + 43_200} +0000"
    environment = {
        "PATH": "/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin",
        "HOME": str(repo),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "GIT_AUTHOR_DATE": when,
        "GIT_COMMITTER_DATE": when,
    }
    done = subprocess.run(
        ["git", *arguments], cwd=repo, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(repo: Path, subject: str, day: int) -> str:
    """Make an empty commit; returns its hash."""
    git(repo, "commit", "--quiet", "--allow-empty", "-m", subject, day=day)
    return git(repo, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """An empty repository."""
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    return folder


def in_order(order: CommitOrder) -> list[str]:
    """The names as the results have them, oldest first."""
    return sorted(order.commits, key=lambda name: order.commits[name].index)


def seconds(names: Sequence[str], days: Sequence[int | None]) -> dict[str, int | None]:
    """What the results would record."""
    return {name: None if day is None else day * DAY + 43_200 for name, day in zip(names, days, strict=True)}


def test_topology_not_dates(repo: Path) -> None:
    """Commits come as the branch has them even where their dates run backwards."""
    hashes = [commit(repo, f"c{day}", day) for day in (5, 3, 9, 1)]
    order = order_commits(seconds(hashes[::-1], [1, 9, 3, 5]), repo)
    assert in_order(order) == hashes
    assert [order.commits[name].position for name in hashes] == [0, 1, 2, 3]
    assert order.commits[hashes[1]].subject == "c3"
    assert order.notices == ()


def test_first_parent(repo: Path) -> None:
    """A merged side branch is not on the line unless all ancestors are asked for."""
    first = commit(repo, "first", 1)
    git(repo, "checkout", "--quiet", "-b", "side")
    side = commit(repo, "side", 2)
    git(repo, "checkout", "--quiet", "main")
    second = commit(repo, "second", 3)
    git(repo, "merge", "--quiet", "--no-ff", "-m", "merge", "side", day=4)
    merged = git(repo, "rev-parse", "HEAD")
    names = seconds([merged, second, side, first], [4, 3, 2, 1])

    order = order_commits(names, repo)
    assert in_order(order) == [first, side, second, merged]
    assert order.commits[side].place == "side"
    assert order.commits[side].position is None
    assert order.commits[side].subject == "side"
    assert [name for name, _ in order.strays] == [side]
    assert "1 of 4 commits are not on HEAD" in order.notices[0]

    everything = order_commits(names, repo, first_parent=False)
    assert everything.strays == ()
    assert everything.commits[merged].position == 3


def test_unknown_commits_are_placed_by_date(repo: Path) -> None:
    """Commits that the repository does not have are kept between those of their time, and reported."""
    hashes = [commit(repo, f"c{day}", day) for day in (2, 4, 6)]
    lost, undated = "ab" * 20, "cd" * 20
    order = order_commits(seconds([*hashes, lost, undated], [2, 4, 6, 5, None]), repo)
    assert in_order(order) == [undated, hashes[0], hashes[1], lost, hashes[2]]
    assert order.commits[lost].place == "unknown"
    assert dict(order.strays)[lost].endswith("is not in the repository: placed by its date")
    assert dict(order.strays)[undated].endswith("and has no date")


def test_shallow_clone(repo: Path, tmp_path: Path) -> None:
    """With a shallow clone no commit is lost, and the notice says how to get the rest."""
    hashes = [commit(repo, f"c{day}", day) for day in (1, 2, 3)]
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth", "1", repo.as_uri(), str(shallow))
    order = order_commits(seconds(hashes, [1, 2, 3]), shallow)
    assert in_order(order) == hashes
    assert "git fetch --unshallow" in order.notices[0]
    assert "shallow clone" in order.strays[0][1]


def test_abbreviated_hashes_and_tags(repo: Path) -> None:
    """Names that asv was told to use (--set-commit-hash) are found; the same commit twice is one."""
    first, second = commit(repo, "one", 1), commit(repo, "two", 2)
    git(repo, "tag", "-a", "v1.0", "-m", "v1.0", first)
    order = order_commits(seconds([second[:8], "v1.0", first], [2, 1, 1]), repo)
    assert order.commits["v1.0"].name == first
    assert order.commits[second[:8]].name == second
    assert [order.commits[name].index for name in ("v1.0", first, second[:8])] == [0, 0, 1]
    assert order.strays == ()


@pytest.mark.parametrize("name", ["", "HEAD~1", ":/one", "--help", "a b", "x\ny", "refs/*", "é"])
def test_odd_names(repo: Path, name: str) -> None:
    """A name that is no commit's is unknown, whatever git would make of it."""
    commit(repo, "one", 1)
    commit(repo, "two", 2)
    order = order_commits({name: None}, repo)
    assert order.commits[name].place == "unknown"


def test_no_repository() -> None:
    """Without a repository dates decide, and the notice says so."""
    order = order_commits({"b": 2, "a": 2, "c": 1, "d": None})
    assert in_order(order) == ["d", "c", "a", "b"]
    assert order.notices == ("commits are ordered by date: no repository given",)
    assert order.commits["a"].place == "no repository"


def test_unusable_repository(tmp_path: Path, repo: Path) -> None:
    """A path that is no repository, or a branch that is not there, is an error that says what is expected."""
    with pytest.raises(RepositoryError, match="expected a git repository"):
        order_commits({"a": 1}, tmp_path)
    commit(repo, "one", 1)
    with pytest.raises(RepositoryError, match="nosuch"):
        order_commits({"a": 1}, repo, branch="nosuch")
    with pytest.raises(RepositoryError, match="branch: got '--all'"):
        order_commits({"a": 1}, repo, branch="--all")


def test_git_is_missing(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git on PATH the error says so and what to do."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RepositoryError, match="git was not found on PATH"):
        order_commits({"a": 1}, repo)


def test_few_calls(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of git calls does not grow with the number of commits."""
    hashes = [commit(repo, f"c{day}", day) for day in range(1, 6)]
    unknown = [f"{number:040x}" for number in range(50)]
    calls = []
    real = git_module.subprocess.run

    def counted(command: list[str], **named: object) -> object:
        calls.append(command)
        return real(command, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(git_module.subprocess, "run", counted)
    order_commits(dict.fromkeys([*hashes, *unknown], 5), repo)
    assert len(calls) == 3


def test_table_in_git_order(repo: Path, tmp_path: Path) -> None:
    """load takes the order from the repository and reports the files of commits that are not in it."""
    results = tmp_path / "results"
    write_benchmarks(results, {"time_x": {}})
    hashes = [commit(repo, f"c{day}", day) for day in (5, 3)]
    for name, day in (*zip(hashes, (5, 3), strict=True), ("ef" * 20, 6)):
        content = document({"time_x": row([1.0])}, commit_hash=name, date=day * DAY * 1000)
        write_document(results, content)
    df = load(results, repo)
    assert df.commit.tolist()[:2] == hashes
    assert df.facts.commits[hashes[1]].subject == "c3"
    assert [problem.file for problem in df.attrs["problems"]] == [
        str(results / "m1" / "efefefef-venv-py3.12.json")
    ]
    assert len(df) == 3
