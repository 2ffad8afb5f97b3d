"""On CI a part of the tests that cannot run is a failure, and the tests stay off a GPU that is made up."""

from __future__ import annotations

import pytest

from mlxcache.runner.system.mlx import Mlx
from tests import required
from tests.conftest import device_for_tests


def test_a_missing_part_is_skipped_at_home_and_fails_on_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that CI promises to test is left out in silence."""
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no browser"):
        required.missing("no browser")
    with pytest.raises(pytest.skip.Exception, match="no_such_module cannot be imported"):
        required.module("no_such_module")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no browser"):
        required.missing("no browser")
    with pytest.raises(pytest.fail.Exception, match="no_such_module cannot be imported"):
        required.module("no_such_module")
    assert required.module("json").dumps(1) == "1"


@pytest.mark.parametrize(
    ("found", "device"),
    [
        (Mlx("0.32.4", "metal", "Apple Paravirtual device"), "cpu"),
        (Mlx("0.32.4", "metal", "Apple M2 Pro"), "metal"),
        (Mlx("0.32.4", doubt="no Metal device"), "cpu"),
        (Mlx("0.32.4"), "cpu"),
    ],
)
def test_a_virtual_gpu_is_not_what_the_tests_run_on(found: Mlx, device: str) -> None:
    """A hosted Mac's GPU misses tolerances and hangs now and then; a real one is tested."""
    assert device_for_tests(found) == device
