"""The ring's goals beside what was measured."""

from __future__ import annotations

import pandas as pd

from mlxcache.reports.ring_goals import as_markdown, ring_goals


def _row(machine: str, params: str, value: float, index: int, status: str = "ok") -> dict[str, object]:
    return {
        "machine": machine,
        "commit_index": index,
        "benchmark": "ratios.Rotating.track_over_rotating",
        "params": params,
        "value": value,
        "status": status,
    }


def test_the_newest_value_of_each_machine_stands_beside_its_goal() -> None:
    """Bold above the goal, a dash where nothing is stored; a failed run does not hide the value before it."""
    params = "256, 'cache', '0'"
    table = pd.DataFrame(
        [
            _row("slow", params, 0.9, 1),
            _row("slow", params, 1.2, 2),
            _row("fast", params, 0.8, 1),
            _row("fast", params, 5.0, 2, status="failed"),
        ]
    )
    text = as_markdown(ring_goals(table))
    (line,) = [
        line for line in text.splitlines() if "rings of 256, cache alone" in line and "max_rewind 0" in line
    ]
    assert line.endswith("| 1 | 0.800 | **1.200** |")
    (other,) = [line for line in text.splitlines() if "rings of 1024, cache alone" in line and "_rewind 0" in line]
    assert other.endswith("| 1 | - | - |")


def test_every_goal_is_a_benchmark_of_the_suite() -> None:
    """Its name and parameters are those that asv would store, so that none stays empty for a typing error."""
    import itertools

    from benchmarks import footprint, model, ratios

    modules = {"footprint": footprint, "model": model, "ratios": ratios}
    from mlxcache.reports.ring_goals import goals

    for goal in goals():
        module, cls, method = goal.benchmark.split(".")
        suite = getattr(modules[module], cls)
        assert hasattr(suite, method)
        given = getattr(suite, "params", ())
        axes = given if given and isinstance(given[0], list | tuple) else [given] if given else []
        assert goal.params in {", ".join(map(repr, each)) for each in itertools.product(*axes)}
