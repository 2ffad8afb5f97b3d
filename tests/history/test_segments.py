"""One series in, its changes out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from mlxcache.history.changes.asv_detector import AsvDetector
from mlxcache.history.changes.confidence import step_with_slope
from mlxcache.history.changes.detectors import KernelDetector
from mlxcache.history.changes.segments import Method, _is_level, find_changes
from mlxcache.history.statistics.effect import LOGS, Shift, ShiftOfPairs, on_scale
from mlxcache.history.statistics.noise import (
    FloatArray,
    autocorrelation,
    local_width,
    running_median,
    short_term_sigma,
    width,
)
from mlxcache.history.statistics.significance import RankTest, mean_ranks, rank_z


def steps(levels: list[tuple[int, float]], sigma: float, seed: int) -> FloatArray:
    """Log values on levels of (length, relative height)."""
    rng = np.random.default_rng(seed)
    return np.concatenate([np.full(n, math.log(height)) + rng.normal(0, sigma, n) for n, height in levels])


def test_a_step_is_placed_at_its_first_commit() -> None:
    """
    1.10            ############
    1.00 ###########
                    ^ 60, found there with its size
    """
    changes = find_changes(steps([(60, 1.0), (60, 1.1)], 0.01, 0))
    assert [c.index for c in changes] == [60]
    effect = LOGS.effect(changes[0].effect, 1.0)
    change, low, high = effect.relative, effect.relative_low, effect.relative_high
    assert low < 0.10 < high
    assert change == pytest.approx(0.10, abs=0.01)
    assert changes[0].confidence > 0.95


def test_both_edges_of_a_recovered_step_are_changes() -> None:
    """
    1.10         ########
    1.00 ########        ########   found at 50 and 75
    """
    changes = find_changes(steps([(50, 1.0), (25, 1.1), (50, 1.0)], 0.01, 1))
    assert [c.index for c in changes] == [50, 75]


@pytest.mark.parametrize("seed", range(5))
def test_the_last_point_alone_is_no_change(seed: int) -> None:
    """One commit 50 % slower at the end may be the machine: nothing is said before more are known."""
    assert find_changes(steps([(80, 1.0), (1, 1.5)], 0.01, seed)) == []


@pytest.mark.parametrize("seed", range(5))
def test_single_spikes_are_no_changes(seed: int) -> None:
    """Lone values far off, and pairs of them, leave no trace."""
    x = steps([(100, 1.0)], 0.01, seed)
    x[[20, 60, 61]] += 0.7
    assert find_changes(x) == []


def test_slow_drift_is_no_staircase() -> None:
    """A series that grows by 5 % over 200 commits has no commit to blame."""
    x = np.linspace(0, 0.05, 200) + np.random.default_rng(2).normal(0, 0.01, 200)
    assert find_changes(x) == []


def test_too_small_a_step_is_not_reported() -> None:
    """1 % in 0.1 % noise is as clear as can be and still below what is worth a line."""
    assert find_changes(steps([(60, 1.0), (60, 1.01)], 0.001, 3)) == []
    assert len(find_changes(steps([(60, 1.0), (60, 1.01)], 0.001, 3), Method(min_change=0.005))) == 1


def test_a_counter_without_noise_is_judged_too() -> None:
    """Whole numbers that step from 100 to 103 are one change, with a bounded confidence."""
    x, scale = on_scale(np.array([100.0] * 20 + [103.0] * 20))
    changes = find_changes(x)
    assert scale is LOGS
    assert [c.index for c in changes] == [20]
    assert 0.9 < changes[0].confidence <= 1.0


def test_zeros_and_negatives_are_judged_as_differences() -> None:
    """Where a logarithm fails, differences by the typical magnitude stand in, and every one has a size."""
    x, scale = on_scale(np.array([0.0] * 10 + [-4.0] * 10 + [8.0] * 20))
    assert not scale.logs
    changes = find_changes(x, scale=scale)
    assert [c.index for c in changes] == [10, 20]
    assert all(c.size == math.inf for c in changes)


@pytest.mark.parametrize("n", range(6))
def test_short_series_have_no_changes(n: int) -> None:
    """Fewer than six values cannot hold two levels."""
    assert find_changes(np.arange(n, dtype=np.float64)) == []


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.floats(-5, 5, allow_nan=False), min_size=0, max_size=60), st.floats(-3, 3))
def test_changes_do_not_depend_on_the_unit(values: list[float], shift: float) -> None:
    """Adding a constant to the logs (another unit) moves no boundary; bounds are in order and inside."""
    x = np.round(np.array(values), 3)
    plain = find_changes(x)
    assert [c.index for c in plain] == [c.index for c in find_changes(x + round(shift, 3))]
    for c in plain:
        assert 0 <= c.start < c.index < c.stop <= len(x)
        assert 0.0 <= c.confidence <= 1.0


def kernel_cost(x: FloatArray) -> float:
    """What one level leaves unexplained, as the textbook has it."""
    alike = np.exp(-0.5 * (x[:, None] - x[None, :]) ** 2)
    return len(x) - float(alike.sum()) / len(x)


def best_cut(x: FloatArray, penalty: float, least: int = 3) -> list[int]:
    """Optimal partitioning without any pruning, the slow way."""
    best, where = [-penalty, *([math.inf] * len(x))], [0] * (len(x) + 1)
    for stop in range(least, len(x) + 1):
        for start in range(stop - least + 1):
            cost = best[start] + kernel_cost(x[start:stop]) + penalty
            if cost < best[stop]:
                best[stop], where[stop] = cost, start
    cuts, stop = [], len(x)
    while where[stop]:
        stop = where[stop]
        cuts.append(stop)
    return cuts[::-1]


@pytest.mark.parametrize("seed", range(4))
def test_proposals_are_the_best_cut_of_the_kernel_cost(seed: int) -> None:
    """What the C implementation proposes is what trying every cut finds."""
    x = steps([(15, 1.0), (15, 1.3), (12, 1.1)], 0.05, seed)
    scaled = (x - np.median(x)) / width(x)
    assert KernelDetector(penalty=3.0).boundaries(x) == best_cut(scaled, 3.0)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 9), min_size=3, max_size=30), st.lists(st.integers(0, 9), min_size=3, max_size=30))
def test_rank_test_agrees_with_scipy(before: list[int], after: list[int]) -> None:
    """Ties included; scipy's result is the reference."""
    a, b = np.array(before, float), np.array(after, float)
    if len(set(before + after)) == 1:
        assert rank_z(a, b) == 0.0
        return
    slow = mannwhitneyu(a, b, method="asymptotic", use_continuity=False).pvalue
    assert RankTest().p_value(a, b) == pytest.approx(slow, rel=1e-9)


def test_ranks_share_ties() -> None:
    """Equal values get the mean of their places."""
    assert mean_ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist() == [3.5, 1.0, 3.5, 2.0]


class Halves:
    """One of each piece, as somebody might write it: levels at half of the series, told apart by their means."""

    def boundaries(self, x: np.ndarray) -> list[int]:
        return [len(x) // 2]

    def p_value(self, before: np.ndarray, after: np.ndarray) -> float:
        return 0.5

    def measure(self, before: np.ndarray, after: np.ndarray, inflate: float) -> Shift:
        shift = float(after.mean() - before.mean())
        return Shift(shift, shift - 0.01, shift + 0.01)


def test_pieces_can_be_swapped() -> None:
    """Another detector, test or effect size takes its place without more ado."""
    x = steps([(40, 1.0), (40, 1.2)], 0.01, 6)
    for method in (
        Method(detector=AsvDetector()),
        Method(detector=Halves()),
        Method(significance=Halves()),
        Method(effect=Halves()),
    ):
        assert [c.index for c in find_changes(x, method)] == [40]


def test_pairwise_shift_is_the_median_of_all_differences() -> None:
    """Checked against the definition, and its interval holds the estimate."""
    rng = np.random.default_rng(7)
    a, b = rng.normal(0, 1, 11), rng.normal(1, 1, 9)
    effect = ShiftOfPairs().measure(a, b, 1.0)
    assert effect.shift == pytest.approx(float(np.median([y - x for x in a for y in b])))
    assert effect.low <= effect.shift <= effect.high
    assert ShiftOfPairs().measure(a, b, 3.0).low <= effect.low


def test_step_with_slope_is_least_squares() -> None:
    """The closed form equals numpy's solver."""
    rng = np.random.default_rng(8)
    y = rng.normal(0, 1, 30) + 0.1 * np.arange(30)
    t = np.arange(30.0)
    design = np.stack([np.ones(30), t, (t >= 12).astype(float)], axis=1)
    slow = np.linalg.lstsq(design, y, rcond=None)[0][2]
    size, factor = step_with_slope(y, 12)
    assert size == pytest.approx(slow)
    assert factor == pytest.approx(math.sqrt(np.linalg.inv(design.T @ design)[2, 2]))


def test_noise_is_measured_without_the_steps() -> None:
    """A step of ten sigmas changes the estimate of sigma by less than a tenth."""
    quiet = np.random.default_rng(9).normal(0, 0.02, 300)
    stepped = quiet.copy()
    stepped[150:] += 0.2
    assert short_term_sigma(stepped) == pytest.approx(short_term_sigma(quiet), rel=0.1)
    assert short_term_sigma(quiet) == pytest.approx(0.02, rel=0.2)


def test_running_median_is_the_median_of_each_window() -> None:
    """Checked window by window, the ends mirrored, so that a wild newest value is one of seven as well."""
    x = np.random.default_rng(10).normal(size=20)
    padded = np.concatenate([x[3:0:-1], x, x[-2:-5:-1]])
    slow = [float(np.median(padded[i : i + 7])) for i in range(20)]
    assert running_median(x).tolist() == pytest.approx(slow)


def test_autocorrelation_is_found_and_bounded() -> None:
    """AR(1) with 0.6 reads as about that; alternation, which would shrink the noise, reads as 0."""
    rng = np.random.default_rng(11)
    x = np.zeros(2000)
    for i in range(1, 2000):
        x[i] = 0.6 * x[i - 1] + rng.normal()
    assert autocorrelation(x) == pytest.approx(0.6, abs=0.07)
    assert autocorrelation(np.tile([1.0, -1.0], 50)) == 0.0
    assert autocorrelation(np.zeros(50)) == 0.0


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("factor", [2.0, 10.0])
def test_a_wild_value_at_either_end_hides_nothing(place: int, factor: float) -> None:
    """The oldest or newest value off by a factor: the step in the middle is found as without it."""
    found = 0
    for seed in range(20):
        x = steps([(40, 1.0), (40, 1.1)], 0.02, seed)
        x[place] += math.log(factor)
        found += [c.index for c in find_changes(x) if abs(c.index - 40) <= 2] != []
    assert found >= 19


def test_noise_is_measured_where_it_is() -> None:
    """1 % and then 10 %: each place has its own width, and nothing is a change."""
    alarms = 0
    for seed in range(20):
        x = np.random.default_rng(seed).normal(0, 1, 210) * np.where(np.arange(210) < 150, 0.01, 0.1)
        around = local_width(x)
        assert around[:100].max() < 0.02
        assert around[190:].min() > 0.05
        alarms += len(find_changes(x))
    assert alarms <= 1


def test_noise_in_two_modes_is_no_change() -> None:
    """A mode that each run chooses anew gives next to no alarms in 4,000 values."""
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        alarms += len(find_changes(rng.normal(0, 0.01, 200) + 0.2 * (rng.random(200) < 0.3)))
    assert alarms <= 2


def test_two_of_three_are_a_spike() -> None:
    """A side of which only two values lie beyond the middle is no level, whichever side it is."""
    level, spike = np.zeros(20), np.array([0.5, 0.5, 0.0])
    assert not _is_level(level, spike, 0.5)
    assert not _is_level(spike[::-1], level, -0.5)
    assert _is_level(level, np.array([0.5, 0.5, 0.5]), 0.5)


def test_a_rerun_is_worth_it_from_two_per_cent() -> None:
    """What is measured again may be a fifth smaller than what is listed, and much less sure."""
    method = Method().for_rerun()
    assert method.min_change == pytest.approx(0.02)
    assert method.min_confidence == pytest.approx(0.1)


def test_autocorrelation_is_shrunk_for_short_series() -> None:
    """By n / (n + 10): ten alternating blocks say less than a thousand."""
    rest = np.repeat([1.0, -1.0], 5)
    plain = float(rest[1:] @ rest[:-1]) / float(rest @ rest)
    assert autocorrelation(rest) == pytest.approx(plain * 10 / 20)
