"""Merges shards and whole trees of results into one, so that no kill, crash or full disk costs a result.

Everything new is first written beside the tree, then a journal says what is to be renamed to what, then it is
renamed. Before the journal is there, the tree is as it was; after it, the next merge finishes the renaming.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mlxcache.history.asv.json_text import UNREADABLE, Json, decode, show
from mlxcache.history.asv.problems import Problem
from mlxcache.history.asv.tree import as_roots, find_machine_folders
from mlxcache.history.merging.join import JoinError, join_results, same
from mlxcache.history.merging.records import find_records, join_lines
from mlxcache.support.atomic import sync_folder, write_atomically
from mlxcache.support.folder_lock import folder_lock
from mlxcache.support.progress import progress
from mlxcache.support.regular_file import read_regular

STAGE_NAME: Final = ".mlxcache-merge"
_JOURNAL: Final = "journal.json"
_DATE: Final = re.compile(rb'"date": ?(\d{1,15})\b')


@dataclass(slots=True)
class MergeReport:
    """What a merge did. `conflicts` are left as they were in the tree; `n_values` says how many values."""

    added: int = 0  # files that the tree did not have
    joined: int = 0  # files that got benchmarks or values
    unchanged: int = 0  # files that had everything already
    records: int = 0  # lines added to the records beside the results
    conflicts: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def merge(
    shards: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    into: str | os.PathLike[str],
    *,
    wait_s: float = 60.0,
    show_progress: bool | None = None,
) -> MergeReport:
    """Add the results of the shards to the tree `into`, which is made if need be; shards stay as they are.

    Files of the same machine folder and name are joined benchmark by benchmark and parameter by parameter.
    What differs is a conflict: reported and left as the tree has it. benchmarks.json is merged too; where
    entries differ, those of the tree with the newest commit are taken. Of the records that are kept line by
    line (`mlxcache.history.merging.records`) the tree gets the lines that it lacks.

    Raises:
        FileNotFoundError, NotADirectoryError: a shard is not there, or a path is a file.
        ValueError: a shard and `into` are the same folder or one lies in the other.
        folder_lock.FolderBusyError: another merge held the tree for `wait_s` seconds.
        OSError: something could not be written; see the module's head for what that leaves.
    """
    roots = as_roots(shards)
    target = Path(into)
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"into: {target} is a file; expected a results folder")
    for root in roots:
        here, there = root.resolve(), target.resolve()
        if here == there or here in there.parents or there in here.parents:
            raise ValueError(f"into: {target} and the shard {root} overlap; expected separate folders")
    target.mkdir(parents=True, exist_ok=True)
    with folder_lock(target, wait_s):
        report = MergeReport()
        _recover(target, report)
        stage = _Stage(target)
        try:
            _Merger(target, stage, report).run(roots, show_progress)
            stage.commit()
        except BaseException:
            stage.abandon()
            raise
        stage.apply()
    return report


class _Stage:
    """New contents of files in a folder beside them, until all are there."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._folder = target / STAGE_NAME
        self._staged: dict[Path, Path] = {}  # file in the tree -> its new content
        self._committed = False

    def content(self, path: Path) -> bytes | None:
        """What the file will hold as things stand; None where there is none."""
        current = self._staged.get(path, path)
        return read_regular(current) if current.exists() else None

    def put(self, path: Path, data: bytes) -> None:
        self._folder.mkdir(exist_ok=True)
        part = self._staged.get(path) or self._folder / f"{len(self._staged)}.part"
        write_atomically(part, data)
        self._staged[path] = part

    def commit(self) -> None:
        """Write the journal: from here on the merge is finished by whoever comes next, whatever happens."""
        if self._staged:
            entries = [
                [part.name, str(path.relative_to(self._target)), _digest(path)]
                for path, part in self._staged.items()
            ]
            # Parts are synced one by one, and their folder with the journal.
            write_atomically(self._folder / _JOURNAL, json.dumps(entries).encode())
        self._committed = True

    def apply(self) -> None:
        if self._staged:
            try:
                _apply(self._target, [])
            except OSError as error:
                why = f"{error.strerror}; the next merge finishes this one, which is complete in {self._folder}"
                raise OSError(error.errno, why, error.filename) from error

    def abandon(self) -> None:
        """Forget everything, unless it is committed."""
        if not self._committed:
            with contextlib.suppress(OSError):  # first, else a half-removed stage would look committed
                (self._folder / _JOURNAL).unlink()
            shutil.rmtree(self._folder, ignore_errors=True)


def _recover(target: Path, report: MergeReport) -> None:
    """Finish or forget what a merge that was killed has left."""
    stage = target / STAGE_NAME
    if not stage.exists():
        return
    if (stage / _JOURNAL).exists():
        _apply(target, report.conflicts)
        report.notes.append("a merge that was interrupted has been finished first")
    else:
        shutil.rmtree(stage)


def _apply(target: Path, conflicts: list[Problem]) -> None:
    stage = target / STAGE_NAME
    folders = {target}
    for name, relative, before in json.loads((stage / _JOURNAL).read_bytes()):
        part, path = stage / name, target / relative
        if not part.exists():
            continue  # renamed before the interruption
        if _digest(path) != before:
            why = "was changed while an interrupted merge waited: the merged content is dropped, merge again"
            conflicts.append(Problem(str(path), "", why))
            continue
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
            folders.add(path.parent.parent)
        os.replace(part, path)  # noqa: PTH105
        folders.add(path.parent)
    for folder in folders:
        sync_folder(folder)
    # The journal goes last but for its folder: without it the parts would be taken for an unfinished start.
    (stage / _JOURNAL).unlink()
    shutil.rmtree(stage)


def _digest(path: Path) -> str | None:
    with contextlib.suppress(FileNotFoundError):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return None


class _Merger:
    def __init__(self, target: Path, stage: _Stage, report: MergeReport) -> None:
        self._target = target
        self._stage = stage
        self._report = report
        self._merged = [target]  # the folders that its benchmarks.json is from
        self._newest: dict[Path, int] = {}

    def run(self, roots: Sequence[Path], show_progress: bool | None) -> None:
        folders, problems = find_machine_folders(roots)
        self._report.conflicts += problems
        work = [(folder, path) for folder in folders for path in folder.files]
        for folder, path in progress(work, "merging", enabled=show_progress):
            self._add_file(path, self._target / folder.path.resolve().name / path.name)
        for folder in folders:
            self._add_machine(folder.machine_file, self._target / folder.path.resolve().name / "machine.json")
        for path in find_records(roots, (folder.path for folder in folders)):
            self._add_records(path, self._target / path.resolve().parent.name / path.name)
        for path in dict.fromkeys(folder.benchmarks_file for folder in folders):
            if path.exists():
                self._add_benchmarks(path, self._target / "benchmarks.json")
            self._merged.append(path.parent)

    def _read(self, path: Path, data: bytes, key: str = "") -> dict[str, Json] | None:
        """The file as an object, or a conflict."""
        document, _, faults = decode(data)
        reason = ""
        if faults:
            reason = faults[0].reason
        elif document is UNREADABLE or not isinstance(document, dict):
            reason = f"{show(document)}, expected an object"
        elif key and not isinstance(document.get(key), dict):
            reason = f'no asv results file: "{key}" is {show(document.get(key))}'
        if reason:
            self._report.conflicts.append(Problem(str(path), "", f"not merged: {reason}"))
            return None
        return document  # type: ignore[no-any-return]

    def _read_or_take(self, path: Path, target: Path) -> tuple[dict[str, Json], dict[str, Json]] | None:
        """The file and what the tree has, as objects.

        None where nothing is left to compare: they are the same, the tree had none and takes it, or one of the
        two cannot be used.
        """
        try:
            data, there = read_regular(path), self._stage.content(target)
        except OSError as error:
            why = f"not merged: cannot be read: {error.strerror or error}"
            self._report.conflicts.append(Problem(str(error.filename or path), "", why))
            return None
        if there == data:
            return None
        document = self._read(path, data)
        if document is None:
            return None
        if there is None:
            self._stage.put(target, data)
            return None
        old = self._read(target, there)
        return None if old is None else (document, old)

    def _add_file(self, path: Path, target: Path) -> None:
        try:
            data = read_regular(path)
        except OSError as error:
            why = f"cannot be read: {error.strerror or error}"
            self._report.conflicts.append(Problem(str(path), "", why))
            return
        there = self._stage.content(target)
        if there == data:
            self._report.unchanged += 1
            return
        document = self._read(path, data, "results")
        if document is None:
            return
        if there is None:
            self._stage.put(target, data)
            self._report.added += 1
            return
        old = self._read(target, there, "results")
        if old is None:
            return
        try:
            joined = join_results(old, document)
        except (JoinError, RecursionError) as error:
            self._report.conflicts.append(Problem(str(path), "", f"not merged into {target}: {error}"))
            return
        self._report.conflicts += [
            Problem(str(path), row, f"{reason}: left as it was", n) for row, reason, n in joined.conflicts
        ]
        self._report.notes += [f"{path}: {note}" for note in joined.notes]
        if joined.document is None:
            self._report.unchanged += 1
        else:
            self._stage.put(target, json.dumps(joined.document).encode())
            self._report.joined += 1

    def _add_machine(self, path: Path, target: Path) -> None:
        if not path.exists():
            if self._stage.content(target) is None:
                self._report.notes.append(f"{path} is missing: asv itself will skip this machine's results")
            return
        both = self._read_or_take(path, target)
        if both is None:
            return
        document, old = both
        if not same(old, document):
            keys = sorted(key for key in {**old, **document} if not same(old.get(key), document.get(key)))
            named = ", ".join(f"{key}: {show(document.get(key))}, kept {show(old.get(key))}" for key in keys)
            self._report.notes.append(f"{path} is of another machine of the same name ({named})")

    def _add_records(self, path: Path, target: Path) -> None:
        try:
            data = read_regular(path)
        except OSError as error:
            why = f"not merged: cannot be read: {error.strerror or error}"
            self._report.conflicts.append(Problem(str(path), "", why))
            return
        joined = join_lines(self._stage.content(target) or b"", data)
        self._report.conflicts += [
            Problem(str(path), f"line {number}", "not merged: not a JSON object") for number in joined.damaged
        ]
        if joined.data is not None:
            self._stage.put(target, joined.data)
            self._report.records += joined.added

    def _add_benchmarks(self, path: Path, target: Path) -> None:
        both = self._read_or_take(path, target)
        if both is None:
            return
        document, old = both
        merged = {**document, **old}
        differing = [name for name in document if name in old and not same(old[name], document[name])]
        if differing and self._newest_commit(path.parent) > max(map(self._newest_commit, self._merged)):
            merged = {**old, **document}
        if not same(merged, old):
            # Laid out as asv does, so that a change shows as the few lines it is.
            self._stage.put(target, json.dumps(merged, indent=4, sort_keys=True).encode())

    def _newest_commit(self, root: Path) -> int:
        """The latest commit date below the folder as it is on the disk, in milliseconds; 0 without any."""
        if root not in self._newest:
            dates = [0]
            for folder in find_machine_folders([root])[0]:
                for path in folder.files:
                    with contextlib.suppress(OSError):
                        match = _DATE.search(read_regular(path))
                        dates += [int(match[1])] if match else []
            self._newest[root] = max(dates)
        return self._newest[root]
