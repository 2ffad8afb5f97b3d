"""`mlxcache doctor`."""

from __future__ import annotations

from pathlib import Path

import pytest
from result_trees import document, row, write_document, write_tree

from mlxcache import cli
from mlxcache.history.merging.merge import STAGE_NAME


def test_healthy_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tree without faults has exit status 0, and its counts are printed."""
    write_tree(tmp_path)
    assert cli.main(["doctor", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "3 files, 3 commits, 1 machine, 7 series, 21 values (21 ok, 0 failed, 0 skipped)" in out
    assert "\nno problems\n" in out


def test_every_problem_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each problem is a line with file, row and reason, the last line counts them, the exit status is 1."""
    write_tree(tmp_path)
    path = write_document(tmp_path, document({"time_x": row([1.0, 2.0]), "time_y": row(["a"])}, number=9))
    assert cli.main(["doctor", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert f"{path}: time_x: 2 values, expected 1 (no parameters): cannot tell whose [2 values left out]\n" in out
    assert f"{path}: time_y: value 'a', expected a finite number [1 value left out]\n" in out
    assert "\n2 problems in 1 file, 3 values left out\n" in out


def test_cannot_be_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to look at, or a repository that is none, has exit status 2 and says why."""
    assert cli.main(["doctor", str(tmp_path / "none")]) == 2
    assert "nothing at" in capsys.readouterr().err
    assert cli.main(["doctor", str(tmp_path)]) == 2
    assert "no result files were found" in capsys.readouterr().out
    write_tree(tmp_path / "results")
    assert cli.main(["doctor", str(tmp_path / "results"), "--repo", str(tmp_path)]) == 2
    assert "expected a git repository" in capsys.readouterr().err


def test_interrupted_merge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What an interrupted merge left is pointed out."""
    write_tree(tmp_path)
    (tmp_path / STAGE_NAME).mkdir()
    assert cli.main(["doctor", str(tmp_path)]) == 1
    assert "a merge was interrupted" in capsys.readouterr().out
