"""github-action-benchmark's customSmallerIsBetter and customBiggerIsBetter: one file each, since a file is one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mlxcache.exports.selection import Value, one_run


def entries(values: Sequence[Value], *, higher_better: bool) -> list[dict[str, Any]]:
    """The series of one direction, in asv's units."""
    return [_entry(value) for value in one_run(list(values)) if value.higher_better == higher_better]


def as_json(found: Sequence[dict[str, Any]]) -> bytes:
    """The file that the action reads as `output-file-path`."""
    return (json.dumps(found, indent=1, allow_nan=False) + "\n").encode()


def _entry(value: Value) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": value.name,
        "unit": value.unit or "unit",
        "value": value.value,
        "extra": f"machine: {value.machine}\nenvironment: {value.env}\nsamples: {value.n_samples}",
    }
    if value.low is not None and value.high is not None:
        entry["range"] = f"± {(value.high - value.low) / 2:.3g}"
    return entry
