"""Judges many series, in several processes where there are enough of them."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Final

from mlxcache.history.control import divide_best, moved_with_control
from mlxcache.history.detectors import PeltDetector
from mlxcache.history.noise import short_term_sigma
from mlxcache.history.progress import progress
from mlxcache.history.quiet import Certificates, loud
from mlxcache.history.rerun import search_range
from mlxcache.history.segments import Change, Method, find_changes, log_values
from mlxcache.history.series_table import Task

# Below this many values one process is done before a second one has started.
_WORTH_A_PROCESS: Final = 4_000_000
_CHUNK: Final = 200
# Enough pieces to fill batches of about one length.
_SCREENED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Judged:
    """A series' changes.

    `machine_changes` are those that a control made as well, and `moved` is its name; `searches` are two
    positions for each change between which it lies almost surely; `control` is what the values were divided
    by, or "".
    """

    task: Task
    changes: list[Change]
    machine_changes: list[Change]
    searches: list[tuple[int, int]]
    control: str
    moved: str


def judge(task: Task, method: Method, pieces: Collection[int] | None = None) -> Judged:
    """One series' changes; `pieces` as `PeltDetector.boundaries` takes them."""
    x, control = divide_best(log_values(task.values)[0], task.controls)
    if isinstance(method.detector, PeltDetector):
        proposed = method.detector.boundaries(x, pieces)
    else:
        proposed = method.detector.boundaries(x)
    changes = find_changes(x, method, proposed=proposed)
    of_machine: list[Change] = []
    moved = ""
    if not control:
        for other in task.controls:
            with_it = [c for c in changes if moved_with_control(other.x, c.start, c.index, c.stop, c.effect.shift)]
            if with_it:
                moved = other.name
                of_machine += with_it
                changes = [c for c in changes if c not in with_it]
    sigma = short_term_sigma(x) if changes else 0.0
    searches = [search_range(change, sigma, len(x)) for change in changes]
    return Judged(task, changes, of_machine, searches, control, moved)


# A series, and which of its pieces to search (None: all).
_Open = tuple[Task, Collection[int] | None]


def _judge_chunk(tasks: Sequence[_Open], method: Method) -> list[Judged]:
    # Series without changes need not travel back.
    found = (judge(task, method, pieces) for task, pieces in tasks)
    return [result for result in found if result.changes or result.machine_changes]


def _screened(
    tasks: Sequence[Task], method: Method, certificates: Certificates, show_progress: bool | None
) -> Sequence[_Open]:
    """The series that need a closer look; in the others the detector would propose nothing."""
    detector = method.detector
    if type(detector) is not PeltDetector:
        return [(task, None) for task in tasks]
    kept: list[_Open] = []
    chunks = [tasks[i : i + _SCREENED] for i in range(0, len(tasks), _SCREENED)]
    label = f"looking for quiet series, chunks of {_SCREENED}"
    for chunk in progress(chunks, label, enabled=show_progress):
        xs = [divide_best(log_values(task.values)[0], task.controls)[0] for task in chunk]
        kept += [(chunk[index], pieces) for index, pieces in loud(xs, detector, certificates).items()]
    return kept


def judge_all(
    tasks: Sequence[Task],
    method: Method,
    *,
    jobs: int | None = None,
    show_progress: bool | None = None,
    certificates: Certificates | None = None,
) -> Iterator[Judged]:
    """Series that have changes, in the order of `tasks`.

    `jobs` None: one process a core, at most four, for large tables, and this process alone for others.
    `certificates` are what is known of quiet pieces; they are used and added to.
    """
    remaining = _screened(tasks, method, certificates if certificates is not None else {}, show_progress)
    if jobs is None:
        large = sum(len(task.values) for task, _ in remaining) >= _WORTH_A_PROCESS
        jobs = min(4, os.cpu_count() or 1) if large else 1
    chunks = [remaining[i : i + _CHUNK] for i in range(0, len(remaining), _CHUNK)]
    if jobs == 1:
        for chunk in progress(chunks, f"finding changes, chunks of {_CHUNK} series", enabled=show_progress):
            yield from _judge_chunk(chunk, method)
        return
    # Forking a process that has threads is not safe, and numpy starts some.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        answers = pool.map(_judge_chunk, chunks, [method] * len(chunks))
        label = f"finding changes, chunks of {_CHUNK} series"
        done = 0
        try:
            for found in progress(answers, label, len(chunks), enabled=show_progress):
                done += 1
                yield from found
        except BrokenProcessPool:
            # A script from standard input, or one without a guard around its main part, cannot be imported anew.
            for chunk in chunks[done:]:
                yield from _judge_chunk(chunk, method)
