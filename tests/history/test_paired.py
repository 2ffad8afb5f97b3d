"""Interleaved pairs: the estimate, its interval and what they cost in false alarms."""

from __future__ import annotations

import numpy as np
import pytest

from mlxcache.history.comparing.paired import log_ratios, paired_change
from mlxcache.history.statistics.noise import FloatArray
from tools.labelled import NOISE_MODELS


def abba(noise: str, pairs: int, seed: int, change: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Values of base and head out of one draw of noise, in the order in which they would have run."""
    drawn = NOISE_MODELS[noise](np.random.default_rng([seed, pairs]), 2 * pairs)
    swapped = np.arange(pairs) % 2 == 1
    base = np.where(swapped, drawn[1::2], drawn[0::2])
    head = np.where(swapped, drawn[0::2], drawn[1::2])
    return np.exp(base), (1.0 + change) * np.exp(head)


@pytest.mark.parametrize("noise", sorted(NOISE_MODELS))
def test_the_interval_and_the_p_value_never_contradict_each_other(noise: str) -> None:
    """The 95 % interval holds 0 exactly where p is above .05, for any noise, size and number of pairs."""
    for seed in range(120):
        result = paired_change(*abba(noise, 4 + seed % 30, seed, 0.002 * (seed % 20)))
        assert (result.low <= 0.0 <= result.high) == (result.p_value >= 0.05)


@pytest.mark.parametrize("noise", sorted(NOISE_MODELS))
def test_ten_percent_is_found_and_nothing_is_not(noise: str) -> None:
    """20 pairs find +10 % nearly always, and call A/A significant about as often as they should."""
    found = [paired_change(*abba(noise, 20, seed, 0.10)).p_value < 0.01 for seed in range(60)]
    false = [paired_change(*abba(noise, 20, seed)).p_value < 0.01 for seed in range(60)]
    assert sum(found) >= 50
    assert sum(false) <= 3


def test_the_interval_covers_the_truth() -> None:
    """95 % intervals from 12 pairs hold the true change in at least 90 % of 200 comparisons."""
    held = 0
    for seed in range(200):
        result = paired_change(*abba("gaussian 3 %", 12, seed, 0.05))
        held += result.low <= 0.05 <= result.high
    assert held >= 180


def test_a_slow_minute_hits_both_sides() -> None:
    """Pairs that ran while the machine was twice as slow say the same as the others."""
    base, head = abba("gaussian 1 %", 16, 1, 0.08)
    slow = np.where(np.arange(16) // 4 == 1, 2.0, 1.0)
    assert paired_change(base * slow, head * slow).change == pytest.approx(0.08, abs=0.02)


def test_a_wild_process_does_no_harm() -> None:
    """One value ten times off leaves the estimate where it was."""
    base, head = abba("gaussian 1 %", 20, 2, 0.05)
    head[3] *= 10.0
    assert paired_change(base, head).change == pytest.approx(0.05, abs=0.015)


def test_delays_on_top_of_a_floor_are_looked_through() -> None:
    """With exponential delays of 15 % the floors are compared where they are much quieter, and are right."""
    used = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        base = np.exp(rng.normal(0, 0.01, 40) + rng.exponential(0.15, 40))
        head = 1.1 * np.exp(rng.normal(0, 0.01, 40) + rng.exponential(0.15, 40))
        result = paired_change(base, head)
        if result.floor:
            used.append(result)
    assert len(used) >= 5
    assert all(abs(result.change - 0.1) < 0.06 for result in used)
    assert sum(result.low <= 0.1 <= result.high for result in used) >= 0.8 * len(used)


def test_the_control_is_divided_by_only_where_it_helps() -> None:
    """A control that shares the machine's swings is used; one with noise of its own is not."""
    rng = np.random.default_rng(4)
    swing_base, swing_head = rng.normal(0, 0.2, 20), rng.normal(0, 0.2, 20)
    base, head = np.exp(swing_base), 1.06 * np.exp(swing_head)
    with_control = paired_change(
        base,
        head,
        [
            abba("gaussian 5 %", 20, 9),
            *((np.exp(swing_base), np.exp(swing_head) * rng.normal(1, 0.01, 20)) for _ in range(2)),
        ],
    )
    assert with_control.divided
    assert with_control.change == pytest.approx(0.06, abs=0.02)
    quiet, louder = abba("gaussian 1 %", 20, 6)
    assert not paired_change(quiet, louder, [(np.exp(swing_base), np.exp(swing_head))]).divided


@pytest.mark.parametrize("controls", [1, 5])
def test_a_choice_of_controls_finds_nothing_in_quiet_pairs(controls: int) -> None:
    """Ten quiet pairs, controls with noise of their own: p stays below .01 about as rarely as without any."""
    rng = np.random.default_rng(11)
    found = 0
    for _ in range(1000):
        values = np.exp(rng.normal(0, 0.01, (2 + 2 * controls, 10)))
        result = paired_change(*values[:2], list(zip(values[2::2], values[3::2], strict=True)))
        found += result.p_value < 0.01
    assert found <= 26  # about 55 where the quietest of five is taken


@pytest.mark.parametrize(
    ("base", "head", "message"),
    [
        ([1.0, 1.0, 0.0, 1.0], [1.0] * 4, "base holds 0.0"),
        ([1.0] * 4, [1.0] * 5, "base has 4 values and head 5"),
        ([1.0] * 3, [1.0] * 3, "3 pairs are too few"),
    ],
)
def test_what_cannot_be_compared_is_named(base: list[float], head: list[float], message: str) -> None:
    """The error says which array is at fault and with what number."""
    with pytest.raises(ValueError, match=message):
        log_ratios(np.array(base), np.array(head))


def test_values_that_never_differ_give_no_change() -> None:
    """Equal counts on both sides are a change of zero with an empty interval, not a division by zero."""
    result = paired_change(np.full(8, 3.0), np.full(8, 3.0))
    assert result.change == 0.0
    assert result.high < 1e-4
