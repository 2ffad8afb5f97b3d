"""The list of changes as a reader gets it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "history"))

from frames import history_frame, levels, tables

from mlxcache.history import change_points
from mlxcache.history.answering.account import Account
from mlxcache.reports.changes import render
from mlxcache.reports.text import Format


def several(envs: tuple[str, ...] = ("env1",)) -> pd.DataFrame:
    """Five series of each environment that change together, and one that got better and lost it again."""
    frames = [
        history_frame(levels((40, 1.0), (40, 1.1), seed=k), benchmark=f"b.time_{k}", env=env)
        for k in range(5)
        for env in envs
    ]
    gone = levels((30, 1.0), (20, 0.8), (30, 1.0), seed=9)
    return change_points(tables(*frames, history_frame(gone, benchmark="b.time_gone", params="<class 'a.B'>")))


def said(changes: pd.DataFrame, how: Format, notices: Sequence[str] = ()) -> str:
    """The report of changes of which all regressions stand."""
    worse = changes[(changes["direction"] == "regression") & (changes["state"] != "recovered")]
    none = changes.iloc[:0]
    account = Account(standing=worse, uncertain=none, ended=none, broken=(), reach=(), retired=frozenset())
    return render(changes, account, how, notices)


def test_a_note_is_told_once_below_the_table() -> None:
    """Rows point to it by number, so no row is wider for it."""
    text = said(several(), "text")
    assert "b.time_0 [1]  " in text
    assert text.count("look at the machine") == 1
    assert "\n[1] 5 of 6 benchmarks here got worse at once" in text


def test_an_improvement_that_is_gone_is_lost() -> None:
    """Only regressions recover; a class as a parameter goes by its name."""
    text = said(several(), "text")
    (line,) = [line for line in text.splitlines() if "lost at" in line]
    assert line.startswith("b.time_gone(a.B)")


def test_environments_have_a_column_where_there_are_several() -> None:
    """Rows that differ in nothing else can be told apart; one environment needs no column."""
    assert "environment" not in said(several(), "text")
    assert said(several(("env1", "env2")), "markdown").count("| environment |") >= 1


def test_markdown_keeps_notices_and_notes_apart() -> None:
    """Each is a line of its own when rendered."""
    changes = several()
    changes["note"] = np.where(changes["benchmark"] == "b.time_0", "first", "second")
    text = said(changes, "markdown", ["one", "two"])
    assert "> one\n>\n> two\n" in text
    assert "[1] first\\\n[2] second" in text or "[1] second\\\n[2] first" in text
