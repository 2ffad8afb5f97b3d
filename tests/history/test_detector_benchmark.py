"""The labelled series, the scoring, the rerun, and what the committed table promises."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mlxcache.history.changes.confidence import WEIGHTS
from mlxcache.history.changes.segments import Change, Method, find_changes, search_range
from mlxcache.history.statistics.noise import FloatArray, short_term_sigma
from mlxcache.remeasure.rerun import Outcome, confirm, narrow
from tools import detector_table, labelled, planted, tune_detector
from tools.e_divisive import e_divisive
from tools.flicker import Flicker, flicker
from tools.labelled import NOISE_MODELS, Split, Step, draw_series
from tools.planted import Open, Planted
from tools.scoring import Detection, Score, add_scores, score_planted, score_series


def test_series_are_drawn_anew_from_their_seed() -> None:
    """The same seed gives the same values, another split gives others."""
    first = next(labelled.one_step(Split.TUNE))
    assert np.array_equal(first.values, next(labelled.one_step(Split.TUNE)).values)
    assert not np.array_equal(first.values, next(labelled.one_step(Split.HELD_OUT)).values)


def test_the_corpus_has_the_size_that_the_page_says() -> None:
    """1,280 series with one step, 640 without, and every step has MARGIN commits on both sides."""
    series = list(labelled.one_step(Split.TUNE))
    assert len(series) == 1280
    assert sum(1 for _ in labelled.quiet(Split.TUNE)) == 640
    assert all(labelled.MARGIN <= step.index <= len(s) - labelled.MARGIN for s in series for step in s.steps)


def test_no_project_is_judged_by_weights_that_saw_it() -> None:
    """Every project is held back by one fold, whose weights are not those that the detector ships."""
    every = {stretch.tree for stretch in planted.stretches()}
    assert sorted(tree for fold in planted.FOLDS for tree in fold) == sorted(every)
    weights = {tune_detector.held_back(tree) for tree in every}
    assert len(weights) == len(planted.FOLDS)
    assert WEIGHTS not in weights
    assert detector_table.SEED not in tune_detector.SEEDS


def test_e_divisive_finds_levels_and_nothing_in_noise() -> None:
    """Three levels have two changes; noise alone has none."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.01, 110)
    found = e_divisive(np.repeat([1.0, 1.1, 1.0], [40, 40, 30]) + noise)
    assert found == [40, 80]
    assert e_divisive(1.0 + noise) == []


def test_an_alarm_that_comes_back_is_counted() -> None:
    """Raised at 42, gone at 45 and back at 47, each counted once; a drift over its place is no end."""
    step = next(c for c in find_changes(np.log(np.repeat([1.0, 1.1], 40)), Method()))
    drift = dataclasses.replace(step, since=30, index=45)

    def changes_of(x: FloatArray) -> list[Change]:
        return [] if len(x) < 42 or len(x) in (45, 46) else [drift if len(x) == 60 else step]

    assert flicker([np.zeros(70)], changes_of) == Flicker(1, 1, 1)


@pytest.mark.parametrize("noise", sorted(NOISE_MODELS))
def test_the_level_is_the_truth_without_noise(noise: str) -> None:
    """Values scatter around the level, and the level steps where the label says."""
    series = draw_series((1, 2), noise=noise, n=400, steps=(Step(200, 0.5),))
    assert series.level[200] / series.level[199] == pytest.approx(1.5)
    assert abs(float(np.median(np.log(series.values / series.level)))) < 0.06


def test_scoring_counts_hits_misses_and_false_alarms() -> None:
    """Within two commits and of the same sign is a hit; each step takes one detection."""
    series = draw_series((1,), noise="gaussian 1 %", n=100, steps=(Step(40, 0.1), Step(70, -0.05)), size=0.1)
    found = [Detection(42, 0.1), Detection(40, 0.1), Detection(70, 0.05), Detection(90, 0.1)]
    score = score_series(series, found)
    assert (score.hits, score.misses, score.false_alarms) == (1, 1, 3)
    quiet = score_series(draw_series((1,), noise="drift", n=50), [Detection(3, 1.0)])
    assert quiet.false_per_1000 == pytest.approx(20.0)
    both = add_scores(score, quiet)
    assert (both.hits, both.false_alarms, both.quiet_points) == (1, 4, 50)
    assert both.f1 == pytest.approx(2 / 7)
    assert Score().precision == Score().recall == 1.0


def test_planted_series_are_their_stretch_times_the_level() -> None:
    """The answer is where the level moves, drawn anew alike from one seed."""
    first = planted.corpus(1, lambda tree: tree == "numpy")
    again = planted.corpus(1, lambda tree: tree == "numpy")
    for series, same in zip(first, again, strict=True):
        assert np.array_equal(series.values, same.values)
        assert np.allclose(series.values, series.clean * series.level)
        if series.family in ("single", "recovery", "several"):
            moved = np.flatnonzero(np.diff(series.level)) + 1
            assert moved.tolist() == [step.index for step in series.steps]


def test_planted_scoring_leaves_out_what_is_small_or_open() -> None:
    """Steps and detections below 2.5 % count for nobody, nor does what lies at an open place."""
    ones = np.ones(100)
    steps = (Step(20, 0.02), Step(50, 0.1))
    series = Planted("x", "t", ones, ones, ones, (1,), steps, (Open(80, 1),))
    found = [Detection(20, 0.03), Detection(51, 0.1), Detection(81, 0.5), Detection(70, 0.01), Detection(10, 0.2)]
    score = score_planted(series, found)
    assert (score.hits, score.misses, score.false_alarms) == (1, 0, 1)


def test_the_detector_is_better_than_a_bare_kernel_on_real_noise() -> None:
    """A canary for edits of the detector: series of a project that tuning never read, by seed 1."""
    ours, bare = Score(), Score()
    for series in planted.corpus(1, lambda tree: tree == "empymod"):
        if series.family in planted.CORE:
            ours = add_scores(ours, score_planted(series, detector_table.ours(series)))
            bare = add_scores(bare, score_planted(series, detector_table.kernel_pelt(series)))
    assert ours.f1 > bare.f1 > 0.8
    assert ours.precision > 0.9


class _Bench:
    """Measures positions of a true history with Gaussian noise, anew at each call."""

    def __init__(self, levels: FloatArray, sigma: float = 0.02) -> None:
        self._levels = levels
        self._sigma = sigma
        self.asked: list[tuple[int, int]] = []

    def __call__(self, before: int, after: int) -> tuple[FloatArray, FloatArray]:
        rng = np.random.default_rng([len(self.asked), before, after])
        self.asked.append((before, after))
        noise = np.exp(rng.normal(0, self._sigma, (2, 20)))
        return self._levels[before] * noise[0], self._levels[after] * noise[1]


def test_rerun_confirms_what_is_there_and_refutes_what_is_not() -> None:
    """+8 % is confirmed, nothing is refuted, and so is a change of the other sign."""
    levels = np.where(np.arange(20) >= 10, 1.08, 1.0)
    assert confirm(_Bench(levels), 5, 15, 0.08).outcome is Outcome.CONFIRMED
    assert confirm(_Bench(np.ones(20)), 5, 15, 0.08).outcome is Outcome.REFUTED
    assert confirm(_Bench(levels), 5, 15, -0.08).outcome is Outcome.REFUTED


def test_rerun_that_noise_drowns_is_undecided_after_three_batches() -> None:
    """60 pairs of 40 % noise decide nothing, and the rerun stops there."""
    bench = _Bench(np.where(np.arange(20) >= 10, 1.05, 1.0), sigma=0.4)
    answer = confirm(bench, 5, 15, 0.05)
    assert (answer.outcome, answer.comparisons) == (Outcome.UNDECIDED, 3)


@pytest.mark.parametrize("place", [6, 10, 15])
def test_narrowing_finds_the_commit(place: int) -> None:
    """Halving the range ends at the commit that did it, in about log2 of the range comparisons."""
    bench = _Bench(np.where(np.arange(20) >= place, 1.08, 1.0))
    answer = narrow(bench, confirm(bench, 2, 18, 0.08))
    assert (answer.before, answer.after) == (place - 1, place)
    assert answer.comparisons <= 8


def test_only_confirmed_ranges_are_narrowed() -> None:
    """A refuted rerun comes back as it was."""
    refuted = confirm(_Bench(np.ones(20)), 5, 15, 0.08)
    assert narrow(_Bench(np.ones(20)), refuted) is refuted


def test_search_range_grows_with_the_noise_and_stays_in_its_levels() -> None:
    """A clear step is searched within three commits, an unclear one wider, never past its neighbours."""
    x = np.concatenate([np.zeros(40), np.full(40, 0.1)]) + np.random.default_rng(0).normal(0, 0.01, 80)
    (change,) = find_changes(x)
    assert search_range(change, short_term_sigma(x), 80) == (37, 42)
    low, high = search_range(change, 0.2, 80)
    assert low <= 30
    assert high >= 48
    tight = dataclasses.replace(change, start=38, stop=43)
    assert search_range(tight, 0.2, 80) == (38, 42)
