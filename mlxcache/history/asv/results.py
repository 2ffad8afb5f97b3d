"""Reads asv's own JSON files, of every format there has been, into columns.

Nothing in here raises on what a file contains. What cannot be used becomes a `Fault` that says which row,
why, and how many values are missing because of it; what is around it is kept.

    results file  format 2: "results" holds a list a benchmark, its cells named once by "result_columns"
                  format 1: "results" holds a number, null or {"result", "params", "stats"} a benchmark
    value         a number; null where the benchmark failed; NaN where it was skipped
"""

from __future__ import annotations

import re
from typing import Final

from mlxcache.history.asv.columns import Builder, Head, ParsedFile, count_values
from mlxcache.history.asv.json_text import (
    UNREADABLE,
    Json,
    decode,
    flat,
    is_clean,
    kind,
    may_repeat_keys,
    readable,
    repeated_keys,
    show,
)

# 10^15 ms is the year 33,658: a date beyond it is damage.
MAX_DATE_MS: Final = 10**15

_STATS: Final = ("stats_ci_99_a", "stats_ci_99_b", "stats_repeat", "stats_q_25", "stats_q_75")
# the order of Builder.add's arguments after the benchmark's name
_USED: Final = ("result", "params", "version", "started_at", "duration", *_STATS, "samples")
_KNOWN: Final = frozenset({*_USED, "stats_number", "profile"})
_HASH_NAME: Final = re.compile(r"([0-9a-f]{7,40})-(.+)")


def parse_results(data: bytes, filename: str, *, spread: bool = False) -> ParsedFile:
    """Read the bytes of one results file.

    Args:
        data: the file's content.
        filename: its name without the folder, `<commit prefix>-<environment>.json` in asv's scheme; used
            where the content itself names no commit or environment.
        spread: read quartiles and samples as well.

    A file that is not usable as a whole comes back with no values and a fault for the file.
    """
    document, suspect, faults = decode(data)
    builder = Builder(spread)
    builder.faults += faults
    if document is UNREADABLE:
        return builder.finish(Head())
    if not isinstance(document, dict) or not isinstance(document.get("results"), dict):
        found = sorted(document)[:5] if isinstance(document, dict) else kind(document)
        builder.fault("", f'not an asv results file: expected an object with "results", got {found}')
        return builder.finish(Head())
    head, fatal = _read_head(document, filename, builder)
    _read_rows(document, builder, head)
    if may_repeat_keys(data, document):
        _report_repeated(data, builder)
    if suspect:
        builder.drop_damaged_text()
    if fatal:
        builder.discard(fatal)
        head = Head()  # it names no place either
    return builder.finish(head)


def _report_repeated(data: bytes, builder: Builder) -> None:
    """Name what an object holds twice, and how many values went with the one that was not kept."""
    document, dropped = repeated_keys(data)
    for owner, key, value in dropped:
        if owner is document.get("results"):
            reason = "twice in this file: the last one is used"
            builder.fault(key, reason, _values_in_row(value, document.get("result_columns")))
        else:
            lost = value if owner is document and key == "results" and isinstance(value, dict) else {}
            n = sum(_values_in_row(row, document.get("result_columns")) for row in lost.values())
            builder.fault("", f'"{key}" is in one object twice: the last one is used', n)


def _values_in_row(row: Json, columns: Json) -> int:
    if type(row) is dict:
        return count_values(row.get("result"), row.get("params"))
    if type(row) is not list or not isinstance(columns, list):
        return count_values(row, None)
    cells = dict(zip(map(str, columns), row, strict=False))
    return count_values(cells.get("result"), cells.get("params"))


def _read_head(document: dict[str, Json], filename: str, builder: Builder) -> tuple[Head, str]:
    """The file's facts; the second item is the reason when they leave its values without a place."""
    head = Head()
    named = _HASH_NAME.fullmatch(filename.removesuffix(".json"))

    api_version = document.get("version")
    if isinstance(api_version, int) and api_version in (1, 2):
        head.api_version = api_version
    else:
        head.api_version = 2 if "result_columns" in document else 1
        builder.fault("", f'"version" is {show(api_version)}, expected 1 or 2: read as {head.api_version}')

    commit = document.get("commit_hash")
    if isinstance(commit, str) and commit.strip():
        head.commit = commit.strip()
    elif named:
        head.commit = named[1]
        builder.fault("", f'"commit_hash" is {show(commit)}: the file name\'s {named[1]} is used')
    env = document.get("env_name")
    if isinstance(env, str) and env:
        head.env = env
    elif named:
        head.env = named[2]
        if "env_name" in document or head.api_version > 1:  # early files had none
            builder.fault("", f'"env_name" is {show(env)}: the file name\'s {named[2]!r} is used')
    python = document.get("python")
    head.python = readable(python) if isinstance(python, str) else ""

    date = document.get("date")
    if isinstance(date, int | float) and abs(date) < MAX_DATE_MS:  # false for NaN
        head.date_ms = int(date)
    else:
        builder.fault("", f'"date" is {show(date)}, expected milliseconds since 1970: no date')

    for key, wanted in (("params", True), ("env_vars", False), ("durations", False)):
        value = document.get(key)
        if isinstance(value, dict):
            setattr(head, key, flat(value))
        elif wanted or value is not None:
            builder.fault("", f'"{key}" is {show(value)}, expected an object: ignored')
    requirements = document.get("requirements")
    if isinstance(requirements, list):  # as early files had them
        requirements = {name: "" for name in requirements if isinstance(name, str)}
    head.requirements = flat(requirements) if isinstance(requirements, dict) else {}
    params = document.get("params")
    machine = params.get("machine") if isinstance(params, dict) else None
    head.machine = machine if isinstance(machine, str) else ""

    if not head.commit:
        return head, f'"commit_hash" is {show(commit)} and the file name holds none either'
    if not head.env:
        return head, f'"env_name" is {show(env)} and the file name holds none either'
    if any(not is_clean(text) for text in (head.commit, head.env, head.machine)):
        return head, "its commit, environment or machine is damaged text"
    return head, ""


def _read_rows(document: dict[str, Json], builder: Builder, head: Head) -> None:
    columns = document.get("result_columns")
    positions: dict[str, int] = {}
    if isinstance(columns, list):
        for position, column in enumerate(columns):
            if not isinstance(column, str) or column not in _KNOWN:
                builder.fault("", f'"result_columns" names {show(column)}, which is not known: ignored')
            elif column in positions:
                builder.fault("", f'"result_columns" names {column!r} twice: the first is used')
            else:
                positions[column] = position
    elif head.api_version == 2 or columns is not None:
        builder.fault("", f'"result_columns" is {show(columns)}, expected a list of names')

    width = len(columns) if isinstance(columns, list) else 0
    order = [positions.get(name, -1) for name in _USED]
    versions, started, durations = (
        found if isinstance(found := document.get(key), dict) else {}
        for key in ("benchmark_version", "started_at", "duration")
    )
    for name, row in document["results"].items():
        if type(row) is list and positions:
            if len(row) > width:
                builder.fault(name, f"{len(row)} cells, expected at most {width}: the rest is ignored")
            length = len(row)
            cells = [row[i] if 0 <= i < length else None for i in order]
            if order[0] < 0:
                builder.fault(name, 'no "result" among "result_columns"', count_values(None, cells[1]))
            else:
                builder.add(name, *cells)
            continue
        when = (started.get(name), durations.get(name))
        version = versions.get(name)
        if type(row) is dict:
            _read_object_row(name, row, version, when, builder)
        elif type(row) is list and head.api_version == 2:
            lost = count_values(row[0], row[1] if len(row) > 1 else None) if row else 0
            builder.fault(name, "its cells have no names", lost)
        elif type(row) is list:
            builder.add(name, row, None, version, *when)
        else:
            builder.add(name, [row], None, version, *when)


def _read_object_row(
    name: str, row: dict[str, Json], version: Json, when: tuple[Json, Json], builder: Builder
) -> None:
    """One row of format 1: {"result", "params", "samples", "stats": [{"ci_99": [low, high], ...}, ...]}."""
    if "result" not in row:
        builder.fault(name, f'no "result" in it, got {sorted(row)[:5]}', count_values(None, row.get("params")))
        return
    result = row["result"]
    if result is not None and type(result) is not list:
        result = [result]
    stats = row.get("stats")
    if isinstance(stats, dict):
        stats = [stats]
    columns: dict[str, list[Json]] = {}
    if isinstance(stats, list):
        if all(entry is None or isinstance(entry, dict) for entry in stats):
            entries = [entry or {} for entry in stats]
            intervals = [entry.get("ci_99") for entry in entries]
            pairs = [pair if isinstance(pair, list) and len(pair) == 2 else [None, None] for pair in intervals]
            if any(pair is not None and pair is not used for pair, used in zip(intervals, pairs, strict=True)):
                builder.fault(name, '"ci_99" is not a pair of numbers: ignored')
            columns = {
                "ci_low": [low for low, _ in pairs],
                "ci_high": [high for _, high in pairs],
                "n_samples": [entry.get("repeat", entry.get("n")) for entry in entries],
                "q_25": [entry.get("q_25") for entry in entries],
                "q_75": [entry.get("q_75") for entry in entries],
            }
        else:
            builder.fault(name, '"stats" holds something else than objects: ignored')
    elif stats is not None:
        builder.fault(name, f'"stats" is {show(stats)}, expected a list of objects: ignored')
    builder.add(name, result, row.get("params"), version, *when, samples=row.get("samples"), **columns)
