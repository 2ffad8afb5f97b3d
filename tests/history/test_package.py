"""What importing the package costs, and how it shows progress."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from result_trees import write_tree

from mlxcache import history
from mlxcache.history.asv.problems import Problem, Problems
from mlxcache.support import progress as progress_module
from mlxcache.support.progress import progress


def imported_by(code: str) -> set[str]:
    """Top-level modules and mlxcache's own that the code imports in a fresh process."""
    listing = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", listing],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    return set(done.stdout.split())


def test_layers() -> None:
    """Reading results needs neither mlx nor the dashboard; naming the package needs not even pandas."""
    loaded = imported_by("from mlxcache.history import load")
    assert "pandas" in loaded
    assert not loaded & {"mlx", "mlxcache.dashboard", "matplotlib"}
    assert "pandas" not in imported_by("import mlxcache.history")
    assert "pandas" not in imported_by(
        "import mlxcache.history.merging.merge, mlxcache.history.loading.parse_cache"
    )


def test_public_names() -> None:
    """Every public name can be imported, and any other is an error that names it."""
    assert set(history.__all__) == set(history._PUBLIC)
    for name in history.__all__:
        assert getattr(history, name).__doc__
        assert name in dir(history)
    with pytest.raises(AttributeError, match="nosuch"):
        _ = history.nosuch


def test_problems_read_well() -> None:
    """A problem prints as file, row, reason and loss, and a list of them as one line of counts."""
    problems = Problems([Problem("a.json", "time_x", "bad", 2), Problem("a.json", "", "worse")])
    assert str(problems[0]) == "a.json: time_x: bad [2 values left out]"
    assert str(problems[1]) == "a.json: worse"
    assert problems.summary() == "2 problems in 1 file, 2 values left out"
    assert Problems().summary() == "no problems"


def test_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is shown in the first second or without a terminal; then the count is, until the end."""
    assert list(progress([1, 2], "reading")) == [1, 2]
    assert list(progress([1, 2], "reading", enabled=True)) == [1, 2]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress_module, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(progress_module, "_INTERVAL_S", 0.0)
    assert list(progress([1, 2], "reading", enabled=True)) == [1, 2]
    shown = capsys.readouterr().err
    assert "reading: 1 of 2" in shown
    assert shown.endswith("\r")


def test_load_shows_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """load says on stderr how far it is when asked to."""
    monkeypatch.setattr(progress_module, "_PATIENCE_S", 0.0)
    history.load(write_tree(tmp_path), show_progress=True)
    assert "reading results: 0 of 3" in capsys.readouterr().err
