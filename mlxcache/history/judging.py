"""Judges many series, in several processes where there are enough of them."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

from mlxcache.history.control import divide_best, moved_with_control
from mlxcache.history.noise import short_term_sigma
from mlxcache.history.progress import progress
from mlxcache.history.rerun import search_range
from mlxcache.history.segments import Change, Method, find_changes, log_values
from mlxcache.history.series_table import Task

# Below this many values one process is done before a second one has started.
_WORTH_A_PROCESS: Final = 500_000
_CHUNK: Final = 200


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


def judge(task: Task, method: Method) -> Judged:
    """One series' changes."""
    x, control = divide_best(log_values(task.values)[0], task.controls)
    changes = find_changes(x, method)
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


def _judge_chunk(tasks: Sequence[Task], method: Method) -> list[Judged]:
    # Series without changes need not travel back.
    found = (judge(task, method) for task in tasks)
    return [result for result in found if result.changes or result.machine_changes]


def judge_all(
    tasks: Sequence[Task], method: Method, *, jobs: int | None = None, show_progress: bool | None = None
) -> Iterator[Judged]:
    """Series that have changes, in the order of `tasks`.

    `jobs` None: one process a core, at most four, for large tables, and this process alone for others.
    """
    if jobs is None:
        large = sum(len(task.values) for task in tasks) >= _WORTH_A_PROCESS
        jobs = min(4, os.cpu_count() or 1) if large else 1
    chunks = [tasks[i : i + _CHUNK] for i in range(0, len(tasks), _CHUNK)]
    if jobs == 1:
        for chunk in progress(chunks, f"finding changes, chunks of {_CHUNK} series", enabled=show_progress):
            yield from _judge_chunk(chunk, method)
        return
    # Forking a process that has threads is not safe, and numpy starts some.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        answers = pool.map(_judge_chunk, chunks, [method] * len(chunks))
        label = f"finding changes, chunks of {_CHUNK} series"
        for found in progress(answers, label, len(chunks), enabled=show_progress):
            yield from found
