"""Numbers in README and docs that come from results/ are what results/ say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import fill_numbers as numbers

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def results() -> numbers.Results:
    """The committed results."""
    return numbers.Results(ROOT)


@pytest.mark.parametrize("name", numbers.FILES)
def test_text_and_results_agree(name: str, results: numbers.Results) -> None:
    """`make numbers` would change nothing."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert numbers.BLOCK.search(text)
    assert numbers.filled(text, results) == text


def test_a_miss_is_bold_and_a_range_stands_beside_it() -> None:
    """By the newest value, for every row alike."""
    number = numbers.Number(1.02, 0.98, 1.03, 4, "abc")
    assert numbers._ratio(number, 1.0) == "**1.020** (0.980 to 1.030)"
    assert numbers._ratio(number, 1.1) == "1.020 (0.980 to 1.030)"
    assert numbers._ratio(numbers.Number(1.02, 1.02, 1.02, 1, "abc"), 1.1) == "1.020"


def test_the_newest_whole_run_counts_and_not_the_best(results: numbers.Results) -> None:
    """The value is that of the commit that the text names, whatever other runs gave."""
    machine = results.machine(numbers.CPU)
    number = results.number(machine, "positions.Positions.time_read_32_layers", "'host', 'int32', 1")
    assert number is not None
    assert number.commit == results.whole(machine)
    assert number.low <= number.value <= number.high
