"""Keeps the tests out of the user's cache folder."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, where nothing names another."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("MLXCACHE_CACHE_DIR", str(folder))
    return folder
