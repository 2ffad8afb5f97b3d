"""The notebook of the history runs as committed, and holds no logic of its own."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.dashboard.site_trees import write_story
from tests.dashboard.test_site_data import write_suite

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "perf_history.ipynb"
SHORT = ROOT / "notebooks" / "any_project.ipynb"
OWN_RESULTS = ROOT / "results"


def _run(results: Path, repo: str, monkeypatch: pytest.MonkeyPatch, path: Path = NOTEBOOK) -> Any:
    monkeypatch.setenv("MLXCACHE_RESULTS", str(results))
    monkeypatch.setenv("MLXCACHE_REPO", repo)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": ROOT}}).execute()
    return notebook


def _pictures(notebook: Any) -> int:
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    return sum("image/png" in output.get("data", {}) for output in outputs)


# The packages that run notebooks warn about their own event loops.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("write", [write_story, write_suite], ids=["story", "suite"])
def test_notebook_runs_on_other_results(write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell runs and every figure is drawn, whether or not the suite has what it shows."""
    assert _pictures(_run(write(tmp_path / "results"), "", monkeypatch)) >= 6


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_notebook_runs_on_the_repositorys_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The committed results are what its committed outputs were made from."""
    if not any(OWN_RESULTS.glob("*/machine.json")):
        pytest.skip("this tree has no results yet")
    assert _pictures(_run(OWN_RESULTS, str(ROOT), monkeypatch)) >= 6


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_short_notebook_runs_on_any_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says in words what moved and how much is noise, with no repository and none of our parameters."""
    notebook = _run(write_story(tmp_path / "results"), "", monkeypatch, SHORT)
    said = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "series got worse" in said
    assert "by chance" in said
    assert _pictures(notebook) >= 3


@pytest.mark.parametrize("path", [NOTEBOOK, SHORT], ids=lambda path: path.stem)
def test_notebook_holds_no_logic(path: Path) -> None:
    """It defines nothing and decides nothing: functions and classes belong into the package."""
    assert path.stat().st_size < 600_000  # a forge shows it at once
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            source = cell.source.replace("%matplotlib inline\n", "")
            kinds = {type(node) for node in ast.walk(ast.parse(source))}
            assert not kinds & {ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.While, ast.If}
