"""Where nothing tells which way is better, whoever answers says that less was taken to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mlxcache.history.asv.facts import Benchmark
from mlxcache.history.loading.direction import assumed_notice


def assumed_directions(series: Iterable[tuple[str, str]], benchmarks: Mapping[str, Benchmark]) -> list[str]:
    """What to say of these series, each a benchmark's name and its unit: one sentence or none."""
    said = assumed_notice(series, {name: benchmark.facts for name, benchmark in benchmarks.items()})
    return [said] if said else []
