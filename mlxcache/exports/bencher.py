"""Bencher Metric Format: by benchmark, by measure, a value with its interval."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mlxcache.exports.exporter import Asked, OfOneCommit
from mlxcache.exports.selection import Value, one_run

# Bencher's own measure of time is in nanoseconds.
_NANOSECONDS: Final = 1e9
_NAME_LIMIT: Final = 1024
_MEASURE_LIMIT: Final = 64


def metrics(values: Sequence[Value]) -> dict[str, dict[str, dict[str, float]]]:
    """All series of one run; a name that is too long keeps its beginning and gets a number."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for value in one_run(list(values)):
        measure, scale = _measure(value)
        metric = {"value": value.value * scale}
        if value.low is not None and value.high is not None:
            metric |= {"lower_value": value.low * scale, "upper_value": value.high * scale}
        found.setdefault(_fitting(value.name, found), {})[measure] = metric
    return found


def as_json(found: dict[str, Any]) -> bytes:
    """The file that `bencher run --adapter json --file` reads."""
    return (json.dumps(found, indent=1, allow_nan=False) + "\n").encode()


def _measure(value: Value) -> tuple[str, float]:
    if value.unit == "seconds":
        return "latency", _NANOSECONDS
    if value.unit == "bytes":
        return "memory", 1.0
    if value.higher_better and "/" in value.unit:
        return "throughput", 1.0
    slug = re.sub(r"[^a-z0-9]+", "-", value.unit.lower()).strip("-")
    return slug[:_MEASURE_LIMIT].strip("-") or "value", 1.0


def _fitting(name: str, taken: dict[str, Any]) -> str:
    if len(name) <= _NAME_LIMIT:
        return name
    number = 1
    while True:
        short = f"{name[: _NAME_LIMIT - 12]} … {number}"
        if short not in taken:
            return short
        number += 1


def _contents(asked: Asked, values: list[Value]) -> dict[Path, bytes]:
    return {asked.out: as_json(metrics(values))}


EXPORTER: Final = OfOneCommit("bencher", "Bencher Metric Format", _contents)
