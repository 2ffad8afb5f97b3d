"""`mlxcache bench --missing`: which commits, in which order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from mlxcache.runner.missing import in_order, with_results
from mlxcache.support.folder_lock import folder_lock


def test_two_runs_do_not_share_environments(tmp_path: Path) -> None:
    """The second one ends and says who holds them: each would measure the other's commits under its own names."""
    modules = "import sys; from pathlib import Path; from mlxcache.runner.asv_main import _alone"
    program = f"{modules}; _alone(Path(sys.argv[1]))"
    with folder_lock(tmp_path, 0.0):
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert f"in use: {tmp_path} is being written by process {os.getpid()}" in done.stderr
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False).returncode == 0


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
