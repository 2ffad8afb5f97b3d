"""The explorer's data: an index of all series, and their values in files of a benchmark each.

Pages opened from disk may not fetch, but they may load scripts, so each file is a call that hands over JSON.
Values are packed, since ten thousand series as decimal text would be 300 MB:

    commits     a bit for each commit of the table, most significant first
    values      32-bit floats, little-endian, one for each bit that is set
    low, high   16-bit floats: the interval's ends relative to the value, less one

all as base64. A file holds whole series and about a megabyte at most.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from mlxcache.dashboard.output import Output
from mlxcache.history.loading.direction import higher_is_better
from mlxcache.history.loading.history import facts_of
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.reports.events import Event
from mlxcache.reports.plain_text import clean, script_json
from mlxcache.support.names import digest, slug

_POINTS_A_FILE: Final = 60_000
_BLOCK: Final = 2**16  # rows
_PACKED: Final = np.dtype([("value", "<f4"), ("low", "<f2"), ("high", "<f2")])


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    positions: list[int]


def write_explorer_data(out: Output, df: pd.DataFrame, store: SeriesStore, events: list[Event]) -> None:
    """Write the index and all data files."""
    marks = _marks(events)
    packed = _Packed(df, store)
    benchmarks: list[list[Any]] = []
    machines = {name: i for i, name in enumerate(store.by_machine)}
    environments: dict[str, int] = {}
    facts = facts_of(df).benchmarks
    newest = {event.benchmark: event for event in reversed(events)}
    for name, positions in store.by_benchmark.items():
        files = []
        series: list[list[Any]] = []
        for number, part in enumerate(_parts(name, positions, store)):
            files.append(part.path)
            _write_file(out, part, packed, store, marks)
            for position in part.positions:
                key = store.keys[position]
                env = environments.setdefault(key.env, len(environments))
                n = int(store.stops[position] - store.starts[position])
                last = max((mark[0] for mark in marks.get(key.number, ())), default=-1)
                series.append([key.id, machines[key.machine], env, clean(key.params), n, number, last])
        known = facts.get(name)
        unit = store.keys[positions[0]].unit
        event = newest.get(name)
        benchmarks.append(
            [
                clean(name),
                clean(unit),
                int(higher_is_better(unit, getattr(known, "facts", None))),
                [clean(text) for text in getattr(known, "param_names", ())],
                files,
                series,
                _mark(event.lead, event) if event else None,
            ]
        )
    index = {
        "commits": _commits(df),
        "machines": [clean(name) for name in machines],
        "envs": _environments(df, environments),
        "benchmarks": benchmarks,
    }
    out.text("data/index.js", f"mlxcacheData({script_json(['index', index])});\n")


def _commits(df: pd.DataFrame) -> list[list[Any]]:
    """[name, seconds since 1970 or null, subject] in order."""
    found: dict[int, list[Any]] = {}
    for commit in facts_of(df).commits.values():
        found[commit.index] = [clean(commit.name), commit.date_s, clean(commit.subject)]
    return [found[index] for index in sorted(found)]


def environment_requirements(df: pd.DataFrame) -> dict[str, dict[str, str]]:
    """Packages and their versions by environment, as its results say."""
    found: dict[str, dict[str, str]] = {}
    for source in facts_of(df).sources.values():
        if source.head.env not in found:
            versions = {
                str(name).removeprefix("pip+"): str(version)
                for name, version in source.head.requirements.items()
                if isinstance(version, str) and version
            }
            if source.head.python:
                versions["python"] = str(source.head.python)
            found[source.head.env] = versions
    return found


def _environments(df: pd.DataFrame, names: Mapping[str, int]) -> list[list[Any]]:
    versions = environment_requirements(df)
    return [
        [clean(name), {clean(p): clean(v) for p, v in sorted(versions.get(name, {}).items())}] for name in names
    ]


def _parts(name: str, positions: list[int], store: SeriesStore) -> list[_File]:
    parts: list[list[int]] = [[]]
    n = 0
    for position in positions:
        size = int(store.stops[position] - store.starts[position])
        if parts[-1] and n + size > _POINTS_A_FILE:
            parts.append([])
            n = 0
        parts[-1].append(position)
        n += size
    stem = f"data/{slug(name, 40)}-{digest(name)}"
    return [_File(f"{stem}-{number}.js", part) for number, part in enumerate(parts)]


def _mark(row: Mapping[str, Any], event: Event) -> list[Any]:
    """[first commit after it, magnitude, 1 for a regression, state, address of its page]."""
    return [
        int(row["after_index"]),
        round(float(row["magnitude"]), 4) if math.isfinite(row["magnitude"]) else None,
        int(event.is_regression),
        str(row["state"]),
        f"{event.address}.html",
    ]


def _marks(events: list[Event]) -> dict[int, list[list[Any]]]:
    found: dict[int, list[list[Any]]] = {}
    for event in events:
        for row in event.rows:
            found.setdefault(int(row["series"]), []).append(_mark(row, event))
    return found


class _Packed:
    """All values of the store in the form of the files."""

    def __init__(self, df: pd.DataFrame, store: SeriesStore) -> None:
        self._store = store
        value, low, high = (df[name].to_numpy(np.float64) for name in ("value", "ci_low", "ci_high"))
        packed = np.empty(len(df), _PACKED)
        # Block by block, since memory for a whole column costs more than the work.
        with np.errstate(all="ignore"):
            for start in range(0, len(df), _BLOCK):
                part = slice(start, start + _BLOCK)
                block, values = packed[part], value[part]
                block["value"] = values
                block["low"] = low[part] / values - 1.0
                block["high"] = high[part] / values - 1.0
                bounded = np.isfinite(block["low"]) & np.isfinite(block["high"])
                block["low"][~bounded] = np.nan
                block["high"][~bounded] = np.nan
        # In the table's order first: to move one number a row is cheaper than three.
        self._packed = store.lay_out(packed.view(np.int64)).view(_PACKED)

    def series(self, position: int) -> str:
        """One series as its file has it, JSON without the closing brace."""
        store = self._store
        start, stop = int(store.starts[position]), int(store.stops[position])
        commits, packed = store.commits[start:stop], self._packed[start:stop]
        values = packed["value"]
        if store.repeats[position]:
            one = store.series(position)
            packed = packed[np.searchsorted(commits, one.commits)]
            commits, values = one.commits, one.values.astype("<f4")
        # Up to its own newest commit, so that a commit more leaves a series as it is that has no value of it.
        bits = np.zeros(int(commits[-1]) + 1, np.bool_)
        bits[commits] = True
        found = f'{{"c":"{_text(np.packbits(bits))}","v":"{_text(values)}"'
        if not bool(np.isnan(packed["low"]).all()):
            found += f',"l":"{_text(packed["low"])}","h":"{_text(packed["high"])}"'
        return found


def _text(array: Any) -> str:
    return binascii.b2a_base64(array.tobytes(), newline=False).decode("ascii")


def _write_file(
    out: Output, part: _File, packed: _Packed, store: SeriesStore, marks: Mapping[int, list[list[Any]]]
) -> None:
    pieces = []
    for position in part.positions:
        key = store.keys[position]
        content = packed.series(position)
        if key.number in marks:
            content += f',"ch":{script_json(marks[key.number])}'
        pieces.append(f'"{key.id}":{content}}}')
    out.text(part.path, f'mlxcacheData(["{part.path}",{{{",".join(pieces)}}}]);\n')
