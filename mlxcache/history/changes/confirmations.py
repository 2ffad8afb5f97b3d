"""What reruns said, kept beside the results so that the next page knows.

One file a machine, `<results>/<machine>/confirmations.jsonl`, one JSON object a line. asv takes every
`*.json` in that folder for a result and ignores this name. A file is always replaced as a whole: whatever
happens, it is the old one or the new one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from mlxcache.support.atomic import write_atomically
from mlxcache.support.folder_lock import folder_lock
from mlxcache.support.regular_file import read_regular

FILE_NAME = "confirmations.jsonl"
# A merge into the same tree takes no longer.
_WAIT_S = 60.0


@dataclass(frozen=True)
class Confirmation:
    """One rerun of two commits for one series.

    outcome: "confirmed", "refuted" or "undecided".
    before, after: the commits that were measured, or (narrowed) the neighbours between which it happened.
    change, low, high: relative change of the value with its 95 % interval, 0.05 for 5 % more.
    candidate_before, candidate_after: the range that the history had named.
    measured_at: UTC, ISO 8601.
    """

    machine: str
    env: str
    benchmark: str
    params: str
    version: str
    outcome: str
    before: str
    after: str
    candidate_before: str
    candidate_after: str
    change: float
    low: float
    high: float
    pairs: int
    measured_at: str

    def key(self) -> tuple[str, str, str, str, str]:
        """The series that it belongs to."""
        return (self.machine, self.env, self.benchmark, self.params, self.version)


_FIELDS = {field.name for field in fields(Confirmation)}
_NUMBERS = ("change", "low", "high")


def parse_line(line: str) -> Confirmation | None:
    """The confirmation that a line holds, or None if it holds none."""
    try:
        data: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not data.keys() >= _FIELDS:
        return None
    known = {name: data[name] for name in _FIELDS}
    if not all(isinstance(known[name], int | float) for name in (*_NUMBERS, "pairs")):
        return None
    if not all(isinstance(value, str) for name, value in known.items() if name not in (*_NUMBERS, "pairs")):
        return None
    return Confirmation(**known)


def read_confirmations(results: str | os.PathLike[str]) -> tuple[list[Confirmation], list[str]]:
    """All confirmations below a results folder, oldest first, and one message for each line that is none."""
    found: list[Confirmation] = []
    problems: list[str] = []
    root = Path(results)
    for path in sorted({*root.glob(FILE_NAME), *root.glob(f"*/{FILE_NAME}")}):
        try:
            lines = read_regular(path).decode("utf-8", "replace").split("\n")
        except OSError as error:
            problems.append(f"{path}: cannot be read: {error.strerror or error}")
            continue
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            read = parse_line(line)
            if read is None:
                problems.append(f"{path}, line {number}: not a confirmation; delete that line")
            else:
                found.append(read)
    return sorted(found, key=lambda c: c.measured_at), problems


def write_confirmations(results: str | os.PathLike[str], new: Iterable[Confirmation]) -> list[Path]:
    """Add confirmations to their machines' files; a rerun of the same candidate replaces the older one.

    Lines that are no confirmations stay where they are. Returns the files that were written.
    """
    by_machine: dict[str, list[Confirmation]] = {}
    for confirmation in new:
        by_machine.setdefault(confirmation.machine, []).append(confirmation)
    written = []
    for machine, additions in sorted(by_machine.items()):
        folder = Path(results) / machine
        if not folder.is_dir():
            raise FileNotFoundError(f"no folder {folder} for the confirmations of machine {machine!r}")
        path = folder / FILE_NAME
        with folder_lock(Path(results), wait_s=_WAIT_S):
            _replace(path, additions)
        written.append(path)
    return written


def _replace(path: Path, additions: list[Confirmation]) -> None:
    replaced = {(c.key(), c.candidate_before, c.candidate_after) for c in additions}
    kept = []
    if path.exists():
        for line in read_regular(path).decode("utf-8", "surrogateescape").split("\n"):
            if not line.strip():
                continue
            old = parse_line(line)
            if old is None or (old.key(), old.candidate_before, old.candidate_after) not in replaced:
                kept.append(line)
    lines = [*kept, *(json.dumps(asdict(c), sort_keys=True) for c in additions)]
    text = "".join(line + "\n" for line in lines)
    write_atomically(path, text.encode("utf-8", errors="surrogateescape"))
