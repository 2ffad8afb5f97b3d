"""The explorer's data: an index of all series, and their values in files of a module each.

Pages opened from disk may not fetch, but they may load scripts, so each file is a call that hands over JSON.
Values are packed, since ten thousand series as decimal text would be 300 MB:

    c      a bit for each commit of the table, most significant first
    v      values, one for each bit that is set: 32-bit floats
    l, h   the interval's ends relative to the value, less one: 16-bit floats
    q, s   instead of v for longer series of seconds within a factor of 1,000: where a value lies between the two
           logarithms of s, in 65,535 steps (to 0.005 %, and closer the less the series spans)
    i, j   instead of l and h: logarithms of the ends' distances, 12 steps an octave from 2**-20 (to 3 % of the
           distance); 0 where there is none

all little-endian, as base64. A file holds whole series and about half a megabyte at most.
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
_FEW: Final = 16  # values of a series from which it is packed closer
_SPAN: Final = math.log(1000.0)
_STEPS: Final = 65_535
_AN_OCTAVE: Final = 12
_FINEST: Final = 20  # octaves below the value
_JUDGED: Final = 4  # values from which a series' own spread is known
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
    measured: dict[tuple[int, int], Any] = {}
    parts = _parts(store)
    places = {position: part.path for part in parts for position in part.positions}
    for part in parts:
        _write_file(out, part, packed, store, marks)
    for name, positions in store.by_benchmark.items():
        files = list(dict.fromkeys(places[position] for position in positions))
        series: list[list[Any]] = []
        spreads = _spreads(packed, positions, store)
        for position in positions:
            key = store.keys[position]
            env = environments.setdefault(key.env, len(environments))
            n = int(store.stops[position] - store.starts[position])
            last = max((mark[0] for mark in marks.get(key.number, ())), default=-1)
            values = [clean(value) for _, value in facts.names.pairs(name, key.params)]
            gone = int(key.number in facts.retired)
            number, place = files.index(places[position]), (machines[key.machine], env)
            series.append([key.id, *place, values, n, number, last, gone, spreads[position]])
            counts = measured.setdefault(place, np.zeros(store.n_commits, np.int64))
            counts[packed.columns(position)[0]] += 1
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
        "measured": [
            [*place, [[int(commit), int(counts[commit])] for commit in np.flatnonzero(counts)]]
            for place, counts in measured.items()
        ],
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


def _parts(store: SeriesStore) -> list[_File]:
    """A module's benchmarks together: a comparison loads all of them, and many small files take long."""
    modules: dict[str, list[int]] = {}
    for name, positions in store.by_benchmark.items():
        modules.setdefault(name.partition(".")[0], []).extend(positions)
    found = []
    for module, positions in modules.items():
        parts: list[list[int]] = [[]]
        n = 0
        for position in positions:
            size = int(store.stops[position] - store.starts[position])
            if parts[-1] and n + size > _POINTS_A_FILE:
                parts.append([])
                n = 0
            parts[-1].append(position)
            n += size
        stem = f"data/{slug(module, 40)}-{digest(module)}"
        found += [_File(f"{stem}-{number}.js", part) for number, part in enumerate(parts)]
    return found


def _spreads(packed: _Packed, positions: list[int], store: SeriesStore) -> dict[int, float | None]:
    """How far each series' values differ from commit to commit, in logarithms; its machine's where it is short."""
    steps: dict[int, Any] = {}
    pooled: dict[str, list[Any]] = {}
    with np.errstate(all="ignore"):
        for position in positions:
            own = np.diff(np.log(packed.columns(position)[1].astype(np.float64)))
            steps[position] = own[np.isfinite(own)]
            pooled.setdefault(store.keys[position].machine, []).append(steps[position])
    found: dict[int, float | None] = {}
    for position, own in steps.items():
        few = len(own) < _JUDGED - 1
        sizes = np.abs(np.concatenate(pooled[store.keys[position].machine]) if few else own)
        known = len(sizes) >= _JUDGED - 1
        spread = max(1.4826 / math.sqrt(2.0) * float(np.median(sizes)), 1e-6) if known else math.nan
        found[position] = _number(spread, 3)
    return found


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

    def columns(self, position: int) -> tuple[Any, Any, Any, Any]:
        """Commits of one series, its values, and their intervals' ends relative to them."""
        store = self._store
        start, stop = int(store.starts[position]), int(store.stops[position])
        commits, packed = store.commits[start:stop], self._packed[start:stop]
        values = packed["value"]
        if store.repeats[position]:
            one = store.series(position)
            packed = packed[np.searchsorted(commits, one.commits)]
            commits, values = one.commits, one.values.astype("<f4")
        return commits, values, packed["low"], packed["high"]

    def series(self, position: int) -> str:
        """One series as its file has it, JSON without the closing brace."""
        commits, values, low, high = self.columns(position)
        # Up to its own newest commit, so that a commit more leaves a series as it is that has no value of it.
        bits = np.zeros(int(commits[-1]) + 1, np.bool_)
        bits[commits] = True
        close = len(values) >= _FEW
        found = f'{{"c":"{_text(np.packbits(bits))}",'
        times = close and self._store.keys[position].unit == "seconds"
        found += (times and _steps(values)) or f'"v":"{_text(values)}"'
        if not bool(np.isnan(low).all()):
            found += (close and _octaves(low, high)) or f',"l":"{_text(low)}","h":"{_text(high)}"'
        return found


def _steps(values: Any) -> str:
    """Values in 16 bits each, or "" where they are not all positive and near enough."""
    with np.errstate(all="ignore"):
        logs = np.log(values.astype(np.float64))
    low, high = float(logs.min()), float(logs.max())
    if not high - low < _SPAN:  # NaN and infinities too
        return ""
    steps = np.round((logs - low) / ((high - low) or 1.0) * _STEPS).astype("<u2")
    return f'"s":[{low:.10g},{high:.10g}],"q":"{_text(steps)}"'


def _octaves(low: Any, high: Any) -> str:
    """Ends in 8 bits each, or "" where one is not beyond its value, or too far from it."""
    found = ""
    for name, distances in (("i", -low), ("j", high)):
        known = np.isfinite(distances)
        with np.errstate(all="ignore"):
            places = np.round(_AN_OCTAVE * (np.log2(distances[known].astype(np.float64)) + _FINEST)) + 1.0
        if not (places.min() >= 1 and places.max() <= 255):
            return ""
        octaves = np.zeros(len(distances), np.uint8)
        octaves[known] = places
        found += f',"{name}":"{_text(octaves)}"'
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
