"""Bisecting: each answer halves what is left, and they lead to the commit, past those that cannot be measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mlxcache.remeasure.bisect import Answer, Found, Question, answer, bisect, line_between, reproduce
from mlxcache.remeasure.rerun import Outcome
from mlxcache.remeasure.rounds import MeasureError, Rounds
from tests.tiny_project import commit, git, make_project


def asking(**states: str) -> tuple[list[str], Callable[[str], Answer]]:
    """Which answer each commit gives: f(ast), s(low) or b(roken), and what was asked."""
    asked: list[str] = []

    def ask(commit: str) -> Answer:
        asked.append(commit)
        return {"f": Answer.GOOD, "s": Answer.BAD, "b": Answer.SKIP}[states["line"][int(commit)]]

    return asked, ask


def test_halving_finds_the_first_bad_commit() -> None:
    """For each place of the change, in as many questions as halving takes."""
    for first in range(1, 40):
        asked, ask = asking(line="f" * first + "s" * (40 - first))
        assert bisect([str(place) for place in range(40)], ask) == Found(str(first), ())
        assert len(asked) <= 6
        assert len(set(asked)) == len(asked)


def test_commits_that_cannot_be_measured_are_passed_over() -> None:
    """A broken commit elsewhere does not matter; those beside the change leave suspects."""
    _, ask = asking(line="fbfssbs")
    assert bisect([str(place) for place in range(7)], ask).first_bad == "3"
    _, ask = asking(line="ffbbss")
    assert bisect([str(place) for place in range(6)], ask) == Found("", ("2", "3", "4"))
    _, ask = asking(line="fbs")
    assert bisect(["0", "1", "2"], ask) == Found("", ("1", "2"))


def test_the_line_is_that_of_first_parents_and_good_comes_first(tmp_path: Path) -> None:
    """A merged branch's own commits are not on it; the wrong way round is an error that says so."""
    make_project(tmp_path)
    first = commit(tmp_path, "one", tiny_py="1\n")
    git(tmp_path, "checkout", "-q", "-b", "side")
    commit(tmp_path, "beside", beside_py="1\n")
    git(tmp_path, "checkout", "-q", "main")
    second = commit(tmp_path, "two", tiny_py="2\n")
    git(tmp_path, "merge", "-q", "--no-ff", "-m", "merge", "side")
    merged = git(tmp_path, "rev-parse", "HEAD")
    assert line_between(tmp_path, first, merged) == [first, second, merged]
    with pytest.raises(MeasureError, match="has to come before the bad one"):
        line_between(tmp_path, merged, first)
    with pytest.raises(MeasureError, match="there is nothing between"):
        line_between(tmp_path, first, first)


QUESTION = Question("asv.conf.json", "good", "^b$", "b.time_x", "", "", 10, "", border=np.log(1.1) / 2)


def rounds_of(ratio: float, sigma: float = 0.002, higher_better: bool = False) -> Any:
    """Measures any commit as `ratio` times the good one."""

    def measure(config: str, base: str, head: str, *, bench: list[str], rounds: int, **_: Any) -> Rounds:
        rng = np.random.default_rng(int(ratio * 1000))
        rows = [
            {"benchmark": "b.time_x", "params": "", "env": "e", "round": i, "side": side}
            | {"value": level * float(np.exp(rng.normal(0, sigma)))}
            for i in range(rounds)
            for side, level in (("base", 1.0), ("head", ratio))
        ]
        return Rounds(pd.DataFrame(rows), higher_better={"b.time_x": higher_better})

    return measure


def test_a_commit_goes_to_the_side_that_it_is_nearer_to() -> None:
    """Half of the change is the border."""
    assert answer(QUESTION, "x", rounds_of(1.0))[0] is Answer.GOOD
    assert answer(QUESTION, "x", rounds_of(1.02))[0] is Answer.GOOD
    assert answer(QUESTION, "x", rounds_of(1.08))[0] is Answer.BAD
    assert answer(QUESTION, "x", rounds_of(1.1))[0] is Answer.BAD


def test_of_an_improvement_the_border_lies_below() -> None:
    """A change of -10 %: what is 2 % quicker is on the good side, what is 8 % quicker on the other."""
    question = replace(QUESTION, border=np.log(0.9) / 2)
    assert answer(question, "x", rounds_of(0.98))[0] is Answer.GOOD
    assert answer(question, "x", rounds_of(0.92))[0] is Answer.BAD


def test_a_commit_near_the_border_is_measured_again() -> None:
    """Up to three times, and all rounds count together; far from it once is enough."""
    asked: list[float] = []

    def measure(*arguments: Any, **options: Any) -> Rounds:
        asked.append(0.0)
        # 7 % more at first, which is the nearer side by less than two standard errors, then clearly less.
        return rounds_of(1.07 if len(asked) == 1 else 0.98, sigma=0.05)(*arguments, **options)

    assert answer(QUESTION, "x", measure)[0] is Answer.GOOD
    assert len(asked) > 1
    asked.clear()

    def clear(*arguments: Any, **options: Any) -> Rounds:
        asked.append(0.0)
        return rounds_of(1.1)(*arguments, **options)

    assert answer(QUESTION, "x", clear)[0] is Answer.BAD
    assert len(asked) == 1


def test_a_commit_that_gives_no_values_is_skipped() -> None:
    """A build error says nothing about speed."""

    def fails(*_: Any, **__: Any) -> pd.DataFrame:
        raise MeasureError("head x cannot be built")

    assert answer(QUESTION, "x", fails) == (Answer.SKIP, "head x cannot be built")
    nothing = pd.DataFrame(columns=["benchmark", "params", "env", "round", "side", "value"])
    found, why = answer(QUESTION, "x", lambda *_, **__: Rounds(nothing, failures=("b failed on head: Boom",)))
    assert found is Answer.SKIP
    assert "Boom" in why


def test_the_change_must_show_before_anything_is_bisected() -> None:
    """Otherwise git would be sent after noise."""
    assert reproduce(QUESTION, "bad", 1.0, rounds_of(1.1)).outcome is Outcome.CONFIRMED
    assert reproduce(QUESTION, "bad", 1.0, rounds_of(1.0)).outcome is Outcome.REFUTED


def test_worse_is_what_the_benchmark_declares() -> None:
    """A fifth fewer of what should be many is a slowdown; a fifth more is none."""
    assert reproduce(QUESTION, "bad", None, rounds_of(0.8, higher_better=True)).outcome is Outcome.CONFIRMED
    assert reproduce(QUESTION, "bad", None, rounds_of(1.2, higher_better=True)).outcome is Outcome.REFUTED
    assert reproduce(QUESTION, "bad", None, rounds_of(1.2)).outcome is Outcome.CONFIRMED
