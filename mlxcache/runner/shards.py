"""Splits a suite over several runners so that all of them are done at about the same time.

    mlxcache bench --shard 2/4 HEAD^!

Every runner works the split out by itself: from the suite that asv discovers and from how long each benchmark
took before. Same results tree, same split; so runners that start together must see the same results. Controls
run everywhere, since each runner's machine has a speed of its own.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mlxcache.history.statistics.control import is_control

# More commits than this say nothing new about how long a benchmark takes.
_COMMITS: Final = 30
# What a benchmark is taken to need before anything was measured.
_UNKNOWN_S: Final = 1.0


@dataclass(frozen=True)
class Shard:
    """Part `index` of `count`, counted from 1."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read "2/4". Raises ValueError for anything else."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"--shard: got {text!r}, expected i/n with 1 <= i <= n, such as 2/4")
        return cls(int(match[1]), int(match[2]))


@dataclass(frozen=True)
class Took:
    """How long a benchmark took on one commit, with all its parameters."""

    benchmark: str
    commit: str
    seconds: float
    own: bool  # on the machine that measures now


def known_durations(results: Path, machine: str) -> list[Took]:
    """What stored results say of this machine and of others, each one's oldest commit first."""
    return [
        took for folder in sorted(results.glob("*/")) for took in _read_durations(folder, folder.name == machine)
    ]


def _read_durations(folder: Path, own: bool) -> list[Took]:
    """From the newest files of one machine; what cannot be read is not needed."""
    dated: list[tuple[float, str, list[Took]]] = []
    for path in sorted(folder.glob("*.json")):
        try:
            document: Any = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if not isinstance(document, dict) or not isinstance(document.get("results"), dict):
            continue
        columns = document.get("result_columns")
        if not isinstance(columns, list) or "duration" not in columns:
            continue
        place, commit = columns.index("duration"), str(document.get("commit_hash"))
        took = []
        for name, cells in document["results"].items():
            seconds = cells[place] if isinstance(cells, list) and len(cells) > place else None
            if isinstance(seconds, int | float) and math.isfinite(seconds) and seconds > 0:
                took.append(Took(name, commit, float(seconds), own))
        date = document.get("date")
        dated.append((float(date) if isinstance(date, int | float) else 0.0, path.name, took))
    newest = sorted(dated, key=lambda item: item[:2])[-2 * _COMMITS :]
    return [took for _, _, found in newest for took in found]


def typical(durations: Iterable[Took], without: Sequence[str] = ()) -> dict[str, float]:
    """Each benchmark's median on this machine, or on others where this one never ran it.

    `without` leaves commits out before anything is chosen. Those that are being measured must be: a shard that has
    finished would change the split of the next one.
    """
    found: dict[bool, dict[str, list[float]]] = {True: {}, False: {}}
    for took in durations:
        if took.commit not in without:
            found[took.own].setdefault(took.benchmark, []).append(took.seconds)
    return {name: statistics.median(values[-_COMMITS:]) for name, values in (found[False] | found[True]).items()}


def split(names: Iterable[str], seconds: Mapping[str, float], count: int) -> list[list[str]]:
    """`count` lists of about equal duration with each name in exactly one of them.

    The longest first, each to the list that has least: at most a third above the best split (Graham, 1969).
    What has no duration counts as the median of the others.
    """
    known = [seconds[name] for name in names if name in seconds]
    unknown = statistics.median(known) if known else _UNKNOWN_S
    weighed = sorted(((seconds.get(name, unknown), name) for name in set(names)), key=lambda w: (-w[0], w[1]))
    lists: list[list[str]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for weight, name in weighed:
        place = loads.index(min(loads))
        lists[place].append(name)
        loads[place] += weight
    return [sorted(found) for found in lists]


def choose(names: Sequence[str], shard: Shard, seconds: Mapping[str, float]) -> tuple[list[str], str]:
    """What the shard runs, and a line about it."""
    controls = [name for name in names if is_control(name)]
    others = [name for name in names if not is_control(name)]
    mine = split(others, seconds, shard.count)[shard.index - 1]
    known = sum(name in seconds for name in others)
    about = sum(seconds.get(name, 0.0) for name in mine)
    return sorted([*mine, *controls]), (
        f"shard {shard.index}/{shard.count}: {len(mine)} of {len(others)} benchmarks, about {about:.0f} s, "
        f"and {len(controls)} controls ({known} of {len(others)} durations known)"
    )


def restrict_discovery(
    benchmarks: Any, shard: Shard, durations: Sequence[Took], say: Callable[[str], None]
) -> None:
    """Make asv's `Benchmarks.discover` find only what belongs to the shard; benchmarks.json keeps all."""
    discover = benchmarks.discover.__func__

    def discover_shard(cls: Any, /, conf: Any, repo: Any, environments: Any, commits: Any, **rest: Any) -> Any:
        suite = discover(cls, conf, repo, environments, commits, **rest)
        mine, line = choose(sorted(suite), shard, typical(durations, [str(commit) for commit in commits]))
        say(line)
        return suite.filter_out(set(suite) - set(mine))

    benchmarks.discover = classmethod(discover_shard)
