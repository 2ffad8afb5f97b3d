"""Counts of instructions are judged by limits of their own."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mlxcache.history.asv.facts import default_unit
from mlxcache.history.changes.count_changes import count_changes
from mlxcache.history.comparing.comparison import compare_rounds, limits_of
from mlxcache.history.comparing.verdicts import Limits
from mlxcache.history.statistics.counted import SMALLEST, SPREAD, count_levels


def _counts(levels: list[float], seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(0.0, SPREAD, len(levels))
    return np.log(np.array(levels)) + noise


def test_every_step_of_one_per_cent_is_named_at_its_commit() -> None:
    """Twenty levels of two commits each, each 1 % above the last, the newest of one."""
    levels = [1e6 * 1.01 ** (place // 2) for place in range(41)]
    assert count_levels(_counts(levels)) == list(range(2, 41, 2))


def test_quiet_counts_give_no_alarm() -> None:
    """In 100 histories of 200 commits without a change, as noisy as counts are, at most one is named."""
    alarms = sum(len(count_levels(_counts([1e6] * 200, seed))) for seed in range(100))
    assert alarms <= 1


def test_one_bad_count_is_no_level() -> None:
    """A value that the next one takes back was a bad count."""
    assert count_levels(_counts([1e6] * 5 + [1.02e6] + [1e6] * 5)) == []


def test_small_steps_add_up() -> None:
    """Steps below the threshold are named once together they reach it."""
    levels = np.log(1e6) + np.arange(12) * 0.002
    assert count_levels(levels)


def test_a_change_has_the_table_s_columns() -> None:
    """The change's size is right, and it is as good as certain."""
    (change,) = count_changes(_counts([1e6] * 6 + [1.01e6] * 6))
    assert change.index == 6
    assert abs(change.size - 0.01) < 0.002
    assert change.confidence > 0.95


def test_the_unit_of_a_count_is_known_by_its_name() -> None:
    """A benchmarks.json of a run without counts leaves them out."""
    assert default_unit("decode.Decode.count_step") == "instructions"


def test_limits_of_counts_are_their_own() -> None:
    """Seconds keep theirs; a count's are tighter, and never wider than what was asked for."""
    limits = Limits()
    assert limits_of("seconds", limits) == limits
    assert limits_of("instructions", limits).relevant == SMALLEST
    tight = Limits(relevant=0.001, tolerated=0.002)
    assert limits_of("instructions", tight) == tight


def _rounds(head: float, rounds: int = 3) -> pd.DataFrame:
    noise = np.random.default_rng(3).normal(0.0, SPREAD, (rounds, 2))
    rows = [
        {
            "machine": "m",
            "env": "e",
            "benchmark": "a.count_b",
            "params": "",
            "version": "1",
            "unit": "instructions",
            "round": number,
            "side": side,
            "value": value * float(np.exp(noise[number, place])),
        }
        for number in range(rounds)
        for place, (side, value) in enumerate((("base", 1e6), ("head", head)))
    ]
    return pd.DataFrame(rows)


def test_three_rounds_decide() -> None:
    """1 % more is a regression, nothing more is none: neither stays open."""
    assert compare_rounds(_rounds(1.01e6))["verdict"].tolist() == ["regression"]
    assert compare_rounds(_rounds(1e6))["verdict"].tolist() == ["no regression"]
    assert compare_rounds(_rounds(0.99e6))["direction"].tolist() == ["improvement"]
