"""`mlxcache coverage` and `mlxcache bisect` as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlxcache.cli import main
from mlxcache.commands import bisect as bisect_command
from mlxcache.remeasure.rounds import Rounds
from tests.history.test_bisecting import rounds_of
from tests.tiny_project import EXISTING, commit, git, make_project

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hashes of a project of four commits, in which the test runs."""
    folder = make_project(tmp_path / "project")
    monkeypatch.chdir(folder)
    return [
        git(folder, "rev-parse", "HEAD"),
        *(commit(folder, f"change {i}", tiny_py=f"V = {i}\n") for i in range(3)),
    ]


def test_everything_is_missing_before_the_first_run(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Newest first, as `asv run HASHFILE:-` wants them."""
    assert main(["coverage", "--missing"]) == 0
    assert capsys.readouterr().out.split() == line[::-1]
    assert main(["coverage", "--missing", "--newest", "2"]) == 0
    assert capsys.readouterr().out.split() == line[:1:-1]


def test_what_was_measured_is_no_longer_missing(line: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """After a real run of the newest commit."""
    assert main(["bench", *EXISTING]) == 0
    capfd.readouterr()
    assert main(["coverage", "--missing"]) == 0
    assert capfd.readouterr().out.split() == line[2::-1]
    assert main(["coverage"]) == 0
    told = capfd.readouterr().out
    assert "1 of 4 commits measured" in told
    assert f"3 missing: {line[2][:10]}" in told
    assert main(["coverage", "--format", "json", "--machine", "no-such"]) == 0
    assert json.loads(capfd.readouterr().out) == {"missing": line[::-1], "machines": []}


def test_groups_for_a_matrix_are_whole_commits_dealt_in_turn(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Neighbours go to different machines; no group is empty, and nothing to measure is an empty list."""
    assert main(["coverage", "--groups", "3"]) == 0
    newest = line[::-1]
    assert json.loads(capsys.readouterr().out) == [f"{newest[0]} {newest[3]}", newest[1], newest[2]]
    assert main(["coverage", "--groups", "9", "--newest", "2"]) == 0
    assert json.loads(capsys.readouterr().out) == newest[:2]
    assert main(["coverage", "HEAD..HEAD", "--groups", "4"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_machine_that_was_away_has_its_own_plan(line: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """What another machine has measured is missing here all the same."""
    assert main(["bench", *EXISTING]) == 0
    capfd.readouterr()
    assert main(["coverage", "--missing", "--machine", "^macos-arm64-apple_m4_max-16c-128g-metal-40gpu$"]) == 0
    assert capfd.readouterr().out.split() == line[::-1]


@pytest.mark.parametrize(
    "arguments", [["nowhere"], ["--newest", "0"], ["--groups", "0"], ["--machine", "("], ["--repo", "/"]]
)
def test_what_cannot_be_covered_has_status_2(
    line: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """With the reason."""
    assert main(["coverage", *arguments]) == 2
    assert capsys.readouterr().err.startswith("mlxcache coverage: ")


def test_a_bisect_names_the_commit_and_the_size(
    line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commit in the middle is asked for, with the bad one's suite; nothing is written to the repository."""
    asked: list[tuple[str, str]] = []

    def measure(config: str, base: str, head: str, *, suite: str, **options: Any) -> Rounds:
        asked.append((head, suite))
        fast = line.index(head) < 2
        return rounds_of(1.0 if fast else 1.2)(config, base, head, **options)

    monkeypatch.setattr(bisect_command, "measure", measure)
    before = [git(Path(), *command) for command in (["status", "-sb"], ["worktree", "list"], ["for-each-ref"])]
    assert main(["bisect", "b.time_x", "--good", line[0], "--bad", line[3]]) == 0
    out = capsys.readouterr().out
    assert f"{line[2]} made b.time_x worse by +20." in out
    assert "change 1" in out
    assert {suite for _, suite in asked} == {line[3]}
    assert {head for head, _ in asked} == set(line[1:])
    assert before == [
        git(Path(), *command) for command in (["status", "-sb"], ["worktree", "list"], ["for-each-ref"])
    ]


def test_a_change_that_does_not_show_is_not_bisected(
    line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 3: nothing was found, and nothing went wrong."""
    monkeypatch.setattr(bisect_command, "measure", rounds_of(1.0))
    assert main(["bisect", "b.time_x", "--good", line[0], "--bad", line[3]]) == 3
    assert "no slowdown between" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["b.time_x", "--good", "HEAD~1"], "give both --good and --bad"),
        (["b.time_x", "--good", "HEAD", "--bad", "HEAD"], "there is nothing between"),
        (["b.time_x)", "--good", "HEAD~1", "--bad", "HEAD"], "expected a benchmark's name"),
        (["b.time_x", "--results", "nowhere"], "nothing at nowhere"),
        (["b.time_x", "--good", "no-such", "--bad", "HEAD"], "'no-such' is no commit"),
    ],
)
def test_what_cannot_be_bisected_has_status_2(
    line: list[str], capsys: Any, arguments: list[str], message: str
) -> None:
    """The message says what to give."""
    assert main(["bisect", *arguments]) == 2
    assert message in capsys.readouterr().err
