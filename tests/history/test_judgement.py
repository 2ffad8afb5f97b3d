"""Small decisions behind a verdict, each by values worked out by hand or by SciPy: controls, reruns, pairs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mlxcache.history.changes.aftermath import apply_confirmations
from mlxcache.history.changes.confirmations import Confirmation, read_confirmations
from mlxcache.history.comparing.paired import paired_change, paired_difference
from mlxcache.history.comparing.verdicts import Estimate, Limits, Verdict, further_rounds, verdict_of
from mlxcache.history.statistics.control import Control, divide_best, moved_with_control
from mlxcache.remeasure.rerun import Outcome, Rerun, confirm, narrow

WOBBLE = np.array([0.0, 0.1] * 10)


def control(share: float, amount: float = 1.0) -> Control:
    """A control that wobbles as the series does, known at this share of its commits."""
    x = amount * WOBBLE.copy()
    x[int(share * len(x)) :] = np.nan
    return Control("c", x)


@pytest.mark.parametrize(
    ("share", "amount", "divided"),
    [
        (1.0, 1.0, True),
        (0.8, 1.0, True),
        (0.75, 1.0, False),
        (0.6, 1.0, False),
        (1.0, 0.15, True),
        (1.0, 0.05, False),
    ],
)
def test_a_control_divides_where_it_ran_and_helps(share: float, amount: float, divided: bool) -> None:
    """At four in five commits or more, and making neighbours agree better by a tenth or more."""
    x, name = divide_best(WOBBLE, [control(share, amount)])
    assert (name == "c") == divided
    assert np.array_equal(x, WOBBLE) != divided


def test_the_control_that_helps_most_is_taken_in_any_order() -> None:
    """Half of the wobble taken out is less than all of it."""
    half, all_of_it = Control("half", WOBBLE / 2), Control("all", WOBBLE)
    assert divide_best(WOBBLE, [half, all_of_it])[1] == divide_best(WOBBLE, [all_of_it, half])[1] == "all"
    assert divide_best(WOBBLE[:3], [Control("all", WOBBLE[:3])])[1] == ""


@pytest.mark.parametrize(
    ("move", "spread", "n", "moved"),
    [
        (0.06, 0.001, 10, True),
        (0.05, 0.001, 10, True),
        (0.04, 0.001, 10, False),  # less than half
        (-0.06, 0.001, 10, False),  # the other way
        (0.06, 0.2, 10, False),  # within the control's own noise
        (0.06, 0.2, 4, True),  # too few to tell
        (0.06, 0.001, 2, False),  # hardly known
    ],
)
def test_a_move_is_the_machines_where_the_control_made_half_of_it(
    move: float, spread: float, n: int, moved: bool
) -> None:
    """The series moved by 10 %; gaps of the control count for nothing."""
    side = spread * np.linspace(-1.0, 1.0, n)
    x = np.concatenate([[math.nan], side, side + move + 1e-12, [math.nan]])
    assert moved_with_control(x, 0, n + 1, len(x), 0.1) == moved


CONFIRMATION = Confirmation(
    "m", "e", "b", "", "v", "confirmed", "c1", "c4", "c1", "c4", 0.1, 0.05, 0.15, 10, "2026-01-02T00:00:00"
)
CHANGE = {
    "machine": "m", "env": "e", "benchmark": "b", "params": "", "version": "v", "state": "candidate",
    "magnitude": 0.1, "confirmed": False, "note": "", "before": "c2", "after": "c3",
    "search_before": "c1", "search_after": "c4",
}  # fmt: skip
COMMITS = pd.DataFrame({"commit": [f"c{n}" for n in range(9)], "commit_index": range(9)})


def applied(*confirmations: Confirmation, **change: Any) -> tuple[list[str], int]:
    """The states of what stays, and how many were refuted."""
    kept, refuted = apply_confirmations(pd.DataFrame([CHANGE | change]), confirmations, COMMITS)
    return kept["state"].tolist(), len(refuted)


def test_a_rerun_decides_with_its_sign_range_series_and_machine() -> None:
    """One of the other sign, of commits that only touch the range, or of another series changes nothing."""
    assert applied(CONFIRMATION) == (["confirmed"], 0)
    assert applied(replace(CONFIRMATION, change=-0.1)) == (["candidate"], 0)
    assert applied(replace(CONFIRMATION, candidate_before="c4", candidate_after="c6")) == (["candidate"], 0)
    assert applied(replace(CONFIRMATION, candidate_before="c0", candidate_after="c1")) == (["candidate"], 0)
    assert applied(replace(CONFIRMATION, candidate_before="c3", candidate_after="c5")) == (["confirmed"], 0)
    assert applied(replace(CONFIRMATION, machine="other")) == (["candidate"], 0)
    assert applied(replace(CONFIRMATION, version="w")) == (["candidate"], 0)
    assert applied(CONFIRMATION, state="recovered") == (["recovered"], 0)


def test_the_newest_rerun_decides_whatever_file_it_is_in(tmp_path: Path) -> None:
    """Files are read in the order of their names, reruns are taken in that of their times."""
    older = replace(CONFIRMATION, outcome="refuted", measured_at="2026-01-01T00:00:00")
    for folder, one in (("a", CONFIRMATION), ("z", older)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "confirmations.jsonl").write_text(json.dumps(asdict(one)) + "\n")
    found, problems = read_confirmations(tmp_path)
    assert (found, problems) == ([older, CONFIRMATION], [])
    assert applied(*found) == (["confirmed"], 0)
    assert applied(*reversed(found)) == ([], 1)


def pairs(change: float, spread: float, n: int = 10) -> tuple[Any, Any]:
    """Rounds whose log ratios lie evenly within `spread` of `change`."""
    return np.ones(n), np.exp(change + np.linspace(-spread, spread, n))


@pytest.mark.parametrize(
    ("change", "spread", "shift", "outcome"),
    [
        (0.05, 0.001, 0.1, Outcome.CONFIRMED),
        (0.05, 0.001, -0.1, Outcome.REFUTED),  # surely of the other sign
        (0.01, 0.001, 0.1, Outcome.REFUTED),  # surely too small
        (0.02, 0.05, 0.1, Outcome.UNDECIDED),  # the interval ends between once and twice what matters
        (-0.01, 0.12, -0.1, Outcome.UNDECIDED),  # an improvement's far end is its low one
        (-0.05, 0.001, -0.1, Outcome.CONFIRMED),
    ],
)
def test_a_rerun_confirms_refutes_or_decides_nothing(
    change: float, spread: float, shift: float, outcome: Outcome
) -> None:
    """Against the smallest change that matters, 2.5 %, in the candidate's own direction."""
    found = confirm(lambda before, after: pairs(change, spread), 0, 5, shift)
    assert (found.outcome, found.before, found.after) == (outcome, 0, 5)
    assert found.comparisons == (3 if outcome is Outcome.UNDECIDED else 1)


def test_a_rerun_asks_again_before_it_confirms_what_may_be_chance() -> None:
    """One in twenty-five by chance is not enough at the first look; the same again is."""
    one = pairs(0.06, 0.105)
    p = paired_change(*one).p_value / 2.0
    assert 0.01 < p < 0.05
    assert confirm(lambda before, after: one, 0, 1, 0.1).comparisons == 2


def test_narrowing_asks_again_near_the_border() -> None:
    """A middle commit within two standard errors of half the change is measured once more, others once."""
    whole = Rerun(Outcome.CONFIRMED, 0, 4, paired_change(*pairs(0.1, 0.001)), 1)
    step = {1: 0.0, 2: 0.0, 3: 0.1}
    clear = narrow(lambda before, after: pairs(step[after], 0.001), whole)
    assert (clear.before, clear.after, clear.comparisons) == (2, 3, 3)
    unclear = narrow(lambda before, after: pairs(0.051, 0.05), whole)
    assert (unclear.before, unclear.after, unclear.comparisons) == (0, 1, 1 + 2 * 3)
    refuted = replace(whole, outcome=Outcome.REFUTED)
    assert narrow(lambda before, after: pairs(0.0, 1.0), refuted) is refuted


def test_few_pairs_are_students_t() -> None:
    """Below five pairs nothing is trimmed, so that estimate, p-value and interval are SciPy's."""
    base, head = np.array([1.0, 1.2, 1.1, 1.3]), np.array([1.1, 1.25, 1.2, 1.5])
    found, expected = paired_change(base, head), stats.ttest_1samp(np.log(head / base), 0.0)
    interval = expected.confidence_interval(0.95)
    assert found.p_value == pytest.approx(float(expected.pvalue))
    assert [found.change, found.low, found.high] == pytest.approx(
        np.expm1([np.log(head / base).mean(), interval.low, interval.high]).tolist()
    )
    shift, p = paired_difference(base, head)
    expected = stats.ttest_1samp(head - base, 0.0)
    assert p == pytest.approx(float(expected.pvalue))
    assert shift.low == pytest.approx(float(expected.confidence_interval(0.95).low))


def test_yuens_error_by_hand() -> None:
    """Ten log ratios 0 to 9: two at each end become 2 and 7; 6 are kept, so the error is sqrt(42.5/6/5)."""
    found = paired_change(np.ones(10), np.exp(np.arange(10) / 100))
    assert found.error == pytest.approx(math.sqrt(42.5 / (6 * 5)) / 100)
    assert math.log1p(found.change) == pytest.approx(0.045)
    assert found.p_value == pytest.approx(2 * stats.t.sf(4.5 / math.sqrt(42.5 / 30), 5))


def test_two_looks_at_the_pairs_cost_a_wider_interval() -> None:
    """Where the controls were divided by, both ways were tried: p doubles and the interval is at 97.5 %."""
    noise = np.linspace(0.5, 1.5, 10)
    rest = 1.0 + 0.01 * np.sin(np.arange(10))
    found = paired_change(np.ones(10), 1.02 * noise * rest, [(np.ones(10), noise)])
    plain = paired_change(np.ones(10), 1.02 * rest)
    assert found.divided
    assert found.p_value == pytest.approx(2 * plain.p_value)
    margin = [math.log1p(each.high) - math.log1p(each.change) for each in (found, plain)]
    assert margin[0] / margin[1] == pytest.approx(stats.t.ppf(0.9875, 5) / stats.t.ppf(0.975, 5))


def test_the_floor_is_compared_only_where_it_is_much_quieter() -> None:
    """Even noise has no floor; delays on top of one do."""
    rng = np.random.default_rng(5)
    even = paired_change(np.exp(rng.normal(0, 0.1, 40)), np.exp(rng.normal(0, 0.1, 40)))
    delays = paired_change(1 + rng.exponential(1.0, 40) ** 4, 1 + rng.exponential(1.0, 40) ** 4)
    assert (even.floor, delays.floor) == (False, True)


@pytest.mark.parametrize(
    ("worse", "low", "high", "p", "verdict"),
    [
        (0.025, 0.001, 0.04, 0.01, Verdict.REGRESSION),
        (0.0249, 0.001, 0.04, 0.01, Verdict.NO_REGRESSION),  # sure, and too small to matter
        (0.10, 0.01, 0.2, 0.02, Verdict.INCONCLUSIVE),  # two in a hundred by chance
        (0.0, -0.05, 0.05, 0.9, Verdict.INCONCLUSIVE),  # what is tolerated is not excluded
        (0.0, -0.05, 0.0499, 0.9, Verdict.NO_REGRESSION),
        (-0.025, -0.2, 0.06, 0.01, Verdict.NO_REGRESSION),  # surely better
        (-0.024, -0.2, 0.06, 0.01, Verdict.INCONCLUSIVE),
    ],
)
def test_verdicts_at_their_bounds(worse: float, low: float, high: float, p: float, verdict: Verdict) -> None:
    """2.5 % matters, 5 % must be excluded, one in a hundred false ones are put up with."""
    assert verdict_of(Estimate(worse, low, high, p, 10), p, Limits()) is verdict


def test_further_rounds_by_hand() -> None:
    """Half of the interval is 0.1 and the gap 0.05: four times the rounds, and a quarter more, less those done."""
    assert further_rounds(Estimate(0.0, -0.1, 0.1, 0.5, 10), Limits()) == 40
    assert further_rounds(Estimate(0.1, 0.0, 0.2, 0.5, 8), Limits()) == 2
    assert further_rounds(Estimate(0.1, 0.0, math.inf, 0.5, 8), Limits()) == 8
