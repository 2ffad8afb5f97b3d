"""Bisecting with git: it asks, and the answers lead to the commit, past those that cannot be measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mlxcache.remeasure.bisect import Answer, Question, answer, bisect, reproduce
from mlxcache.remeasure.rerun import Outcome
from mlxcache.remeasure.rounds import MeasureError
from tests.tiny_project import commit, git, make_project

# Answers for a commit from the file that it has: what a measurement would find out.
READ = """
import subprocess, sys
text = subprocess.run(["git", "show", "BISECT_HEAD:tiny.py"], capture_output=True, text=True, check=True).stdout
sys.exit({"fast": 0, "slow": 1, "broken": 125}[text.split()[0]])
"""


def history(folder: Path, *states: str) -> list[str]:
    """A project with one commit a state."""
    make_project(folder)
    return [commit(folder, f"{i} {state}", tiny_py=f"{state} {i}\n") for i, state in enumerate(states)]


def test_git_finds_the_first_bad_commit_and_leaves_no_trace(tmp_path: Path) -> None:
    """The user's checkout, branch and worktrees are as they were."""
    line = history(tmp_path, *["fast"] * 6, *["slow"] * 5)
    (tmp_path / "tiny.py").write_text("edited and not committed\n")
    before = [git(tmp_path, *command) for command in (["status", "-sb"], ["worktree", "list"], ["for-each-ref"])]
    found = bisect(tmp_path, line[0], line[-1], [sys.executable, "-c", READ])
    assert found.first_bad == line[6]
    after = [git(tmp_path, *command) for command in (["status", "-sb"], ["worktree", "list"], ["for-each-ref"])]
    assert after == before
    assert not (tmp_path / ".git" / "BISECT_LOG").exists()


def test_commits_that_cannot_be_measured_are_passed_over(tmp_path: Path) -> None:
    """A broken commit elsewhere does not matter; one beside the change leaves suspects."""
    line = history(tmp_path, "fast", "broken", "fast", "slow", "slow", "broken", "slow")
    assert bisect(tmp_path, line[0], line[-1], [sys.executable, "-c", READ]).first_bad == line[3]
    other = tmp_path / "other"
    other.mkdir()
    line = history(other, "fast", "fast", "broken", "slow", "slow")
    found = bisect(other, line[0], line[-1], [sys.executable, "-c", READ])
    assert found.first_bad == ""
    assert set(found.suspects) == {line[2], line[3]}


def test_what_git_refuses_is_an_error(tmp_path: Path) -> None:
    """Good and bad the wrong way round: git's own words are in the message, and no worktree stays."""
    line = history(tmp_path, "fast", "slow")
    with pytest.raises(MeasureError, match="git bisect"):
        bisect(tmp_path, line[1], line[0], [sys.executable, "-c", READ])
    assert len(git(tmp_path, "worktree", "list").splitlines()) == 1


QUESTION = Question("asv.conf.json", "good", "^b$", "b.time_x", "", "", 10, border=np.log(1.1) / 2)


def rounds_of(ratio: float, sigma: float = 0.002) -> Any:
    """Measures any commit as `ratio` times the good one."""

    def measure(config: str, base: str, head: str, *, bench: list[str], rounds: int, **_: Any) -> pd.DataFrame:
        rng = np.random.default_rng(int(ratio * 1000))
        rows = [
            {"benchmark": "b.time_x", "params": "", "env": "e", "round": i, "side": side}
            | {"value": level * float(np.exp(rng.normal(0, sigma)))}
            for i in range(rounds)
            for side, level in (("base", 1.0), ("head", ratio))
        ]
        return pd.DataFrame(rows)

    return measure


def test_a_commit_goes_to_the_side_that_it_is_nearer_to() -> None:
    """Half of the change is the border."""
    assert answer(QUESTION, "x", rounds_of(1.0)) is Answer.GOOD
    assert answer(QUESTION, "x", rounds_of(1.02)) is Answer.GOOD
    assert answer(QUESTION, "x", rounds_of(1.08)) is Answer.BAD
    assert answer(QUESTION, "x", rounds_of(1.1)) is Answer.BAD


def test_a_commit_that_gives_no_values_is_skipped() -> None:
    """A build error says nothing about speed."""

    def fails(*_: Any, **__: Any) -> pd.DataFrame:
        raise MeasureError("head x cannot be built")

    assert answer(QUESTION, "x", fails) is Answer.SKIP
    nothing = pd.DataFrame(columns=["benchmark", "params", "env", "round", "side", "value"])
    assert answer(QUESTION, "x", lambda *_, **__: nothing) is Answer.SKIP


def test_the_change_must_show_before_anything_is_bisected() -> None:
    """Otherwise git would be sent after noise."""
    assert reproduce(QUESTION, "bad", 1.0, rounds_of(1.1)).outcome is Outcome.CONFIRMED
    assert reproduce(QUESTION, "bad", 1.0, rounds_of(1.0)).outcome is Outcome.REFUTED


def test_questions_survive_the_way_to_the_process_that_answers() -> None:
    """The border keeps all its digits."""
    assert Question.from_json(QUESTION.to_json()) == QUESTION
