"""Makes small asv result trees for the tests, through asv's own layout but with no code of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLUMNS = [
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b",
    "stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
]  # fmt: skip


def commit(number: int) -> str:
    """A full hash that tells which commit of the test it is."""
    return f"{number:08x}" + "c" * 32


def row(
    result: Any,
    params: Sequence[Sequence[str]] = (),
    version: str | None = "v1",
    *,
    samples: Any = None,
    spread: float = 0.1,
) -> list[Any]:
    """A row of format 2 with an interval of +-`spread` around each number."""
    if not isinstance(result, list):
        return [result, [list(choices) for choices in params], version, 1_700_000_000_000, 1.5]
    values = result
    numbers = [value if isinstance(value, int | float) else None for value in values]

    def around(factor: float) -> list[float | None]:
        return [None if value is None else value * (1 + factor * spread) for value in numbers]

    return [
        result, [list(choices) for choices in params], version, 1_700_000_000_000, 1.5,
        around(-1), around(1), around(-0.5), around(0.5), [1] * len(values), [10] * len(values), samples,
    ]  # fmt: skip


def document(
    rows: Mapping[str, Any],
    *,
    number: int = 1,
    machine: str = "m1",
    env: str = "venv-py3.12",
    date: Any = None,
    **changes: Any,
) -> dict[str, Any]:
    """A results file of format 2 as asv would have written it, with top-level `changes`."""
    return {
        "commit_hash": commit(number),
        "env_name": env,
        "date": 1_700_000_000_000 + number * 86_400_000 if date is None else date,
        "params": {"machine": machine, "cpu": "Apple M1", "arch": "arm64", "os": "Darwin", "ram": "16"},
        "python": "3.12",
        "requirements": {},
        "env_vars": {},
        "result_columns": list(COLUMNS),
        "results": dict(rows),
        "durations": {"<build>": 2.5},
        "version": 2,
        **changes,
    }


def write_document(root: Path, content: Mapping[str, Any], *, name: str | None = None) -> Path:
    """Put a results file where asv would, with a machine.json beside it; returns its path."""
    machine = content["params"]["machine"]
    folder = root / machine
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "machine.json").exists():
        facts = {**content["params"], "version": 1}
        (folder / "machine.json").write_text(json.dumps(facts))
    path = folder / (name or f"{content['commit_hash'][:8]}-{content['env_name']}.json")
    path.write_text(json.dumps(content))
    return path


def write_benchmarks(root: Path, entries: Mapping[str, Mapping[str, Any]]) -> Path:
    """Put benchmarks.json; each entry needs only what the test is about."""
    full = {
        name: {"name": name, "param_names": [], "params": [], "type": "time", "unit": "seconds", **entry}
        for name, entry in entries.items()
    }
    root.mkdir(parents=True, exist_ok=True)
    path = root / "benchmarks.json"
    path.write_text(json.dumps({**full, "version": 2}))
    return path


def write_tree(root: Path, commits: int = 3) -> Path:
    """A tree without faults: two benchmarks, one with two parameters, on `commits` commits."""
    sizes = [["1", "2"], ["'a'", "'b'", "'c'"]]
    write_benchmarks(
        root,
        {
            "mod.time_plain": {"version": "v1"},
            "mod.time_sized": {"version": "v1", "params": sizes, "param_names": ["size", "kind"]},
        },
    )
    for number in range(1, commits + 1):
        rows = {
            "mod.time_plain": row([float(number)]),
            "mod.time_sized": row([number + index / 10 for index in range(6)], sizes),
        }
        write_document(root, document(rows, number=number))
    return root


def count_values(path: Path) -> int:
    """How many values a whole results file holds: the plain way, sharing nothing with the reader."""
    content = json.loads(path.read_text())
    columns = content.get("result_columns")
    total = 0
    for cells in content["results"].values():
        if isinstance(cells, list):
            named = dict(zip(columns, cells, strict=False))
            result, params = named.get("result"), named.get("params")
        elif isinstance(cells, dict):
            result, params = cells["result"], cells.get("params")
        else:
            result, params = [cells], None
        if isinstance(result, list):
            total += len(result)
        elif result is None:
            total += len(list(itertools.product(*(params or []))))
        else:
            total += 1
    return total
