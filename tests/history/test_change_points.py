"""The history table in, its changes out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from frames import commit_file, commit_name, git, history_frame, levels, tables

import mlxcache.history
from mlxcache.history import Facts, History, change_points
from mlxcache.history.asv.facts import Benchmark
from mlxcache.history.changes import judging
from mlxcache.history.changes.change_table import COLUMNS
from mlxcache.history.changes.confirmations import Confirmation
from mlxcache.history.statistics.control import Control, divide_best, is_control


def confirmation(outcome: str, before: int, after: int, change: float = 0.1) -> Confirmation:
    """A rerun of the test's series between two commits."""
    names = commit_name(before), commit_name(after)
    return Confirmation(
        "m1",
        "env1",
        "bench.time_x",
        "",
        "1",
        outcome,
        *names,
        *names,
        change,
        change - 0.02,
        change + 0.02,
        20,
        "2024",
    )


def test_one_row_a_change_with_commits_and_medians() -> None:
    """A 10 % step is one row: the commits around it, both medians in the unit, the interval around 10 %."""
    changes = change_points(history_frame(levels((40, 1.0), (30, 1.1))))
    assert list(changes.columns) == list(COLUMNS)
    (row,) = changes.to_dict("records")
    assert (row["before"], row["after"]) == (commit_name(39), commit_name(40))
    assert (row["direction"], row["state"], row["control"]) == ("regression", "candidate", "")
    assert row["ci95_low"] < 0.1 < row["ci95_high"]
    assert row["value_after"] / row["value_before"] == pytest.approx(1.1, abs=0.01)
    assert (row["n_before"], row["n_after"]) == (40, 30)
    assert row["search_before"] <= row["before"] < row["after"] <= row["search_after"]


def test_no_changes_is_an_empty_table_with_all_columns() -> None:
    """A quiet history, and one without any value, give the columns and no row."""
    for values in (levels((50, 1.0)), np.full(10, np.nan)):
        changes = change_points(history_frame(values))
        assert list(changes.columns) == list(COLUMNS)
        assert changes.empty


@pytest.mark.parametrize(
    ("unit", "direction"),
    [
        ("seconds", "regression"),
        ("bytes", "regression"),
        ("tokens/s", "improvement"),
        ("GB/s", "improvement"),
    ],
)
def test_the_unit_says_which_way_is_worse(unit: str, direction: str) -> None:
    """More seconds are worse, more tokens a second are not."""
    changes = change_points(history_frame(levels((40, 1.0), (40, 1.2)), unit=unit))
    assert changes["direction"].tolist() == [direction]


def test_the_caller_and_the_benchmark_know_better_than_the_unit() -> None:
    """`higher_better` beats the benchmark's attribute, which beats the unit."""
    df = history_frame(levels((40, 1.0), (40, 1.2)), unit="points")
    assert change_points(df)["direction"].tolist() == ["regression"]
    said = Benchmark("bench.time_x", "points", "track", "", (), "", {"direction": "higher"})
    told = History(df, Facts(benchmarks={"bench.time_x": said}))
    assert change_points(told)["direction"].tolist() == ["improvement"]
    assert change_points(told, higher_better={"bench.time_x": False})["direction"].tolist() == ["regression"]


def test_a_fixed_regression_stays_listed_as_recovered() -> None:
    """What asv's page forgets: the step and the commit that took it back."""
    changes = change_points(history_frame(levels((40, 1.0), (20, 1.1), (40, 1.0))))
    worse = changes[changes["direction"] == "regression"].iloc[0]
    assert (worse["state"], worse["recovered_at"]) == ("recovered", commit_name(60))
    better = changes[changes["direction"] == "improvement"].iloc[0]
    assert better["state"] == "candidate"


def test_recovery_in_two_halves_counts_when_half_is_back() -> None:
    """+20 % taken back by 8 % and then 9 %: recovered at the second of the two."""
    changes = change_points(history_frame(levels((40, 1.0), (30, 1.2), (30, 1.12), (30, 1.02))))
    first = changes.sort_values("after_index").iloc[0]
    assert (first["state"], first["recovered_at"]) == ("recovered", commit_name(100))


def test_series_of_machines_environments_and_versions_stay_apart() -> None:
    """A change on one machine is not diluted by, nor reported for, another."""
    stepped, flat = levels((40, 1.0), (40, 1.1)), levels((80, 1.0), seed=1)
    df = tables(
        history_frame(stepped),
        history_frame(flat, machine="m2"),
        history_frame(flat, env="env2"),
        history_frame(flat * 3, version="2"),
    )
    changes = change_points(df)
    assert changes[["machine", "env", "version"]].to_numpy().tolist() == [["m1", "env1", "1"]]


def test_failed_commits_belong_to_the_range() -> None:
    """Commits that failed between the levels may hold the change: before and after skip them."""
    values = levels((40, 1.0), (40, 1.1))
    values[38:42] = np.nan
    (row,) = change_points(history_frame(values)).to_dict("records")
    assert (row["before"], row["after"]) == (commit_name(37), commit_name(42))


def test_rows_of_one_commit_count_once_by_their_median() -> None:
    """Three results of each commit are one point, in whatever order the rows come."""
    frames = [history_frame(levels((40, 1.0), (40, 1.1), seed=s)) for s in range(3)]
    df = tables(*frames).sample(frac=1.0, random_state=1).reset_index(drop=True)
    (row,) = change_points(df).to_dict("records")
    assert (row["n_before"], row["n_after"]) == (40, 40)


def test_a_pool_of_runners_is_seen_through_by_the_control() -> None:
    """Speeds 1, 1.25 and 1.6 at random hide a 10 % step; divided by the control it is the only change."""
    speed = np.random.default_rng(0).choice([1.0, 1.25, 1.6], 120)
    df = tables(
        history_frame(levels((60, 1.0), (60, 1.1)) * speed),
        history_frame(levels((120, 0.001), seed=5) * speed, benchmark="control.time_spin"),
    )
    (row,) = change_points(df).to_dict("records")
    assert (row["after"], row["control"]) == (commit_name(60), "control.time_spin")
    assert row["magnitude"] == pytest.approx(0.1, abs=0.02)
    assert commit_name(60) not in set(change_points(df, control=None)["after"])


def test_a_lasting_change_of_the_machine_is_not_the_code() -> None:
    """Benchmark and control step together: set aside as the machine's, with a note."""
    df = tables(
        history_frame(levels((50, 1.0), (50, 1.15), sigma=0.005)),
        history_frame(levels((50, 1.0), (50, 1.15), sigma=0.02, seed=3), benchmark="time_control"),
    )
    changes = change_points(df)
    assert changes.empty
    aside = changes.set_aside.machine
    assert set(aside["benchmark"]) == {"bench.time_x", "time_control"}
    assert "time_control moved as well" in set(aside["note"]).pop() + "".join(aside["note"])


def test_a_noisy_control_is_left_alone() -> None:
    """A control with 10 % noise of its own would bury a 5 % step; the values are judged as they are."""
    df = tables(
        history_frame(levels((60, 1.0), (60, 1.05))),
        history_frame(levels((120, 1.0), sigma=0.1, seed=3), benchmark="time_control"),
    )
    (row,) = change_points(df).to_dict("records")
    assert row["control"] == ""


def test_the_user_can_name_the_control() -> None:
    """Any benchmark will do, by a regular expression; a bad one is named."""
    speed = np.random.default_rng(0).choice([1.0, 1.6], 120)
    df = tables(
        history_frame(levels((60, 1.0), (60, 1.1)) * speed),
        history_frame(levels((120, 1.0), seed=5) * speed, benchmark="other.time_loop"),
    )
    assert change_points(df, control=r"time_loop$")["control"].tolist() == ["other.time_loop"]
    with pytest.raises(ValueError, match=r"control: '\(' is no regular expression"):
        change_points(df, control="(")


def test_the_median_of_all_timings_stands_in_for_a_control() -> None:
    """On request.

    Nine benchmarks on a pool of runners, one of which got 10 % slower, and only that is listed.
    """
    speed = np.random.default_rng(0).choice([1.0, 1.25, 1.6], 120)
    df = tables(
        *(history_frame(levels((120, 1.0 + s), seed=s) * speed, benchmark=f"bench.time_{s}") for s in range(8)),
        history_frame(levels((60, 1.0), (60, 1.1), seed=9) * speed, benchmark="bench.time_slow"),
    )
    changes = change_points(df, control="median")
    assert changes["benchmark"].tolist() == ["bench.time_slow"]
    assert changes["control"].tolist() == ["the median of 9 benchmarks"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("control.time_spin", True),
        ("time_control", True),
        ("bench_control.Suite.time_x", True),
        ("suite.Control.track_loop", True),
        ("time_controller", False),
        ("uncontrolled.time_x", False),
    ],
)
def test_controls_are_known_by_name(name: str, expected: bool) -> None:
    """Names that hold the word, not names that begin like it."""
    assert is_control(name) is expected


def test_a_control_that_ran_rarely_is_not_divided_by() -> None:
    """With half of the commits uncovered the series stays as it was."""
    x = np.random.default_rng(0).normal(0, 0.1, 40)
    control = x.copy()
    control[::2] = np.nan
    assert divide_best(x, [Control("rare", control)])[1] == ""
    close = Control("close", x + 1e-3 * (np.arange(40) % 2))
    assert divide_best(x, [Control("rare", control), close])[1] == "close"


def test_a_documentation_commit_is_no_suspect(tmp_path: Path) -> None:
    """The same step is listed for a code commit and set aside for one that touched a README alone."""
    git(tmp_path, "init", "-q")
    commits = [commit_file(tmp_path, "code.py", f"x = {i}\n") for i in range(10)]
    values = levels((6, 1.0), (4, 1.1), sigma=0.012)
    df = history_frame(values).assign(commit=commits)
    loose = mlxcache.history.Method(min_confidence=0.3)
    assert len(change_points(df, repo=tmp_path, method=loose)) == 1
    git(tmp_path, "reset", "-q", "--hard", commits[5])
    later = [commit_file(tmp_path, "README.md", f"words {i}\n") for i in range(4)]
    df = history_frame(values).assign(commit=[*commits[:6], *later])
    changes = change_points(df, repo=tmp_path, method=loose)
    assert changes.empty
    aside = changes.set_aside.documentation
    assert aside["note"].tolist() == ["only documentation changed in this range"]


def test_reruns_confirm_and_refute() -> None:
    """A confirmed candidate says so, a refuted one leaves the list and stays on record."""
    df = history_frame(levels((40, 1.0), (40, 1.1)))
    confirmed = change_points(df, confirmations=[confirmation("confirmed", 39, 40)])
    assert confirmed[["state", "confirmed"]].to_numpy().tolist() == [["confirmed", True]]
    assert "a rerun of 20 pairs measured +10.0%" in confirmed["note"].iloc[0]
    refuted = change_points(df, confirmations=[confirmation("refuted", 39, 40, 0.0)])
    assert refuted.empty
    assert len(refuted.set_aside.refuted) == 1
    undecided = change_points(df, confirmations=[confirmation("undecided", 39, 40, 0.01)])
    assert undecided["state"].tolist() == ["candidate"]
    assert "decides nothing" in undecided["note"].iloc[0]


def test_the_newest_rerun_decides_and_others_do_not_count() -> None:
    """Later beats earlier; reruns of other commits, machines or benchmarks say nothing here."""
    df = history_frame(levels((40, 1.0), (40, 1.1)))
    old, new = confirmation("refuted", 39, 40), confirmation("confirmed", 38, 41)
    assert change_points(df, confirmations=[old, new])["state"].tolist() == ["confirmed"]
    for other in (
        confirmation("refuted", 10, 11),
        dataclasses.replace(old, machine="m2"),
        dataclasses.replace(old, benchmark="bench.time_y"),
    ):
        assert change_points(df, confirmations=[other])["state"].tolist() == ["candidate"]


def test_a_weak_candidate_is_listed_once_a_rerun_confirmed_it() -> None:
    """3 % in 3 % noise is too unsure for the list by itself, and good enough after a rerun."""
    for seed in range(40):
        df = history_frame(levels((40, 1.0), (40, 1.03), sigma=0.03, seed=seed))
        weak = change_points(df, method=mlxcache.history.Method().for_rerun())
        if change_points(df).empty and len(weak) == 1 and weak["magnitude"].iloc[0] > 0:
            row = weak.iloc[0]
            answer = confirmation("confirmed", int(row["before_index"]), int(row["after_index"]), 0.03)
            assert change_points(df, confirmations=[answer])["state"].tolist() == ["confirmed"]
            return
    pytest.fail("no seed gave a weak candidate")


def test_several_processes_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result does not depend on `jobs`."""
    monkeypatch.setattr(judging, "_CHUNK", 2)
    df = tables(
        *(history_frame(levels((30, 1.0), (30, 1.1), seed=s), benchmark=f"bench.time_{s:03}") for s in range(4))
    )
    expected = change_points(df, jobs=1, cache=False)
    assert len(expected) == 4
    for jobs in (2, 3):
        pd.testing.assert_frame_equal(change_points(df, jobs=jobs, cache=False), expected)


def test_what_most_benchmarks_do_at_once_is_noted() -> None:
    """Six of seven step together: listed all the same, with a hint at the machine; the loner has none."""
    df = tables(
        *(history_frame(levels((40, 1.0), (40, 1.1), seed=s), benchmark=f"bench.time_{s}") for s in range(6)),
        history_frame(levels((20, 1.0), (60, 1.1), seed=7), benchmark="bench.time_alone"),
    )
    changes = change_points(df).set_index("benchmark")
    assert len(changes) == 7
    assert changes.loc["bench.time_3", "note"].startswith("6 of 7 benchmarks here got worse")
    assert changes.loc["bench.time_alone", "note"] == ""


def test_missing_columns_are_named() -> None:
    """The error lists what lacks."""
    with pytest.raises(ValueError, match="the table lacks unit, value"):
        change_points(history_frame([1.0]).drop(columns=["unit", "value"]))


def test_public_names_are_not_module_names() -> None:
    """`mlxcache.history.x` is the function, whatever was imported before."""
    folder = Path(mlxcache.history.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")}
    assert not modules & set(mlxcache.history.__all__)
    for name in mlxcache.history.__all__:
        assert getattr(mlxcache.history, name) is not None
