"""Results trees for the dashboard's tests: steady series, a step, an improvement, names of all kinds."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mlxcache.history import change_points, load

COLUMNS = ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b"]
HOSTILE = [
    "mod.time_<script>alert(1)</script>",
    "mod.time_\"quoted\"_'single'",
    "mod/time_../../etc/slashes",
    "mod.time_\N{ROCKET}\N{SNOWMAN}",
    "mod.time_</script><img src=x onerror=alert(2)>",
    "mod.time_{{ 7 * 7 }}_%{x}_${y}",
    "=cmd|' /C calc'!A0",
    "mod.time_" + "long" * 2500,
]


def commit(number: int) -> str:
    """A full hash that tells which commit of the test it is."""
    return f"{number:08x}" + "d" * 32


def write_file(
    root: Path,
    number: int,
    values: Mapping[str, Any],
    *,
    machine: str = "m1",
    env: str = "venv-py3.12",
    requirements: Mapping[str, str] | None = None,
    params: Mapping[str, Sequence[Sequence[str]]] | None = None,
) -> Path:
    """One results file of format 2; a value None is a failure."""
    rows: dict[str, Any] = {}
    for name, value in values.items():
        results = value if isinstance(value, list) else [value]
        choices = [list(texts) for texts in (params or {}).get(name, [])]
        low, high = ([None if r is None else r * f for r in results] for f in (0.98, 1.02))
        rows[name] = [results, choices, "v1", 1_700_000_000_000, 1.0, low, high]
    content = {
        "commit_hash": commit(number),
        "env_name": env,
        "date": 1_700_000_000_000 + number * 86_400_000,
        "params": {"machine": machine, "cpu": "Test CPU", "os": "Linux", "arch": "x86_64", "ram": "8"},
        "python": "3.12",
        "requirements": dict(requirements or {}),
        "env_vars": {},
        "result_columns": COLUMNS,
        "results": rows,
        "durations": {},
        "version": 2,
    }
    folder = root / machine.replace("/", "_")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machine.json").write_text(json.dumps({**content["params"], "version": 1}))
    path = folder / f"{commit(number)[:8]}-{env.replace('/', '_')}.json"
    path.write_text(json.dumps(content))
    return path


def write_benchmarks(
    root: Path, names: Sequence[str], params: Mapping[str, Mapping[str, Sequence[str]]] | None = None
) -> None:
    """benchmarks.json; `params` is benchmark -> parameter name -> values."""
    entries: dict[str, Any] = {"version": 2}
    for name in names:
        own = (params or {}).get(name, {})
        unit = "bytes" if "mem" in name else "instructions" if "count" in name else "seconds"
        entries[name] = {
            "name": name, "param_names": list(own), "params": [list(v) for v in own.values()], "type": "time",
            "unit": unit, "version": "v1",
        }  # fmt: skip
    root.mkdir(parents=True, exist_ok=True)
    (root / "benchmarks.json").write_text(json.dumps(entries))


STORY = {"step.time_work": {"size": ["10", "1000"]}}


def write_story(root: Path, commits: int = 40) -> Path:
    """A regression of 30 % at commit 20 in two parameter sets, one that recovered, an improvement, a control."""
    noise = random.Random(7)
    write_benchmarks(root, ["step.time_work", "bump.time_work", "gain.time_work", "control.time_spin"], STORY)
    for number in range(commits):
        step = 1.3 if number >= 20 else 1.0
        bump = 1.4 if 10 <= number < 25 else 1.0
        gain = 0.7 if number >= 30 else 1.0

        def near(value: float) -> float:
            return value * (1.0 + 0.004 * noise.gauss(0, 1))

        write_file(
            root,
            number,
            {
                "step.time_work": [near(1e-3 * step), near(2e-2 * step)],
                "bump.time_work": near(5e-4 * bump),
                "gain.time_work": near(3e-6 * gain),
                "control.time_spin": near(1e-2),
            },
            params={"step.time_work": [["10", "1000"]]},
        )
    return root


def write_hostile(root: Path, commits: int = 16) -> Path:
    """Names that try to be markup, paths, formulas and templates, each with a step, at one of two commits.

    All at one commit would be the machine's move.
    """
    write_benchmarks(root, HOSTILE)
    for number in range(commits):
        noise = 1 + 0.001 * (number % 3)
        values = {
            name: 0.001 * noise * (1.5 if number >= commits // 2 + (2 if index % 2 else -2) else 1.0)
            for index, name in enumerate(HOSTILE)
        }
        write_file(root, number, values, machine="<b>m&1</b>", env="env-<i>x</i>")
    return root


ODD = ["odd.time_once", "odd.track_zero_count", "odd.track_negative", "odd.time_gaps", "odd.count_large",
       "odd.time_modes", "odd.time_tiny", "odd.time_broken", "odd.time_ended"]  # fmt: skip


def write_odd(root: Path, commits: int = 40) -> Path:
    """One value, zeros, negatives, gaps, counts of ten digits, two modes, tiny ones, a broken and an ended one."""
    noise = random.Random(11)
    write_benchmarks(root, ODD)
    for number in range(commits):
        near = 1.0 + 0.003 * noise.gauss(0, 1)
        late = number >= commits // 2
        values: dict[str, Any] = {
            "odd.track_zero_count": 0,
            "odd.track_negative": -2.0 * near * (1.4 if late else 1.0),
            "odd.count_large": round(3_626_861_000 * near * (1.08 if late else 1.0)),
            "odd.time_modes": (1e-3 if noise.random() < 0.5 else 1.25e-3) * near,
            "odd.time_tiny": 3e-9 * near,
            "odd.time_broken": None if number >= commits - 4 else 1e-3 * near,
        }
        if number == 3:
            values["odd.time_once"] = 1e-3
        if not 10 <= number < 25:
            values["odd.time_gaps"] = 2e-3 * near
        if number < 10:
            values["odd.time_ended"] = 2e-3 * near
        write_file(root, number if number < 10 else number + 200, values)  # half a year lies between
    return root


# Names as in this project's own suite: pages of their own are made of these.
SUITE = {
    "decode.Decode.time_step": {
        "path": ["'int32'", "'int64'"], "head_dim": ["64", "128"], "context": ["1024", "4096", "32768"],
    },
    "prefill.Prefill.time_chunk": {
        "path": ["'int32'", "'int64'"], "tokens": ["16", "128", "2048"], "head_dim": ["64", "128"],
    },
    "positions.Positions.time_read": {
        "option": ["'host'", "'copy'"], "path": ["'int32'", "'int64'"], "tokens": ["1", "16"],
    },
    "peers.Decode.time_step": {"cache": ["'mlxcache'", "'KVCache'", "'bare'"], "context": ["1024", "4096"]},
    "limits.Limits.track_fraction_of_limit": {"kind": ["'decode'", "'chunk'"]},
}  # fmt: skip


def write_suite(root: Path) -> Path:
    """One commit of a suite like this project's, int64 a tenth slower at one token, on two releases of mlx."""
    write_benchmarks(root, list(SUITE), SUITE)
    params = {name: list(own.values()) for name, own in SUITE.items()}
    decode = [
        1e-4 * (1 if path == "'int32'" else 1.1)
        for path in SUITE["decode.Decode.time_step"]["path"]
        for _ in range(6)
    ]
    prefill = [1e-5 * int(tokens) for _ in range(2) for tokens in ("16", "128", "2048") for _ in range(2)]
    values = {
        "decode.Decode.time_step": decode,
        "prefill.Prefill.time_chunk": prefill,
        "positions.Positions.time_read": [1e-6, 1e-6, 1e-6, 1e-6, 2e-6, 2e-6, 3e-6, 3e-6],
        "peers.Decode.time_step": [1e-4, 1e-4, 2e-4, 4e-4, 0.8e-4, 0.8e-4],
        "limits.Limits.track_fraction_of_limit": [0.25, 0.5],
    }
    for number, version in enumerate(["0.30.6", "0.32.4"]):
        scaled = {name: [value * (1 + number) for value in own] for name, own in values.items()}
        write_file(root, 1, scaled, env=f"venv-mlx{version}", requirements={"pip+mlx": version}, params=params)
    return root


def judged(root: Path, **options: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table of a tree and its changes."""
    df = load(root, cache=False, **options)
    return df, change_points(df, jobs=1)
