"""Judges many series, in several processes where there are enough of them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mlxcache.history.control import divide_best, moved_with_control
from mlxcache.history.detectors import PeltDetector
from mlxcache.history.helpers import Call, Helpers, cores, share
from mlxcache.history.noise import short_term_sigma
from mlxcache.history.progress import progress
from mlxcache.history.quiet import Certificates, loud
from mlxcache.history.rerun import search_range
from mlxcache.history.segments import Change, Method, find_changes, log_values
from mlxcache.history.series_table import Task

# Below this many values one process is done before a second one has started.
_WORTH_A_PROCESS: Final = 2_000_000
_MOST_PROCESSES: Final = 4
_CHUNK: Final = 25
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
) -> Iterator[_Open]:
    """The series that need a closer look; in the others the detector would propose nothing."""
    detector = method.detector
    if type(detector) is not PeltDetector:
        yield from ((task, None) for task in tasks)
        return
    chunks = [tasks[i : i + _SCREENED] for i in range(0, len(tasks), _SCREENED)]
    label = f"looking for quiet series, chunks of {_SCREENED}"
    for chunk in progress(chunks, label, enabled=show_progress):
        xs = [divide_best(log_values(task.values)[0], task.controls)[0] for task in chunk]
        yield from ((chunk[index], pieces) for index, pieces in loud(xs, detector, certificates).items())


def helpers_for(n_values: int, jobs: int | None = None) -> Helpers:
    """Who helps with a table of so many values, being started; `jobs` are processes, None: what it is worth."""
    if jobs is None:
        jobs = min(_MOST_PROCESSES, cores()) if n_values >= _WORTH_A_PROCESS else 1
    helpers = Helpers(jobs - 1)
    helpers.prepare(__name__)  # which takes as long as laying the table out
    return helpers


def judge_all(
    tasks: Sequence[Task],
    method: Method,
    helpers: Helpers,
    *,
    show_progress: bool | None = None,
    certificates: Certificates | None = None,
) -> Iterator[Judged]:
    """Series that have changes, in the order of `tasks`.

    `certificates` are what is known of quiet pieces; they are used and added to. What is not quiet goes to the
    helpers while the search for more of it goes on.
    """
    calls: list[Call[list[Judged]]] = []
    found = _screened(tasks, method, certificates if certificates is not None else {}, show_progress)
    while chunk := list(itertools.islice(found, _CHUNK)):
        calls.append(helpers.submit(_judge_chunk, chunk, method))
    label = f"finding changes, chunks of {_CHUNK} series"
    if helpers.n:
        share(calls)
    for call in progress(calls, label, enabled=show_progress):
        yield from call.result()
