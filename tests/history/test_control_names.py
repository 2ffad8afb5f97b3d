"""Which benchmarks are controls by their names."""

from __future__ import annotations

import pytest

from mlxcache.history.statistics.control import is_control


@pytest.mark.parametrize(
    "name",
    [
        "control.Control.time_mlx",
        "control.time_spin",
        "bench_control.Suite.time_x",
        "bench.time_control",
        "common.Control.time_loop",
        "bench.time_control(64)",
        "controls.time_x",
    ],
)
def test_a_control_is_named_so(name: str) -> None:
    """By its module, its class or itself."""
    assert is_control(name)


@pytest.mark.parametrize(
    "name", ["decode.Relative.track_over_control", "a.time_uncontrolled", "flow.time_x_control"]
)
def test_what_is_measured_over_a_control_is_none(name: str) -> None:
    """It is the series to judge; taken for a control it would never be judged."""
    assert not is_control(name)
