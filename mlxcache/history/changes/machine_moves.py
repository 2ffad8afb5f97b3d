"""Tells a move that all benchmarks of a machine made from changes of the code, where no control can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from mlxcache.history.changes.confidence import WINDOW, overlap
from mlxcache.history.loading.series_table import Task
from mlxcache.history.statistics.effect import on_scale

_ENOUGH: Final = 5
_MOST: Final = 0.6
_ALL: Final = 0.9
_TOGETHER: Final = 2  # commits
_NEAR: Final = 10
_DID: Final = {"regression": "got worse", "improvement": "got better"}
# Who made the move by eye alone made at least half of it, at most twice, and its values hardly overlap.
_ALIKE: Final = 2.0
_APART: Final = 0.5

# Machine and environment.
Place = tuple[str, str]


def note_common_moves(changes: pd.DataFrame, series_of_place: Mapping[Place, int]) -> pd.DataFrame:
    """Note changes that most benchmarks of a machine and environment made at once.

    It moved, rather than the code.

    `series_of_place` counts the series of each (machine, env). Nothing is taken off the list: a change may
    well slow everything down.
    """
    if changes.empty:
        return changes
    changes = changes.copy()
    for (machine, env, direction), group in changes.groupby(["machine", "env", "direction"], observed=True):
        total = series_of_place.get((str(machine), str(env)), 0)
        if total < _ENOUGH:
            continue
        places = group["after_index"].to_numpy()
        for label, place in zip(group.index, places, strict=True):
            together = group.loc[np.abs(places - place) <= _TOGETHER, "series"].nunique()
            if together >= _MOST * total:
                text = (
                    f"{together} of {total} benchmarks here {_DID[str(direction)]} at once: "
                    "look at the machine and its packages"
                )
                changes.loc[label, "note"] = "; ".join(filter(None, [changes.loc[label, "note"], text]))
    return changes


def machine_events(changes: pd.DataFrame, tasks: Iterable[Task]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What stays, and one row for each move that all benchmarks of a machine made at once.

    It is the machine's, where there are enough benchmarks to tell, no control ran beside them (it would have made
    the move too), and no rerun has confirmed any of it. `tasks` are the series that are no controls. A series in
    which nothing was sure enough to be listed counts too, if its values made the move. All environments that moved
    together are one event; its row is the one with the middle size.
    """
    here: dict[str, list[Task]] = {}
    for task in tasks:
        here.setdefault(task.key.machine, []).append(task)
    gone: set[Any] = set()
    events = []
    for (machine, direction), group in changes.groupby(["machine", "direction"], observed=True):
        series = here.get(str(machine), [])
        for some in (series, *_by_environment(series)):
            if len({(task.key.env, task.key.benchmark) for task in some}) < _ENOUGH or any(
                t.controls for t in some
            ):
                continue
            numbers = {task.number for task in some}
            for place in sorted(set(group["after_index"].tolist())):
                left = group[group["series"].isin(numbers) & ~group.index.isin(gone)]
                together = left[(left["after_index"] - place).abs() <= _TOGETHER]
                found = _event(together, left, some, int(place), str(direction))
                if found is not None:
                    rows, event = found
                    gone.update(rows)
                    events.append(event)
    if not events:
        return changes, changes.iloc[:0]
    return changes[~changes.index.isin(gone)].reset_index(drop=True), pd.concat(events, ignore_index=True)


def _by_environment(series: Sequence[Task]) -> list[list[Task]]:
    names = dict.fromkeys(task.key.env for task in series)
    return [[task for task in series if task.key.env == env] for env in names] if len(names) > 1 else []


def _event(
    together: pd.DataFrame, left: pd.DataFrame, series: Sequence[Task], place: int, direction: str
) -> tuple[list[Any], pd.DataFrame] | None:
    """The rows that a move of all makes superfluous and its own row, if it was one."""
    names = {task.number: (task.key.env, task.key.benchmark) for task in series}
    every = set(names.values())
    moved = {names[number] for number in together["series"]}
    if len(moved) < _MOST * len(every) or bool(together["confirmed"].any()):
        return None
    middle = together.sort_values("size").iloc[[(len(together) - 1) // 2]].assign(kind="machine")
    shift = float(np.log1p(max(float(middle["magnitude"].iloc[0]), -0.999)))
    off = (left["after_index"] - place).abs()
    # Who changed at another time did not make this move.
    own = set(left.loc[(off > _NEAR) & (off <= WINDOW), "series"])
    along = [
        task.number
        for task in series
        if names[task.number] not in moved and task.number not in own and _made(task, place, shift)
    ]
    moved |= {names[number] for number in along}
    if len(moved) < _ALL * len(every):
        return None
    near = left[left["series"].isin(along) & (off <= _NEAR)]
    middle["note"] = (
        f"{len(moved)} of {len(every)} benchmarks here ({together['series'].nunique() + len(along)} series) "
        f"{_DID[direction]} at once, of which this is the middle one: the machine changed"
    )
    return [*together.index, *near.index], middle


def _made(task: Task, place: int, shift: float) -> bool:
    """Whether a series' values moved by about `shift` at `place`, whatever a detector says of it alone."""
    x, scale = on_scale(task.values)
    index = int(np.searchsorted(task.commits, place))
    before, after = x[max(0, index - WINDOW) : index], x[index : index + WINDOW]
    if not scale.logs or not len(before) or not len(after) or not np.isfinite(shift):
        return False
    own = float(np.median(after) - np.median(before))
    alike = 1.0 / _ALIKE <= own / shift <= _ALIKE
    return alike and abs(overlap(before, after)) >= _APART
