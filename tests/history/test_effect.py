"""What a change is said to be: one meaning for values of any sign, in histories and comparisons alike."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from frames import commit_name, history_frame, levels, tables

from mlxcache.history import change_points
from mlxcache.history.comparing.comparison import compare, compare_rounds
from mlxcache.history.statistics.effect import LOGS, Shift, on_scale, relative_change, size_between


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(10, 20, 1.0), (10, 0, -1.0), (0, 5, math.inf), (-10, -20, -math.inf), (10, -5, -math.inf), (0, 0, 0.0)],
)
def test_a_relative_change_is_there_or_not(before: float, after: float, expected: float) -> None:
    """From above zero to not below it; elsewhere it is infinite and its sign says which way."""
    assert relative_change(before, after) == expected


def test_size_is_alike_both_ways_and_in_both_scales() -> None:
    """Ten to eleven is 10 % and so is the way back; from zero or across it nothing is small."""
    assert size_between(10, 11) == size_between(11, 10) == pytest.approx(0.1)
    assert size_between(-10, -11) == pytest.approx(0.1)
    assert size_between(0, 1e-9) == size_between(-1, 1) == math.inf
    assert LOGS.size(0.0, math.log(1.1)) == LOGS.size(0.0, -math.log(1.1)) == pytest.approx(0.1)
    x, scale = on_scale(np.array([10.0, 11.0, 0.0]))
    assert scale.size(x[0], x[1] - x[0]) == pytest.approx(0.1)


def test_huge_and_tiny_values_overflow_nothing() -> None:
    """Values near 1e-16 beside 1, subnormal ones, and the largest numbers there are."""
    for values in ([1e-16, 0.0, 1.0], [5e-324, 0.0], [1e308, -1e308, 1e-300], [0.0, 0.0]):
        x, scale = on_scale(np.array(values))
        assert np.isfinite(x).all()
        effect = scale.effect(Shift(1.0, 0.5, 1.5), values[0])
        assert not math.isnan(effect.relative)
    assert math.isfinite(LOGS.effect(Shift(1e4, 1e4, 1e4), 1.0).relative)


def row_of(values: list[float]) -> dict[str, object]:
    """The one change of a series."""
    (row,) = change_points(history_frame(values)).to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_one_zero_changes_no_per_cent() -> None:
    """10 to 20 is +100 % with a zero in the series as without it."""
    for first in (10.0, 0.0):
        row = row_of([first, *[10.0] * 20, *[20.0] * 20])
        assert row["magnitude"] == pytest.approx(1.0)
        assert row["difference"] == pytest.approx(10.0)


def test_from_zero_is_said_in_the_unit() -> None:
    """0 to 5 seconds and 0 to 1e9 are regressions of those differences, not of some factor."""
    for size in (5.0, 1e9):
        row = row_of([0.0] * 20 + [size] * 20)
        assert row["magnitude"] == math.inf
        assert row["difference"] == pytest.approx(size)
        assert row["direction"] == "regression"


def test_tiny_values_with_a_zero_end_in_no_traceback() -> None:
    """1e-16, 0, 1e-16, ... and then 1: one change, of 1."""
    row = row_of([1e-16, 0.0, *[1e-16] * 8, *[1.0] * 6])
    assert row["difference"] == pytest.approx(1.0)


def test_a_comparison_from_zero_is_a_regression() -> None:
    """Twelve times nothing and then something: worse in stored results, whatever the unit makes of its size."""
    for size in (1e-3, 0.02, 1e9):
        df = history_frame([0.0] * 12 + [size] * 4)
        (row,) = compare(df, commit_name(5), commit_name(15)).to_dict("records")
        assert (row["verdict"], row["change"]) == ("regression", math.inf)
    still = compare(history_frame([0.0] * 16), commit_name(5), commit_name(15))
    assert still["verdict"].tolist() == ["no regression"]


def test_rounds_from_zero_are_judged_by_differences() -> None:
    """Pairs of zeros and ones are a regression; a hundredth of -10 is none."""

    def rounds(base: list[float], head: list[float]) -> pd.DataFrame:
        sides = [("base", base), ("head", head)]
        key = {"machine": "m", "env": "e", "benchmark": "b", "params": "", "version": "1", "unit": "errors"}
        return pd.DataFrame(
            [{**key, "round": k, "side": side, "value": v} for side, vs in sides for k, v in enumerate(vs)]
        )

    worse = compare_rounds(rounds([0.0] * 10, [1.0, 1.1] * 5))
    assert worse["verdict"].tolist() == ["regression"]
    assert compare_rounds(rounds([-10.0] * 10, [-9.9] * 10))["verdict"].tolist() == ["no regression"]


def test_noise_that_grows_is_no_regression() -> None:
    """150 commits of 1 %, then 60 of 10 %, eight series without a change: nothing is listed."""
    rng = np.random.default_rng(5)
    sigma = np.where(np.arange(210) < 150, 0.01, 0.1)
    df = tables(*(history_frame(np.exp(rng.normal(0, sigma)), benchmark=f"b.time_{k}") for k in range(8)))
    assert len(change_points(df)) <= 1


def test_runners_that_take_turns_raise_no_sure_alarm() -> None:
    """From commit 70 on three speeds take turns, all benchmarks alike: no interval that holds zero is listed."""
    rng = np.random.default_rng(3)
    speed = np.where(np.arange(150) < 70, 1.0, rng.choice([1.0, 1.25, 1.6], 150))
    df = tables(*(history_frame(levels((150, 1.0), seed=k) * speed, benchmark=f"b.time_{k}") for k in range(6)))
    changes = change_points(df)
    assert changes.empty
    aside = changes.set_aside.machine
    assert not ((aside["ci95_low"] <= 0) & (aside["ci95_high"] >= 0)).any()


def test_what_all_benchmarks_do_is_the_machine_s_once() -> None:
    """Six of six step at one commit: one event, set aside; five of six are listed, and so are four of four."""

    def steps(n: int, still: int) -> pd.DataFrame:
        moved = [history_frame(levels((40, 1.0), (40, 1.1), seed=k), benchmark=f"b.time_{k}") for k in range(n)]
        rest = [history_frame(levels((80, 1.0), seed=k), benchmark=f"b.time_s{k}") for k in range(still)]
        return tables(*moved, *rest)

    changes = change_points(steps(6, 0))
    assert changes.empty
    (event,) = changes.set_aside.machine["note"]
    assert event.startswith("6 of 6 benchmarks here (6 series) got worse at once")
    for n, still in ((5, 1), (4, 0)):
        changes = change_points(steps(n, still))
        assert len(changes) == n
        assert changes.set_aside.machine.empty


def fleet(moved: int, still: int = 0, *, noise: float = 0.01, **key: str) -> list[pd.DataFrame]:
    """Series of 80 values: `moved` step by 10 % half-way, `still` do not."""
    rng = np.random.default_rng(8)
    frames = []
    for k in range(moved + still):
        level = np.where(np.arange(80) < 40, 1.0, 1.1 if k < moved else 1.0)
        values = level * np.exp(rng.normal(0, noise, 80))
        frames.append(history_frame(values, benchmark=f"b.time_{k}", **key))
    return frames


def test_a_move_of_two_thirds_is_listed() -> None:
    """Six of nine benchmarks moved: each is listed, with a remark."""
    changes = change_points(tables(*fleet(6, 3)))
    assert len(changes) == 6
    assert changes["note"].str.contains("6 of 9 benchmarks here").all()


def test_a_move_of_one_machine_is_not_the_other_s() -> None:
    """All of one machine's benchmarks moved, one of the other's: one event, one change."""
    other = fleet(1, 5, machine="other")
    changes = change_points(tables(*fleet(6), *other))
    assert changes["machine"].tolist() == ["other"]
    assert changes.set_aside.machine["note"].str.startswith("6 of 6").tolist() == [True]


def test_two_environments_of_a_machine_move_as_one_event() -> None:
    """The machine's move is said once, not once for each environment."""
    changes = change_points(tables(*fleet(6, env="py3.12"), *fleet(6, env="py3.13")))
    assert changes.empty
    (note,) = changes.set_aside.machine["note"]
    assert note.startswith("12 of 12 benchmarks")


def test_what_a_still_control_did_not_do_is_the_code_s() -> None:
    """All six benchmarks moved and the control did not: all six are listed."""
    control = history_frame(levels((80, 1.0), seed=99), benchmark="b.time_control")
    changes = change_points(tables(*fleet(6), control))
    assert len(changes) == 6
    assert changes.set_aside.machine.empty


def test_a_benchmark_measured_seldom_moves_along() -> None:
    """Five sure ones of six, and the few values of the sixth moved too: one event."""
    values = np.where(np.arange(80) < 40, 1.0, 1.1) * np.exp(np.random.default_rng(4).normal(0, 0.02, 80))
    seldom = history_frame(np.where(np.arange(80) % 10 == 0, values, np.nan), benchmark="b.time_seldom")
    changes = change_points(tables(*fleet(5), seldom))
    assert change_points(seldom).empty
    assert changes.empty
    assert changes.set_aside.machine["note"].str.startswith("6 of 6").tolist() == [True]


def test_a_ramp_is_one_drift_with_a_beginning() -> None:
    """+20 % over 80 commits: a single change called a drift, whose range and rate are said."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = np.log(1.2) * np.clip((np.arange(200) - 60) / 80, 0, 1) + rng.normal(0, 0.01, 200)
        (row,) = change_points(history_frame(np.exp(x))).to_dict("records")
        assert row["kind"] == "drift"
        assert abs(row["before_index"] - 60) < 20
        assert abs(row["after_index"] - 140) < 20
        assert row["magnitude"] == pytest.approx(0.2, abs=0.03)
        assert "no single commit is to blame" in row["note"]


def test_a_clear_step_is_no_drift() -> None:
    """A step of 10 % in 1 % noise stays a step."""
    kinds = [change_points(history_frame(levels((50, 1.0), (50, 1.1), seed=s)))["kind"].tolist() for s in range(5)]
    assert kinds == [["step"]] * 5
