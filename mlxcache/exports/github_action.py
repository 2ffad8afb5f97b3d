"""github-action-benchmark's customSmallerIsBetter and customBiggerIsBetter: one file each, since a file is one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mlxcache.exports.exporter import Asked, OfOneCommit
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


def _contents(asked: Asked, values: list[Value]) -> dict[Path, bytes]:
    bigger = asked.out.with_name(f"{asked.out.stem}.bigger{asked.out.suffix}")
    found = {path: entries(values, higher_better=higher) for higher, path in ((False, asked.out), (True, bigger))}
    return {path: as_json(those) for path, those in found.items() if those}


EXPORTER: Final = OfOneCommit(
    "github-action-benchmark",
    "JSON for customSmallerIsBetter, and PATH with .bigger for customBiggerIsBetter",
    _contents,
)
