"""What is said beside a verdict: what got lost, how quiet it was, how many commits a range holds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from frames import commit_name, history_frame
from result_trees import document, row

from mlxcache.history.changes.aftermath import range_commits
from mlxcache.history.comparing.lost import Lost
from mlxcache.history.comparing.runner_noise import noise_lines
from mlxcache.history.loading.history import Facts, ResultsFrame
from mlxcache.history.merging.join import join_results
from mlxcache.history.repository.commits import Commit
from mlxcache.history.statistics.control import Control, divide_best


def test_what_was_lost_is_told_with_its_reason() -> None:
    """Series of one reason in one line, the first five by name; nothing lost is not told."""
    names = [f"t{i}" for i in range(7)]
    told = Lost(
        ("a",), ("b", "c"), dict.fromkeys(names, "removed") | {"z": "no import"}, {"mac": "head"}
    ).notices()
    assert told == [
        "1 series ran on base and gave no value on head, so nothing is known about it: a",
        "lost: t0, t1, t2, t3, t4 and 2 more: removed",
        "lost: z: no import",
        "mac measured head only, so nothing is known of it",
        "2 series cannot be compared, since the benchmark's own code or its environment changed: b, c",
    ]
    assert Lost((), ()).notices() == []


def rounds_of(values: list[float], benchmark: str = "control.time_spin", machine: str = "m") -> pd.DataFrame:
    """A benchmark's values, in the columns that matter here."""
    return pd.DataFrame({"machine": machine, "benchmark": benchmark, "params": "", "value": values})


def test_intervals_say_how_quiet_it_was() -> None:
    """Half of their width, the middle one and the widest; without an end they do not count."""
    rows = pd.DataFrame({"ci95_low": [-0.01, 0.02, -0.05, np.nan], "ci95_high": [0.01, 0.08, 0.05, 1.0]})
    assert noise_lines(rows) == ["half of the 3 intervals are narrower than ±3.0%, the widest is ±5.0%"]
    assert noise_lines(rows.iloc[3:]) == []


def test_controls_say_how_much_the_machine_moved() -> None:
    """Eight values in ten lie within it; above ten per cent it is loud; three values say nothing."""
    empty = pd.DataFrame({"ci95_low": [], "ci95_high": []})
    steady = noise_lines(empty, rounds_of([1.0, 1.0, 1.0, 1.05, 1.05, 1.05]))
    assert steady == ["the control control.time_spin, which never changes, moved within 5.0% on m"]
    both = pd.concat([rounds_of([1.0] * 5 + [1.2] * 5, machine="z"), rounds_of([1.0] * 4, machine="a")])
    quiet, loud = noise_lines(empty, both)  # in the order of their names
    assert quiet.endswith("moved within 0.0% on a")
    assert "moved within 20.0% on z (loud" in loud
    assert noise_lines(empty, rounds_of([1.0, 1.1, 1.2])) == []
    assert noise_lines(empty, rounds_of([1.0] * 6, benchmark="decode.time_step")) == []


@pytest.mark.parametrize(("before", "after", "expected"), [(2, 5, 3), (0, 1, 1), (2, None, 0), (None, 5, 0)])
def test_a_range_holds_the_commits_after_its_first(before: int | None, after: int | None, expected: int) -> None:
    """The one before is not in it; where the table does not know a place, there are none."""
    table = ResultsFrame(history_frame([1.0] * 8))
    known = {commit_name(i): Commit(commit_name(i), i, 0, "", i if i < 7 else None, "line") for i in range(8)}
    table.facts = Facts(commits=known)
    names = [commit_name(7 if place is None else place) for place in (before, after)]
    changes = pd.DataFrame({"before": names[:1], "after": names[1:]})
    assert range_commits(table, changes) == [expected]


def test_four_commits_are_enough_for_a_control() -> None:
    """Three are not."""
    x = np.array([0.0, 0.1, 0.0, 0.1])
    assert divide_best(x, [Control("c", x)])[1] == "c"
    assert divide_best(x[:3], [Control("c", x[:3])])[1] == ""


def test_joined_rows_are_written_as_asv_writes_them() -> None:
    """A list of nulls is a null, one with a value stays as it is, and nulls at the end are left out."""
    params = [["1", "2"]]
    nothing, half = row([None, None], params), row([1.0, None], params)
    joined = join_results(document({"gone": nothing, "half": half}), document({"new": row([2.0, 3.0], params)}))
    assert joined.document is not None
    results = joined.document["results"]
    assert results["gone"][0] is None
    assert (results["half"][0], results["new"][0]) == ([1.0, None], [2.0, 3.0])
    assert all(cells[-1] is not None for cells in results.values())
