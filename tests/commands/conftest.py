"""Keeps the commands' tests out of the user's home and cache, and lets child processes find this package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiny_project import ROOT


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own: asv keeps its machines there."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MLXCACHE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return home
