"""Which way is worse, and which commits cannot have changed anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from frames import commit_file, git

from mlxcache.history.changes.documentation import documentation_only, is_documentation
from mlxcache.history.loading.direction import direction_of, higher_is_better


@pytest.mark.parametrize(
    "unit",
    ["ops/s", "GB/s", "tokens/s", "tokens per second", "MiB / sec", "GFLOPS", "Mbps", "hit rate", "Hz"],
)
def test_rates_and_scores_are_better_high(unit: str) -> None:
    """Units of throughput and of success."""
    assert higher_is_better(unit)


@pytest.mark.parametrize("unit", ["seconds", "bytes", "", "calls", "ms", "MiB", "unit", "s/token", "bytes/call"])
def test_costs_are_better_low(unit: str) -> None:
    """Times, sizes, counts, and what has no unit."""
    assert not higher_is_better(unit)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"direction": "higher"}, True),
        ({"better": "Lower"}, False),
        ({"goal": "maximize"}, True),
        ({"higher_is_better": True}, True),
        ({"lower_is_better": True}, False),
        ({"direction": "sideways"}, True),
        ({"direction": 3}, True),
        ({}, True),
    ],
)
def test_the_benchmarks_own_word_comes_first(facts: dict[str, object], expected: bool) -> None:
    """An attribute that makes sense beats the unit ("ops/s" here), one that does not is ignored."""
    assert higher_is_better("ops/s", facts) is expected


def test_direction_of_a_change() -> None:
    """Sign and preference together."""
    assert direction_of(0.1, False) == direction_of(-0.1, True) == "regression"
    assert direction_of(-0.1, False) == direction_of(0.1, True) == "improvement"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("README.md", True),
        ("docs/conf.py", True),
        ("CHANGELOG", True),
        ("LICENSE.txt", True),
        (".github/workflows/ci.yml", True),
        ("results/m1/abc-env.json", True),
        ("src/changes.py", False),
        ("news.py", False),
        ("requirements.txt", False),
        ("benchmarks/time_docs.py", False),
        ("pyproject.toml", False),
    ],
)
def test_documentation_is_known_by_path(path: str, expected: bool) -> None:
    """What people and CI read; nothing that a benchmark could import or be built from."""
    assert is_documentation(path) is expected


def test_ranges_of_documentation(tmp_path: Path) -> None:
    """A range counts if nothing else differs between its ends.

    Names with blanks and newlines are read right.
    """
    git(tmp_path, "init", "-q")
    code = commit_file(tmp_path, "code.py", "1")
    words = commit_file(tmp_path, "docs/a b.rst", "1")
    more = commit_file(tmp_path, "README.md", "1")
    mixed = commit_file(tmp_path, "code.py", "2")
    empty = git(tmp_path, "commit-tree", "-p", mixed, "-m", "same tree", f"{mixed}^{{tree}}")
    ranges = [(code, words), (code, more), (words, more), (more, mixed), (code, mixed), (mixed, empty)]
    assert documentation_only(tmp_path, [*ranges, (code, "0" * 40)]) == set(ranges[:3])


def test_without_a_repository_nothing_is_known(tmp_path: Path) -> None:
    """No error: a change is then judged as if it touched code."""
    assert documentation_only(tmp_path, [("a" * 40, "b" * 40)]) == set()
    assert documentation_only(tmp_path, []) == set()
