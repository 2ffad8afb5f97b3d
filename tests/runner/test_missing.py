"""`mlxcache bench --missing`: which commits, in which order."""

from __future__ import annotations

import json
from pathlib import Path

from mlxcache.runner.missing import in_order, with_results


def test_ends_first_then_the_middle_of_the_longest_gap() -> None:
    """A run that is stopped leaves commits spread over the line, and the next one goes on from there."""
    line = list("abcdefghi")
    order = in_order(line, ())
    assert order[:3] == ["i", "a", "e"]
    assert sorted(order) == line
    assert in_order(line, set(order[:3])) == order[3:]
    assert in_order(line, set(line)) == []


def test_counts_and_seconds_are_missing_separately(tmp_path: Path) -> None:
    """A commit with seconds lacks its counts; a damaged file is not there."""
    for name, variables in (("a", {}), ("b", {"MLXCACHE_COUNTER": "valgrind_x86_64.avx2"})):
        document = {"commit_hash": name, "env_vars": variables, "results": {"x": [1]}}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    (tmp_path / "c.json").write_text("{")
    assert with_results(tmp_path, "") == {"a"}
    assert with_results(tmp_path, "valgrind_x86_64.avx2") == {"b"}
