"""Base against head: verdicts of series and of whole comparisons."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from frames import commit_name, history_frame, levels, tables

from mlxcache.history import change_points, compare, compare_rounds, overall
from mlxcache.history.comparing.comparison import COLUMNS, judge_rounds
from mlxcache.history.comparing.verdicts import (
    Estimate,
    Limits,
    Verdict,
    adjusted_p_values,
    further_rounds,
    verdict_of,
)


def rounds_frame(
    changes: dict[str, float], rounds: int = 20, sigma: float = 0.02, seed: int = 0, unit: str = "seconds"
) -> pd.DataFrame:
    """Interleaved rounds of several benchmarks with the given relative changes."""
    rng = np.random.default_rng(seed)
    rows = []
    for name, change in changes.items():
        for number in range(rounds):
            slow = math.exp(rng.normal(0, 0.2))  # both sides of a round meet the same machine
            for side, factor in (("base", 1.0), ("head", 1.0 + change)):
                value = 0.001 * slow * factor * math.exp(rng.normal(0, sigma))
                rows.append(("m1", "env1", name, "", "1", unit, number, side, value))
    columns = ["machine", "env", "benchmark", "params", "version", "unit", "round", "side", "value"]
    return pd.DataFrame(rows, columns=columns)


def test_three_verdicts_from_interleaved_rounds() -> None:
    """+10 % is a regression, 0 none, and 5 % noise in six rounds decides nothing and says what would."""
    rows = compare_rounds(rounds_frame({"time_slow": 0.10, "time_same": 0.0})).set_index("benchmark")
    assert rows.loc["time_slow", "verdict"] == "regression"
    assert rows.loc["time_slow", "direction"] == "regression"
    assert rows.loc["time_slow", "ci95_low"] < 0.10 < rows.loc["time_slow", "ci95_high"]
    assert rows.loc["time_same", "verdict"] == "no regression"
    assert rows.loc["time_same", "direction"] == "unchanged"
    (noisy,) = compare_rounds(rounds_frame({"time_noisy": 0.0}, rounds=6, sigma=0.05)).to_dict("records")
    assert noisy["verdict"] == "inconclusive"
    assert noisy["further_rounds"] > 6
    assert list(rows.reset_index()[list(COLUMNS)].columns) == list(COLUMNS)


@pytest.mark.parametrize("seed", range(5))
def test_three_hundred_benchmarks_of_one_commit_are_no_regression(seed: int) -> None:
    """A/A with many series: nothing is a regression, and the few open ones do not hold up the verdict."""
    rows = compare_rounds(rounds_frame({f"time_{i}": 0.0 for i in range(300)}, seed=seed))
    assert (rows["verdict"] != "regression").all()
    assert overall(rows["verdict"].tolist()) is Verdict.NO_REGRESSION


def test_one_regression_among_three_hundred_is_found() -> None:
    """Taking all series into account does not hide a real +10 %."""
    changes = {f"time_{i}": 0.0 for i in range(300)} | {"time_bad": 0.10}
    rows = compare_rounds(rounds_frame(changes))
    assert rows.loc[rows["verdict"] == "regression", "benchmark"].tolist() == ["time_bad"]
    assert rows["benchmark"].iloc[0] == "time_bad"


def test_significant_is_not_relevant() -> None:
    """+1 % measured to a tenth of that is significant, irrelevant and no regression."""
    (row,) = compare_rounds(rounds_frame({"time_x": 0.01}, rounds=40, sigma=0.002)).to_dict("records")
    assert (row["significant"], row["relevant"], row["verdict"]) == (True, False, "no regression")


def test_more_tokens_a_second_is_an_improvement() -> None:
    """Direction follows the unit here too, and an improvement is no regression."""
    (row,) = compare_rounds(rounds_frame({"track_rate": 0.10}, unit="tokens/s")).to_dict("records")
    assert (row["direction"], row["verdict"]) == ("improvement", "no regression")
    (row,) = compare_rounds(rounds_frame({"track_rate": -0.10}, unit="tokens/s")).to_dict("records")
    assert (row["direction"], row["verdict"]) == ("regression", "regression")


def test_the_control_is_divided_by_and_not_judged() -> None:
    """Head's environment is 8 % slower for everything: no regression, and a remark about the control."""
    rounds = rounds_frame({"time_x": 0.0}, sigma=0.005)
    slow = rounds["side"].eq("head").map({True: 1.08, False: 1.0})
    rng = np.random.default_rng(1)
    control = rounds.assign(benchmark="time_control", value=rounds["value"] * rng.normal(1, 0.001, len(rounds)))
    both = pd.concat([rounds, control], ignore_index=True)
    both["value"] *= pd.concat([slow, slow], ignore_index=True)
    rows = compare_rounds(both)
    assert rows[["benchmark", "verdict", "control"]].to_numpy().tolist() == [
        ["time_x", "no regression", "time_control"]
    ]
    assert "the control time_control moved by +8" in judge_rounds(both)[1][0]


def test_incomplete_rounds_are_left_out_and_too_few_decide_nothing() -> None:
    """A round without its other side is no pair; three pairs are inconclusive, with the reason."""
    rounds = rounds_frame({"time_x": 0.3}, rounds=6)
    broken = rounds[~(rounds["side"].eq("head") & rounds["round"].isin([1, 2, 3]))]
    (row,) = compare_rounds(broken).to_dict("records")
    assert (row["verdict"], row["note"]) == ("inconclusive", "3 complete rounds; 4 are needed")


def test_counters_that_never_moved_are_settled() -> None:
    """Equal counts, zero included, are no regression; a zero on one side only cannot be told."""
    rounds = rounds_frame({"track_n": 0.0}, unit="calls")
    (row,) = compare_rounds(rounds.assign(value=0.0)).to_dict("records")
    assert row["verdict"] == "no regression"
    mixed = rounds.assign(value=rounds["side"].eq("head").astype(float))
    (row,) = compare_rounds(mixed).to_dict("records")
    assert (row["verdict"], row["note"]) == ("regression", "values at or below zero: judged by differences")


def test_stored_results_are_judged_by_how_much_runs_differ() -> None:
    """+4 % is a regression in a quiet history and inconclusive in a noisy one, however tight its interval."""
    for sigma, expected in ((0.002, "regression"), (0.03, "inconclusive")):
        values = levels((40, 1.0), sigma=sigma)
        values[-1] = values[-2] * 1.04
        df = history_frame(values).assign(ci99_low=values * 0.9999, ci99_high=values * 1.0001)
        (row,) = compare(df, commit_name(38), commit_name(39)).to_dict("records")
        assert row["verdict"] == expected
        assert row["change"] == pytest.approx(0.04)


def test_intervals_of_the_runs_count_where_there_are_no_samples() -> None:
    """asv's own interval, as wide as the difference, leaves it open in a quiet history."""
    values = levels((40, 1.0), sigma=0.002)
    values[-1] = values[-2] * 1.04
    df = history_frame(values)
    (row,) = compare(df, commit_name(38), commit_name(39)).to_dict("records")
    assert row["verdict"] == "regression"
    df["ci99_low"], df["ci99_high"] = df["value"] * 0.9, df["value"] * 1.1
    (row,) = compare(df, commit_name(38), commit_name(39)).to_dict("records")
    assert row["verdict"] == "inconclusive"


def test_samples_of_the_runs_count_where_they_are_wider() -> None:
    """A single run whose own samples are all over the place proves nothing in a quiet history."""
    values = levels((40, 1.0), sigma=0.002)
    values[-1] = values[-2] * 1.04
    wild = np.random.default_rng(0).lognormal(0, 0.5, 10)
    df = history_frame(values)
    df["samples"] = [value * wild for value in values]
    (row,) = compare(df, commit_name(38), commit_name(39)).to_dict("records")
    assert row["verdict"] == "inconclusive"


def test_two_measured_commits_alone_assume_ordinary_noise() -> None:
    """One run of each proves nothing at 30 % and does at three times as much; the note says what was assumed."""
    for change, expected in ((1.04, "inconclusive"), (1.30, "inconclusive"), (3.0, "regression")):
        (row,) = compare(history_frame([1.0, change]), commit_name(0), commit_name(1)).to_dict("records")
        assert row["verdict"] == expected
        assert "assumed that runs differ by 10%" in row["note"]


def test_what_base_lost_before_is_not_blamed_on_head() -> None:
    """An old regression on base is named in its own column, and head is not a regression for it."""
    values = levels((40, 1.0), (30, 1.1), sigma=0.004)
    df = history_frame(values)
    known = change_points(df[df["commit_index"] < 69])
    (row,) = compare(df, commit_name(68), commit_name(69), base_changes=known).to_dict("records")
    assert row["verdict"] == "no regression"
    assert row["already_on_base"].startswith("+10.")
    assert commit_name(40)[:8] in row["already_on_base"]


def test_commits_are_found_by_unique_beginnings() -> None:
    """Four characters or more that fit one commit; what fits none or several is named."""
    df = tables(history_frame(levels((20, 1.0)))).assign(
        commit=lambda d: [f"{chr(97 + i % 6)}{i:03}" + "f" * 36 for i in range(20)]
    )
    names = df["commit"].tolist()
    assert len(compare(df, names[3][:5], names[7][:6])) == 1
    with pytest.raises(ValueError, match="base: no results for commit 'ffff'"):
        compare(df, "ffff", names[0])
    same = df.assign(commit=["abcd" + name for name in names])
    with pytest.raises(ValueError, match="head: 'abcd' begins 20 commits"):
        compare(same, "abcd" + names[0], "abcd")


def test_adjusted_p_values_are_benjamini_and_hochbergs() -> None:
    """Checked against the definition, unsorted input included."""
    p = [0.01, 0.5, 0.02, 0.04]
    slow = []
    for value in p:
        larger = [q for q in p if q >= value]
        slow.append(min(1.0, *(q * len(p) / sum(r <= q for r in p) for q in larger)))
    assert adjusted_p_values(p).tolist() == pytest.approx(slow)
    assert len(adjusted_p_values([])) == 0


@pytest.mark.parametrize(
    ("worse", "low", "high", "p", "expected"),
    [
        (0.10, 0.05, 0.15, 1e-4, Verdict.REGRESSION),
        (0.10, -0.05, 0.25, 0.2, Verdict.INCONCLUSIVE),
        (0.00, -0.01, 0.01, 0.9, Verdict.NO_REGRESSION),
        (0.03, -0.01, 0.06, 0.2, Verdict.INCONCLUSIVE),
        (0.03, -0.01, 0.049, 0.2, Verdict.NO_REGRESSION),
        (-0.2, -0.4, 0.06, 1e-4, Verdict.NO_REGRESSION),
    ],
)
def test_verdicts(worse: float, low: float, high: float, p: float, expected: Verdict) -> None:
    """Each of the three answers from numbers alone."""
    assert verdict_of(Estimate(worse, low, high, p, 10), p, Limits()) is expected


def test_overall_verdict() -> None:
    """One regression decides.

    One open series of few keeps it open, one of many does not; nothing is an error.
    """
    good, bad, unclear = Verdict.NO_REGRESSION, Verdict.REGRESSION, Verdict.INCONCLUSIVE
    assert overall([good, bad, unclear]) is bad
    assert overall([good, unclear]) is unclear
    assert overall([good] * 99 + [unclear]) is good
    assert overall([good] * 90 + [unclear] * 10) is unclear
    with pytest.raises(ValueError, match="there is nothing to judge"):
        overall([])


def test_limits_that_contradict_each_other_are_refused() -> None:
    """What is relevant cannot be larger than what is tolerated."""
    with pytest.raises(ValueError, match=r"relevant is 0\.1 and tolerated 0\.05"):
        Limits(relevant=0.1)


def test_further_rounds_grow_with_the_interval() -> None:
    """Twice as wide an interval needs about four times the rounds."""
    narrow = further_rounds(Estimate(0.0, -0.06, 0.06, 1.0, 20), Limits())
    wide = further_rounds(Estimate(0.0, -0.12, 0.12, 1.0, 20), Limits())
    assert (wide + 20) / (narrow + 20) == pytest.approx(4.0, rel=0.05)
    assert further_rounds(Estimate(0.0, -math.inf, math.inf, 1.0, 2), Limits()) == 2
