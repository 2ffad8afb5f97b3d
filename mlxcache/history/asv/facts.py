"""What stands beside asv's results: machine.json, benchmarks.json, and what names and parameters tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mlxcache.history.asv.columns import are_params
from mlxcache.history.asv.json_text import UNREADABLE, Fault, Json, decode, flat, is_clean, kind, readable, show
from mlxcache.support.regular_file import read_regular


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What benchmarks.json says of one benchmark.

    `facts` is its whole entry, what is nested in it in words (see `json_text.flat`).
    """

    name: str
    unit: str
    type: str
    version: str
    param_names: tuple[str, ...]
    pretty_name: str
    facts: Mapping[str, Json]
    params: tuple[tuple[str, ...], ...] = ()  # the values that its present version takes, by parameter


def read_machine(path: Path) -> tuple[dict[str, Json], list[Fault]]:
    """A machine folder's machine.json; an empty dict and the reason if it is missing, null or damaged."""
    document, faults = _read_object(path)
    if document is None:
        return {}, faults
    if not isinstance(document.get("machine"), str) or not document["machine"]:
        shown = show(document.get("machine"))
        faults.append(Fault("", f'"machine" is {shown}, expected a name: ignored'))
    elif not is_clean(document["machine"]):
        # Every file of the folder would be said to be of another machine.
        faults.append(Fault("", '"machine" is damaged text: ignored'))
        del document["machine"]
    return flat(document), faults


def read_benchmarks(path: Path) -> tuple[dict[str, Benchmark], list[Fault]]:
    """A results folder's benchmarks.json by benchmark name; unusable entries are reported and left out."""
    document, faults = _read_object(path)
    found: dict[str, Benchmark] = {}
    for name, entry in (document or {}).items():
        if name == "version" and not isinstance(entry, dict):
            continue  # the format's own version
        if not isinstance(entry, dict):
            faults.append(Fault(readable(name), f"{show(entry)}, expected an object: ignored"))
            continue
        names = entry.get("param_names")
        if names is not None and not are_params([names]):
            reason = f'"param_names" is {show(names)}, expected a list of strings: ignored'
            faults.append(Fault(readable(name), reason))
            names = None
        if not is_clean(name):
            faults.append(Fault(readable(name), "its name is damaged text: ignored"))
            continue
        choices: Any = entry.get("params")
        found[name] = Benchmark(
            name=name,
            unit=_text(entry, "unit"),
            type=_text(entry, "type"),
            version=_text(entry, "version"),
            param_names=tuple(map(readable, names or ())),
            pretty_name=_text(entry, "pretty_name"),
            facts=flat(entry),
            params=tuple(map(tuple, choices)) if are_params(choices) else (),
        )
    return found, faults


def _read_object(path: Path) -> tuple[dict[str, Json] | None, list[Fault]]:
    try:
        data = read_regular(path)
    except OSError as error:
        return None, [Fault("", f"cannot be read: {error.strerror or error}")]
    document, _, faults = decode(data)
    if document is UNREADABLE:
        return None, faults
    if not isinstance(document, dict):
        return None, [*faults, Fault("", f"{kind(document)}, expected an object")]
    return document, faults


def _text(entry: Mapping[str, Json], key: str) -> str:
    value = entry.get(key)
    return readable(value) if isinstance(value, str) else ""


def default_unit(benchmark: str) -> str:
    """The unit that asv gives a benchmark by its name, "" if the name tells nothing."""
    last = benchmark.rpartition(".")[2]
    return _UNITS.get(last.partition("_")[0], "") if "_" in last else ""


# The last one is ours, see `mlxcache.counters`: a run without counts leaves them out of benchmarks.json.
_UNITS: Final = {
    "time": "seconds",
    "timeraw": "seconds",
    "peakmem": "bytes",
    "mem": "bytes",
    "track": "unit",
    "count": "instructions",
}


_ADDRESS: Final = re.compile(r" at 0x[0-9A-Fa-f]+(?=>)")


def stable_params(params: Iterable[Iterable[str]]) -> list[list[str]]:
    """Parameter values without memory addresses, which change with every run and would split the series.

    Values that only an address told apart are numbered: "<f> (0)", "<f> (1)".
    """
    result = []
    for choices in params:
        plain = [_ADDRESS.sub("", value) for value in choices]
        if len(set(plain)) < len(plain):
            total = {value: plain.count(value) for value in plain}
            seen: dict[str, int] = {}
            for index, value in enumerate(plain):
                if total[value] > 1:
                    plain[index] = f"{value} ({seen.setdefault(value, 0)})"
                    seen[value] += 1
        result.append(plain)
    return result
