"""Copies what one run wrote out of a results tree: what a runner hands over to be merged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlxcache.support.atomic import write_atomically

# What stands beside the results and belongs to them.
_BESIDE = ("machine.json", "runs.jsonl")


def collect(results: Path, files: Sequence[Path], into: Path) -> list[Path]:
    """Copy `files` of the tree `results`, and what describes them, to the same places below `into`."""
    wanted = {path.resolve() for path in files}
    for folder in {path.parent for path in wanted}:
        wanted |= {folder / name for name in _BESIDE if (folder / name).is_file()}
    if (results / "benchmarks.json").is_file():
        wanted.add((results / "benchmarks.json").resolve())
    copied = []
    for path in sorted(wanted):
        target = into / path.relative_to(results.resolve())
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, path.read_bytes())
        copied.append(target)
    return copied
