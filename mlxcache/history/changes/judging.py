"""Judges many series, in several processes where there are enough of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import ruptures  # noqa: F401  # which the detector imports when it first searches: not in the middle of a run

from mlxcache.history.changes.certificate_store import CertificateStore, Used
from mlxcache.history.changes.count_changes import count_changes
from mlxcache.history.changes.detectors import PeltDetector
from mlxcache.history.changes.screening import screen
from mlxcache.history.changes.segments import Change, Method, find_changes, log_values, search_range
from mlxcache.history.loading.series_table import Task
from mlxcache.history.statistics.control import divide_best, moved_with_control
from mlxcache.history.statistics.counted import SMALLEST
from mlxcache.history.statistics.noise import short_term_sigma
from mlxcache.support.progress import progress
from mlxcache.support.workers import Call, Helpers, as_they_come, here

# Below this many values one process is done before a second one has started.
# Below this many values in need of a search, a helper would still import what searching takes.
_WORTH_SHARING: Final = 1_500_000
_SEARCHED: Final = 50
# Enough pieces to fill batches of about one length, and few enough for two processes to end at about one time.
_SCREENED: Final = 500


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


def judge_counts(tasks: Sequence[Task], smallest: float) -> list[Judged]:
    """Counts that have changes: no other series says more about them, and there is nothing to search."""
    found = []
    for task in tasks:
        changes = count_changes(log_values(task.values)[0], min(SMALLEST, smallest))
        if changes:
            searches = [(change.index - 1, change.index) for change in changes]
            found.append(Judged(task, changes, [], searches, "", ""))
    return found


# A series, and which of its pieces to search (None: all).
_Open = tuple[Task, Collection[int] | None]


def _judge_chunk(tasks: Sequence[_Open], method: Method) -> list[Judged]:
    # Series without changes need not travel back.
    found = (judge(task, method, pieces) for task, pieces in tasks)
    return [result for result in found if result.changes or result.machine_changes]


def judge_all(
    tasks: Sequence[Task],
    method: Method,
    helpers: Helpers,
    *,
    show_progress: bool | None = None,
    certificates: CertificateStore | None = None,
) -> list[Judged]:
    """Series that have changes, in the order of `tasks`.

    `certificates` are what is known of quiet pieces; they are used and added to. Helpers screen, and search where
    there is much to search; what they found quiet or loud is dealt with here meanwhile.
    """
    chunks = [tasks[i : i + _SCREENED] for i in range(0, len(tasks), _SCREENED)]
    searches: dict[int, list[Call[list[Judged]]]] = {}
    of_use: list[Used] = []
    n_values = 0
    for index, opened, used in _screened(chunks, method, helpers, certificates, show_progress):
        of_use.append(used)
        n_values += sum(len(task.values) for task, _ in opened)
        if n_values < _WORTH_SHARING:
            searches[index] = [here(_judge_chunk, opened, method)]
        else:
            parts = [opened[i : i + _SEARCHED] for i in range(0, len(opened), _SEARCHED)]
            searches[index] = [helpers.submit(_judge_chunk, part, method) for part in parts]
    if certificates is not None:
        for used in of_use:
            certificates.note(used)
    calls = [call for index in sorted(searches) for call in searches[index]]
    label = f"finding changes, chunks of {_SEARCHED} series"
    for _ in progress(as_they_come(calls), label, len(calls), enabled=show_progress):
        pass
    return [judged for call in calls for judged in call.result()]


def _screened(
    chunks: Sequence[Sequence[Task]],
    method: Method,
    helpers: Helpers,
    certificates: CertificateStore | None,
    show_progress: bool | None,
) -> Iterator[tuple[int, list[_Open], Used]]:
    """The chunks' numbers, those of their series that need a closer look, and the certificates of use.

    In the other series the detector would propose nothing.
    """
    detector = method.detector
    if type(detector) is not PeltDetector:
        for index, chunk in enumerate(chunks):
            yield index, [(task, None) for task in chunk], Used([], {})
        return
    calls = [
        helpers.submit(screen, [(task.values, task.controls) for task in chunk], detector, certificates)
        for chunk in chunks
    ]
    label = f"looking for quiet series, chunks of {_SCREENED}"
    for index in progress(as_they_come(calls), label, len(calls), enabled=show_progress):
        loud, used = calls[index].result()
        yield index, [(chunks[index][place], pieces) for place, pieces in loud.items()], used
