"""Keeps the tests out of the user's cache folder, and off a GPU that a virtual machine makes up."""

import os
from pathlib import Path

# An NVIDIA GPU rounds float32 to 10 bits in products: attention is then 2e-4 off, the oracle allows 2e-5.
os.environ.setdefault("MLX_ENABLE_TF32", "0")

import mlx.core as mx
import pytest

from mlxcache.runner.facts import choose_device
from mlxcache.runner.system.mlx import Mlx, installed


def device_for_tests(found: Mlx) -> str:
    """ "cpu" where the GPU is a hosted Mac's: attention there misses its tolerance now and then, or hangs."""
    return choose_device("default", found.backend, found.gpu)[0]


if device_for_tests(installed()) == "cpu":
    mx.set_default_device(mx.Device(mx.DeviceType.cpu))


@pytest.fixture(autouse=True)
def own_cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, where nothing names another."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("MLXCACHE_CACHE_DIR", str(folder))
    return folder
