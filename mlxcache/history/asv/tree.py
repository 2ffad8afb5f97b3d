"""Finds the result files in what the user points at: results, one machine's folder, or anything above."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mlxcache.history.asv.json_text import readable
from mlxcache.history.asv.problems import Problem
from mlxcache.support.regular_file import why_not_read

# What may hold thousands of JSON files that are no results.
_SKIPPED_FOLDERS: Final = frozenset({".git", ".hg", "node_modules", ".mlxcache-merge"})
_SKIPPED_BY_ASV: Final = frozenset({"env", "html", "project"})  # in a folder named .asv
_BESIDE: Final = frozenset({"machine.json", "benchmarks.json", "asv.conf.json"})
_RESULT_NAME: Final = re.compile(r"[0-9a-f]{7,40}-.+\.json")


@dataclass(frozen=True, slots=True)
class MachineFolder:
    """One machine's folder: its result files, sorted by name, and the benchmarks.json beside the folder."""

    path: Path
    files: tuple[Path, ...]
    machine_file: Path
    benchmarks_file: Path


def as_roots(results: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The paths given, as a list.

    Raises:
        FileNotFoundError: there is nothing at one of them.
        NotADirectoryError: one of them is not a folder.
        ValueError: none is given.
    """
    given = [results] if isinstance(results, str | os.PathLike) else list(results)
    if not given:
        raise ValueError("results: got no path, expected at least one asv results folder")
    roots = [Path(path) for path in given]
    for root in roots:
        if not root.exists():
            raise FileNotFoundError(f"results: nothing at {root}; expected an asv results folder")
        if not root.is_dir():
            raise NotADirectoryError(f"results: {root} is a file; expected an asv results folder")
    return roots


def find_machine_folders(roots: Iterable[Path]) -> tuple[list[MachineFolder], list[Problem]]:
    """All machine folders below the roots, each once, in the order of the roots and then by name.

    A folder counts if it has a machine.json, if it lies beside a benchmarks.json, or if it holds a file whose
    name is as asv gives it. Every .json file in it counts as a result.
    """
    folders: list[MachineFolder] = []
    problems: list[Problem] = []
    seen: set[str] = set()

    def unreadable(error: OSError) -> None:
        problems.append(Problem(readable(str(error.filename)), "", f"cannot be listed: {error.strerror}"))

    for root in roots:
        results_folders: set[str] = set()
        for folder, subfolders, names in os.walk(root, onerror=unreadable):
            path = Path(folder)
            skipped = _SKIPPED_FOLDERS | _SKIPPED_BY_ASV if path.name == ".asv" else _SKIPPED_FOLDERS
            subfolders[:] = sorted(name for name in subfolders if name not in skipped)
            # A folder with a result's name would be passed by in silence.
            for name in filter(_RESULT_NAME.fullmatch, list(subfolders)):
                problems.append(Problem(readable(str(path / name)), "", "not a regular file"))
                subfolders.remove(name)
            if "benchmarks.json" in names:
                results_folders.add(folder)
            candidates = sorted(name for name in names if name.endswith(".json") and name not in _BESIDE)
            if not candidates or not (
                "machine.json" in names
                or str(path.parent) in results_folders
                or any(map(_RESULT_NAME.fullmatch, candidates))
            ):
                continue
            identity = os.path.realpath(folder)
            if identity in seen:
                continue
            seen.add(identity)
            files = []
            for name in candidates:
                if why := why_not_read(path / name):
                    problems.append(Problem(readable(str(path / name)), "", why))
                else:
                    files.append(path / name)
            folders.append(
                MachineFolder(path, tuple(files), path / "machine.json", path.parent / "benchmarks.json")
            )
    return folders, problems
