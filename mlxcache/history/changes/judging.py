"""Judges many series, in several processes where there are enough of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from mlxcache.history.changes.count_changes import count_changes
from mlxcache.history.changes.drift import join_drifts
from mlxcache.history.changes.segments import Change, Method, find_changes, search_range
from mlxcache.history.loading.series_table import Task
from mlxcache.history.statistics.control import divide_best, moved_with_control
from mlxcache.history.statistics.counted import SMALLEST
from mlxcache.history.statistics.effect import Scale, on_scale
from mlxcache.history.statistics.noise import width
from mlxcache.support.progress import progress
from mlxcache.support.workers import spread

# Few enough for two processes to end at about one time.
_CHUNK: Final = 200


@dataclass(frozen=True, slots=True)
class Judged:
    """A series' changes, on the `scale` that it was judged on.

    `machine_changes` are those that a control made as well, and `moved` is its name; `searches` are two
    positions for each change between which it lies almost surely; `control` is what the values were divided
    by, or "".
    """

    task: Task
    scale: Scale
    changes: list[Change]
    machine_changes: list[Change]
    searches: list[tuple[int, int]]
    control: str
    moved: str


def judge(task: Task, method: Method) -> Judged:
    """One series' changes."""
    x, scale = on_scale(task.values)
    control = ""
    controls = task.controls if scale.logs else ()
    if controls:
        x, control = divide_best(x, controls)
    changes = find_changes(x, method, scale=scale)
    if changes:
        changes = join_drifts(x, changes, scale)
    of_machine: list[Change] = []
    moved = ""
    for other in controls:
        if other.name == control:
            continue
        with_it = [c for c in changes if moved_with_control(other.x, c.start, c.index, c.stop, c.effect.shift)]
        if with_it:
            moved = other.name
            of_machine += with_it
            changes = [c for c in changes if c not in with_it]
    noise = width(x) if changes else 0.0
    searches = [search_range(change, noise, len(x)) for change in changes]
    return Judged(task, scale, changes, of_machine, searches, control, moved)


def judge_counts(tasks: Sequence[Task], smallest: float) -> list[Judged]:
    """Counts that have changes: no other series says more about them, and there is nothing to search."""
    found = []
    for task in tasks:
        x, scale = on_scale(task.values)
        changes = count_changes(x, min(SMALLEST, smallest))
        if changes:
            searches = [(change.index - 1, change.index) for change in changes]
            found.append(Judged(task, scale, changes, [], searches, "", ""))
    return found


def _judge_chunk(method: Method, tasks: Sequence[Task]) -> list[Judged]:
    # Series without changes need not travel back.
    found = (judge(task, method) for task in tasks)
    return [result for result in found if result.changes or result.machine_changes]


def judge_all(
    tasks: Sequence[Task], method: Method, jobs: int = 1, *, show_progress: bool | None = None
) -> list[Judged]:
    """Series that have changes, in the order of `tasks`, judged by so many processes."""
    chunks = [tasks[i : i + _CHUNK] for i in range(0, len(tasks), _CHUNK)]
    label = f"finding changes, chunks of {_CHUNK} series"
    judged = spread(partial(_judge_chunk, method), chunks, jobs)
    return [one for chunk in progress(judged, label, len(chunks), enabled=show_progress) for one in chunk]
