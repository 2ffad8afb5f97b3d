"""The make targets that the workflows use and that need no environment."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mlxcache.history.repository.full_history import is_shallow
from tests.tiny_project import ROOT, commit, git, make_project

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on PATH")


def make(folder: Path, *arguments: str) -> None:
    """Run our Makefile in another folder."""
    subprocess.run(["make", "-s", "-f", str(ROOT / "Makefile"), *arguments], cwd=folder, check=True)


def test_the_branch_of_results_is_laid_out_in_any_of_its_states(tmp_path: Path) -> None:
    """An empty folder before it is there; its newest state, or the one that all shards were told."""
    source = make_project(tmp_path / "source")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(source), str(clone))
    make(clone, "results-tree")
    assert list((clone / "results-tree" / "results").iterdir()) == []
    assert (clone / "results-tree" / ".commit").read_text() == ""
    git(source, "checkout", "-q", "--orphan", "benchmark-results")
    (source / ".gitignore").unlink()
    states = [commit(source, str(number), results__a_json=f"{number}") for number in (1, 2)]
    make(clone, "results-tree")
    assert (clone / "results-tree" / "results" / "a_json").read_text() == "2"
    assert (clone / "results-tree" / ".commit").read_text().strip() == states[1]
    make(clone, "results-tree", f"RESULTS_COMMIT={states[0]}")
    assert (clone / "results-tree" / "results" / "a_json").read_text() == "1"
    assert (clone / "results-tree" / ".commit").read_text().strip() == states[0]
    assert not is_shallow(clone)
