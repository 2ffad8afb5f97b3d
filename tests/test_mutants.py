"""The mutation tester: which mistakes it makes, on which lines, and what it calls noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import mutants
from tools.mutants import Mutant, mutants_of, survives

SOURCE = '''"""Ü."""
def grown(n: int = 3) -> int:
    if n < 5 and not done(n):
        raise ValueError(f"{n + 1} is too small")
    return n + 1
'''


def applied(mutant: Mutant, source: str) -> str:
    """The source with the mistake in it."""
    return source[: mutant.start] + mutant.text + source[mutant.end :]


def test_each_mistake_is_one_small_change_that_still_compiles() -> None:
    """Other operators, numbers and conditions, left out statements; types and messages stay."""
    found = list(mutants_of("a.py", SOURCE))
    changed = [applied(mutant, SOURCE).splitlines() for mutant in found]
    for mutant, lines in zip(found, changed, strict=True):
        compile("\n".join(lines), "a.py", "exec")
        # From its line on: a statement over several lines is one.
        assert lines[: mutant.line - 1] == SOURCE.splitlines()[: mutant.line - 1]
        assert lines != SOURCE.splitlines()
    told = {(mutant.line, mutant.old, mutant.text) for mutant in found}
    assert {
        (2, "3", "4"),
        (3, "n < 5", "((n) <= (5))"),
        (3, "not done(n)", "(done(n))"),
        (5, "n + 1", "((n) - (1))"),
        (5, "return n + 1", "return None"),
    } <= told
    assert not [
        mutant for mutant in found if mutant.old == "int" or (mutant.line == 4 and "raise" not in mutant.old)
    ]


def test_a_line_is_tried_with_its_own_tests_quickest_first() -> None:
    """As many as fit; what runs at import is every test's of that file; at least one runs however slow."""
    known: dict[str, dict[str, object]] = {
        "lines": {"a.py": {"5": ["slow", "quick"], "3": ["other"]}},
        "seconds": {"slow": 9.0, "quick": 0.1, "other": 1.0},
    }
    five, one = (Mutant("a.py", line, 0, 1, "x", "y") for line in (5, 1))
    assert mutants.tests_for(five, known, 30.0) == ["quick", "slow"]
    assert mutants.tests_for(five, known, 5.0) == ["quick"]
    assert mutants.tests_for(five, known, 0.0) == ["quick"]
    assert mutants.tests_for(one, known, 30.0) == ["quick", "other", "slow"]
    assert mutants.tests_for(Mutant("b.py", 1, 0, 1, "x", "y"), known, 30.0) == []


@pytest.mark.parametrize(("asked", "lives"), [("grown(7) == 8", False), ("grown(7) > 0", True)])
def test_a_mutant_survives_what_asks_too_little(tmp_path: Path, asked: str, lives: bool) -> None:
    """A test that states the result kills it, one that does not lets it live; the source is put back."""
    source = SOURCE.replace("done(n)", "n > 4")
    (tmp_path / "grow.py").write_text(source)
    (tmp_path / "test_grow.py").write_text(f"from grow import grown\ndef test_it():\n    assert {asked}\n")
    (mutant,) = (m for m in mutants_of("grow.py", source) if m.text == "((n) - (1))")
    assert survives(mutant, source, tmp_path, ["test_grow.py"]) == lives
    assert (tmp_path / "grow.py").read_text() == source
