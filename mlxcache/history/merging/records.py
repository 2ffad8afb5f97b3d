"""The records beside results that are kept line by line: runs of a machine, and what reruns said.

asv reads `*.json` alone, so it neither minds nor moves them. A line is a JSON object; whatever else it holds, it
is damage: a crash or a merge by hand. Damage is named, and left where it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mlxcache.history.asv.json_text import readable
from mlxcache.history.asv.problems import Problem
from mlxcache.history.changes.confirmations import FILE_NAME, parse_line
from mlxcache.support.regular_file import read_regular

RUNS: Final = "runs.jsonl"
RECORD_NAMES: Final = (RUNS, FILE_NAME)


@dataclass(frozen=True, slots=True)
class JoinedLines:
    """The union of two records files, or None if the first has everything; `damaged` are lines of the second."""

    data: bytes | None
    added: int
    damaged: list[int]


def join_lines(first: bytes, second: bytes) -> JoinedLines:
    """Add the second file's lines to the first, each once and in their order; the first's stay as they are."""
    lines = _lines(first)
    known = {_identity(line) for _, line in lines}
    new: list[bytes] = []
    damaged = []
    for number, line in _lines(second):
        identity = _identity(line)
        if identity is None:
            if line not in (there for _, there in lines):
                damaged.append(number)
        elif identity not in known:
            known.add(identity)
            new.append(line)
    if not new:
        return JoinedLines(None, 0, damaged)
    # A first file that was cut short would else swallow the first new line.
    end = b"" if not first or first.endswith(b"\n") else b"\n"
    return JoinedLines(first + end + b"".join(line + b"\n" for line in new), len(new), damaged)


def find_records(roots: Iterable[Path], folders: Iterable[Path]) -> list[Path]:
    """The records files in machine folders, in the roots and in the folders right below them, each once."""
    found: dict[str, Path] = {}
    for place in [*folders, *(place for root in roots for place in [root, *sorted(root.glob("*/"))])]:
        for name in RECORD_NAMES:
            if (place / name).is_file():
                found.setdefault(os.path.realpath(place / name), place / name)
    return list(found.values())


def damaged_lines(paths: Sequence[Path]) -> list[Problem]:
    """Every line of the records files that is no record, with its number."""
    problems = []
    for path in paths:
        try:
            data = read_regular(path)
        except OSError as error:
            problems.append(Problem(readable(str(path)), "", f"cannot be read: {error.strerror or error}"))
            continue
        for number, line in _lines(data):
            if _identity(line) is None:
                why = "not a JSON object"
            elif path.name == FILE_NAME and parse_line(line.decode("utf-8", "replace")) is None:
                why = "not a confirmation, fields are missing or of the wrong type"
            else:
                continue
            problems.append(
                Problem(readable(str(path)), f"line {number}", f"{why}: it is ignored; delete or mend it")
            )
    return problems


def _lines(data: bytes) -> list[tuple[int, bytes]]:
    """Lines that are not blank with their numbers, from 1."""
    return [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]


def _identity(line: bytes) -> str | None:
    """The same for lines that say the same; None for a damaged one."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return json.dumps(content, sort_keys=True) if isinstance(content, dict) else None
