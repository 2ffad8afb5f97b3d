"""PyTorch's benchmark database (hud.pytorch.org), schema v3: one record a series of one commit.

The upload adds when, where and what ran: timestamp, repository, branch, commit, workflow and job. So a file is
about one commit, and it is uploaded by the workflow that measured it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mlxcache.exports.exporter import Asked, OfOneCommit
from mlxcache.exports.selection import Value
from mlxcache.history.loading.history import facts_of

# Parameters that say in which type the benchmark stores or computes.
_TYPES: Final = ("dtype", "kv_dtype", "storage", "quantization")
_KINDS: Final = {"time": "latency", "timeraw": "latency", "peakmem": "peak_memory", "mem": "memory"}


def records(
    values: Sequence[Value], project: str, machines: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """One record for each value; times in microseconds, as the operator benchmarks there have them.

    Args:
        values: one commit's values.
        project: what the benchmark as a whole is called there.
        machines: facts of machine.json by machine, as `History.machines` has them.
    """
    return [_record(value, project, machines.get(value.machine, {})) for value in values]


def as_json(found: Sequence[Mapping[str, Any]]) -> bytes:
    """The file that is uploaded."""
    return (json.dumps(found, indent=1, allow_nan=False) + "\n").encode()


def _record(value: Value, project: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    scale, unit = (1e6, "us") if value.unit == "seconds" else (1.0, value.unit)
    dtype = next((value.param_values[name] for name in _TYPES if name in value.param_values), "")
    extra = {
        "unit": unit,
        "higher_is_better": str(value.higher_better).lower(),
        "n_samples": str(value.n_samples),
    }
    if value.low is not None and value.high is not None:
        extra |= {"ci99_low": repr(value.low * scale), "ci99_high": repr(value.high * scale)}
    return {
        "benchmark": {
            "name": project,
            "mode": "inference",
            "dtype": dtype,
            "extra_info": {"benchmark": value.benchmark, "environment": value.env, "version": value.version}
            | {f"param_{name}": text for name, text in value.param_values.items()},
        },
        "model": {"name": value.name, "type": "micro-benchmark", "backend": "", "origins": [project]},
        "metric": {
            "name": _metric(value.benchmark),
            "unit": unit,
            "benchmark_values": [value.value * scale],
            "target_value": 0.0,
            "extra_info": extra,
        },
        "runners": [_runner(value.machine, facts)],
        "dependencies": {},
    }


def _metric(benchmark: str) -> str:
    kind, _, rest = benchmark.rpartition(".")[2].partition("_")
    return _KINDS.get(kind, rest or kind)


def _runner(machine: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    def number(name: str) -> int:
        text = str(facts.get(name, ""))
        return int(text) if text.isdigit() else 0

    return {
        "name": machine,
        "type": machine,
        "cpu_info": str(facts.get("cpu", "")),
        "cpu_count": number("num_cpu"),
        "avail_mem_in_gb": number("ram") // 2**30,
        "extra_info": {"os": str(facts.get("os", "")), "arch": str(facts.get("arch", ""))},
    }


def _contents(asked: Asked, values: list[Value]) -> dict[Path, bytes]:
    return {asked.out: as_json(records(values, asked.project, facts_of(asked.table).machines))}


EXPORTER: Final = OfOneCommit("pytorch", "one JSON file for PyTorch's benchmark database (schema v3)", _contents)
