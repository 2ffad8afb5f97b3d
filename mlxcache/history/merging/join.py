"""Joins two results files of one machine, commit and environment, and never changes a value that is there.

Shards of a run hold different benchmarks, or different parameters of one: what a shard did not run is NaN in
it, as what was skipped is. So NaN gives way to a value; anything else that differs is a conflict and stays as
it was.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mlxcache.history.asv.columns import are_params
from mlxcache.history.asv.json_text import Json, show
from mlxcache.support.names import series_name

COLUMNS: Final = (
    "result",
    "params",
    "version",
    "started_at",
    "duration",
    "stats_ci_99_a",
    "stats_ci_99_b",
    "stats_q_25",
    "stats_q_75",
    "stats_number",
    "stats_repeat",
    "samples",
    "profile",
)
_BY_VALUE: Final = frozenset(name for name in COLUMNS if name in ("result", "samples") or name[:6] == "stats_")
_IDENTITY: Final = ("commit_hash", "env_name")
_CIRCUMSTANCES: Final = ("date", "python", "params", "requirements", "env_vars")


class JoinError(ValueError):
    """The two files cannot be joined at all."""


@dataclass(slots=True)
class Joined:
    """The outcome: the joined document, or None if the first file has everything already."""

    document: dict[str, Json] | None = None
    conflicts: list[tuple[str, str, int]] = field(default_factory=list)  # (row, reason, values not taken)
    notes: list[str] = field(default_factory=list)


def join_results(first: dict[str, Json], second: dict[str, Json]) -> Joined:
    """Add to the first document what only the second has.

    Raises:
        JoinError: they are of different commits or environments, or one of them is no results file.
    """
    first, second = to_format_2(first), to_format_2(second)
    for key in _IDENTITY:
        if first.get(key) != second.get(key):
            raise JoinError(f'"{key}" is {show(second.get(key))} here and {show(first.get(key))} there')
    joined = Joined()
    for key in _CIRCUMSTANCES:
        if not same(first.get(key), second.get(key)):
            joined.notes.append(
                f'"{key}" differs: kept as it was ({_difference(first.get(key), second.get(key))})'
            )
    rows, more = _named_rows(first), _named_rows(second)
    changed = False
    for name, row in more.items():
        if name not in rows:
            rows[name] = row
            changed = True
        elif not same(rows[name], row):
            changed |= _join_row(name, rows[name], row, joined)
    durations, more_durations = first.get("durations"), second.get("durations")
    if isinstance(durations, dict) and isinstance(more_durations, dict):
        new = {key: value for key, value in more_durations.items() if key not in durations}
        first["durations"] = {**durations, **new}
        changed |= bool(new)
    if changed:
        first["result_columns"] = list(COLUMNS)
        first["results"] = {name: _cells(row) for name, row in rows.items()}
        joined.document = first
    return joined


def _join_row(name: str, row: dict[str, Json], other: dict[str, Json], joined: Joined) -> bool:
    """Fill the row's gaps from the other; whether there were any."""
    lost = len(other["result"]) if isinstance(other.get("result"), list) else 1
    for key in ("version", "params"):
        mine, theirs = row.get(key), other.get(key)
        if not same(mine, theirs):
            joined.conflicts.append((name, f'"{key}" is {show(theirs)} here and {show(mine)} there', lost))
            return False
    params = row.get("params") or []
    if not are_params(params):
        joined.conflicts.append((name, f'"params" is {show(params)}, expected a list of lists of strings', lost))
        return False
    n = math.prod(map(len, params))
    columns, others = _by_value(row, n), _by_value(other, n)
    if columns is None or others is None:
        where = "there" if columns is None else "here"
        joined.conflicts.append((name, f"its cells {where} do not have {n} values each", lost))
        return False
    taken = False
    for index, combination in enumerate(itertools.product(*params)):
        mine, theirs = columns["result"][index], others["result"][index]
        if same(mine, theirs) or _is_gap(theirs):
            continue
        if not _is_gap(mine):
            label = series_name(name, ", ".join(combination))
            joined.conflicts.append((label, f"{show(theirs)} here and {show(mine)} there", 1))
            continue
        for column, values in columns.items():
            values[index] = others[column][index]
        taken = True
    if taken:
        row.update(columns)
        if isinstance(row.get("duration"), int | float) and isinstance(other.get("duration"), int | float):
            row["duration"] += other["duration"]  # each ran a part of it
        row["profile"] = row.get("profile") or other.get("profile")
    return taken


def _by_value(row: Mapping[str, Json], n: int) -> dict[str, list[Json]] | None:
    """The cells that have an entry a value, in full length; None if one has another length."""
    columns = {}
    for name in _BY_VALUE:
        cell = row.get(name)
        if cell is None:
            columns[name] = [None] * n
        elif isinstance(cell, list) and len(cell) == n:
            columns[name] = list(cell)
        else:
            return None
    return columns


def _is_gap(value: Json) -> bool:
    return isinstance(value, float) and math.isnan(value)


def same(a: Json, b: Json) -> bool:
    """Whether two pieces of JSON say the same, NaN included."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return type(a) is type(b) and bool(a == b) if isinstance(a, bool) or isinstance(b, bool) else bool(a == b)


def _difference(a: Json, b: Json) -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [key for key in {**a, **b} if not same(a.get(key), b.get(key))]
        return ", ".join(f"{key}: {show(b.get(key))} here and {show(a.get(key))} there" for key in keys[:5])
    return f"{show(b)} here and {show(a)} there"


def _named_rows(document: Mapping[str, Json]) -> dict[str, dict[str, Json]]:
    columns = document.get("result_columns")
    results = document.get("results")
    if not isinstance(columns, list) or not isinstance(results, dict):
        raise JoinError(f'expected "result_columns" and "results", got {show(columns)} and {show(results)}')
    unknown = [column for column in columns if column not in COLUMNS]
    if unknown or len(set(columns)) < len(columns):
        raise JoinError(f'"result_columns" has names that are unknown or repeated: {show(unknown[:1] or columns)}')
    rows = {}
    for name, cells in results.items():
        if not isinstance(cells, list) or len(cells) > len(columns):
            raise JoinError(f"row {name} is {show(cells)}, expected a list of at most {len(columns)} cells")
        rows[name] = {column: cell for column, cell in zip(columns, cells, strict=False) if cell is not None}
    return rows


def _cells(row: Mapping[str, Json]) -> list[Json]:
    """The row as asv writes it: a list of nulls is a null, and nulls at the end are left out."""
    cells = []
    for column in COLUMNS:
        cell = row.get(column)
        if column in _BY_VALUE and isinstance(cell, list) and all(value is None for value in cell):
            cell = None
        cells.append(cell)
    while cells and cells[-1] is None:
        cells.pop()
    return cells


def to_format_2(document: dict[str, Json]) -> dict[str, Json]:
    """The document in format 2; one that is already is returned as it is.

    Raises:
        JoinError: it is no results file of format 1.
    """
    if not isinstance(document.get("results"), dict):
        raise JoinError(f'expected an object with "results", got {sorted(document)[:5]}')
    if "result_columns" in document:
        return dict(document)
    versions, started, durations, profiles = (
        found if isinstance(found := document.get(key), dict) else {}
        for key in ("benchmark_version", "started_at", "duration", "profiles")
    )
    results = {}
    for name, old in document["results"].items():
        row = old if isinstance(old, dict) else {"result": [old]}
        result = row.get("result")
        stats = row.get("stats")
        stats = [stats] if isinstance(stats, dict) else stats
        entries = [{} if entry is None else entry for entry in stats] if isinstance(stats, list) else None
        if entries is not None and not all(isinstance(entry, dict) for entry in entries):
            raise JoinError(f'row {name} has "stats" that are not objects')
        new = {
            "result": result if result is None or isinstance(result, list) else [result],
            "params": row.get("params") or [],
            "version": versions.get(name),
            "started_at": started.get(name),
            "duration": durations.get(name),
            "samples": row.get("samples"),
            "profile": profiles.get(name),
        }
        if entries is not None:
            pairs = [pair if isinstance(pair := entry.get("ci_99"), list) else [None, None] for entry in entries]
            if any(len(pair) != 2 for pair in pairs):
                raise JoinError(f'row {name} has a "ci_99" that is not a pair')
            new["stats_ci_99_a"] = [low for low, _ in pairs]
            new["stats_ci_99_b"] = [high for _, high in pairs]
            for key in ("q_25", "q_75", "number", "repeat"):
                new[f"stats_{key}"] = [entry.get(key) for entry in entries]
        results[name] = _cells(new)
    dropped = {"benchmark_version", "started_at", "ended_at", "duration", "profiles"}
    kept = {key: value for key, value in document.items() if key not in dropped}
    others = {key: value for key, value in durations.items() if key.startswith("<")}
    return {
        "env_vars": {},
        **kept,
        "result_columns": list(COLUMNS),
        "results": results,
        "durations": others,
        "version": 2,
    }
