"""A whole comparison can be made without a command: by a notebook, by another tool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from mlxcache.history.comparing.protocol import Protocol, compare_measured
from mlxcache.history.comparing.rounds import Rounds
from mlxcache.history.comparing.verdicts import Limits, Verdict


def batch(shift: float, bench: Sequence[str], seed: int, names: Sequence[str] = ("b.time_x",)) -> Rounds:
    """Ten rounds in which head is slower by `shift`, of the benchmarks that a pattern names (none: all)."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "machine": "m", "env": "e", "benchmark": name, "params": "", "version": "1", "unit": "seconds",
            "round": number, "side": side, "value": rng.normal(1.0, 0.01) * (1 + shift * (side == "head")),
            "samples": 1,
        }
        for name in names
        for number in range(10)
        for side in ("base", "head")
    ]  # fmt: skip
    return Rounds(pd.DataFrame(rows), ("b.time_y failed on head",))


def test_a_clear_slowdown_takes_one_look() -> None:
    """What is decided is not measured again, and what failed is among the remarks."""
    asked: list[list[str]] = []

    def measure(bench: Sequence[str]) -> Rounds:
        asked.append(list(bench))
        return batch(0.2, bench, len(asked))

    found = compare_measured(measure, "a" * 40, "b" * 40, Protocol(rounds=10))
    assert (found.verdict, found.measured, asked) == (Verdict.REGRESSION, True, [[]])
    assert found.notices[0] == "b.time_y failed on head"


def test_what_stays_open_is_measured_again_alone_and_no_more_often_than_said() -> None:
    """The second and the last look take the open series by its full name."""
    asked: list[list[str]] = []

    def measure(bench: Sequence[str]) -> Rounds:
        asked.append(list(bench))
        return batch(0.0, bench, len(asked))

    strict = Protocol(limits=Limits(relevant=0.001, tolerated=0.001), rounds=10, looks=2, bench=("time",))
    found = compare_measured(measure, "a" * 40, "b" * 40, strict)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.rows["rounds"].tolist() == [20]
    assert asked == [["time"], [r"^b\.time_x$"]]
    assert found.protocol == strict


def test_a_commit_is_not_compared_with_itself() -> None:
    """There is nothing to measure, so nothing is measured."""
    with pytest.raises(ValueError, match="both revisions are aaaaaaaaaa; there is nothing to compare"):
        compare_measured(lambda bench: pytest.fail("measured"), "a" * 40, "a" * 40)
