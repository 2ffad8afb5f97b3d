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

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.repository import commit_page
from mlxcache.dashboard.output import Output
from mlxcache.history.loading.direction import higher_is_better
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


def write_explorer_data(out: Output, facts: SiteFacts) -> None:
    """Write the index and all data files."""
    store = facts.store
    marks = _marks(facts)
    packed = _Packed(facts.df, store)
    benchmarks: list[list[Any]] = []
    machines = {name: i for i, name in enumerate(store.by_machine)}
    environments: dict[str, int] = {}
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
                values = [clean(value) for _, value in facts.names.pairs(name, key.params)]
                gone = int(key.number in facts.retired)
                series.append([key.id, machines[key.machine], env, values, n, number, last, gone])
        unit = store.keys[positions[0]].unit
        better = int(higher_is_better(unit, getattr(facts.benchmarks.get(name), "facts", None), name))
        parameters = [clean(text) for text in facts.names.parameters(name)]
        benchmarks.append([clean(name), clean(unit), better, parameters, files, series])
    index = {
        "commits": _commits(facts),
        "machines": [[clean(name), clean(facts.names.machine(name))] for name in machines],
        "envs": [
            [clean(name), {clean(p): clean(v) for p, v in sorted(facts.packages.get(name, {}).items())},
             clean(facts.names.environment(name))]
            for name in environments
        ],
        "benchmarks": benchmarks,
        "tags": [[index, clean(name)] for index, name in facts.repository.tags()],
        "web": facts.repository.address_pattern,
    }  # fmt: skip
    out.text("data/index.js", f"mlxcacheData({script_json(['index', index])});\n")


def _commits(facts: SiteFacts) -> list[list[Any]]:
    """[name, seconds since 1970 or null, subject, its page, 1 where the web has it] in order."""
    return [
        [
            clean(commit.name), commit.date_s, clean(commit.subject), commit_page(commit.name),
            int(bool(facts.repository.address(commit.name))),
        ]
        for commit in facts.commits
    ]  # fmt: skip


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


def _mark(facts: SiteFacts, row: Mapping[str, Any], event: Event) -> list[Any]:
    """What the detector says of a change.

    [first commit after it, magnitude, 1 for a regression, state, address of its page, last commit before it, level
    before, level after, first commit of the level before, last one of the level after]
    """
    start, end = (facts.by_name.get(str(row[name])) for name in ("segment_start", "segment_end"))
    return [
        int(row["after_index"]),
        _number(row["magnitude"], 4),
        int(event.is_regression),
        str(row["state"]),
        f"{event.address}.html",
        int(row["before_index"]),
        _number(row["value_before"], 12),
        _number(row["value_after"], 12),
        start.index if start else int(row["before_index"]),
        end.index if end else int(row["after_index"]),
    ]


def _number(value: Any, digits: int) -> float | None:
    return float(f"{float(value):.{min(digits, 6)}g}") if math.isfinite(value) else None


def _marks(facts: SiteFacts) -> dict[int, list[list[Any]]]:
    return {
        number: [_mark(facts, row, event) for event, row in own] for number, own in facts.events_of_series.items()
    }


class _Packed:
    """All values of the store in the form of the files."""

    def __init__(self, df: pd.DataFrame, store: SeriesStore) -> None:
        self._store = store
        value, low, high = (df[name].to_numpy(np.float64) for name in ("value", "ci99_low", "ci99_high"))
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
