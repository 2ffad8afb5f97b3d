"""The tool that times loading and detecting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "bench_history.py"


def test_makes_and_times_a_tree(tmp_path: Path) -> None:
    """It makes a tree without faults and prints a line a measurement."""
    results = tmp_path / "results"
    for action, options in (("make", ["--files", "4", "--series", "120"]), ("load", [])):
        done = subprocess.run(
            [sys.executable, str(TOOL), action, str(results), *options],
            check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(TOOL.parents[1])},
        )  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[0].startswith("4 result files, ")
    assert [line.split("  ")[0] for line in lines[1:5]] == [
        "no cache", "empty cache", "full cache", "full cache, one new file"
    ]  # fmt: skip
    assert all(" load + " in line and " detect " in line for line in lines[1:5])
    assert all("no problems" in line for line in lines[1:5])
    assert len(list(results.glob("*/*.json"))) == 5


def test_times_a_site(tmp_path: Path) -> None:
    """A line for a new site, the same again, one new file, and a new site from a full cache."""
    results = tmp_path / "results"
    for action, options in (("make", ["--files", "8", "--series", "120"]), ("site", [])):
        done = subprocess.run(
            [sys.executable, str(TOOL), action, str(results), *options],
            check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(TOOL.parents[1])},
        )  # fmt: skip
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "empty cache, new site", "nothing new", "one new file", "full cache, new site"
    ]  # fmt: skip
    assert all(" load + " in line and " site " in line for line in lines[1:])
    assert ", 0 of " in lines[2]  # the list of files, which is always written, does not count
    assert len(list(results.glob("*/*.json"))) == 9
