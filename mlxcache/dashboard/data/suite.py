"""Tables behind the pages about one question: two paths, peers and limit, cost against size.

They look at names of parameters only, so any suite that has such parameters gets the pages:

    path     with int32 and int64 among its values   -> the two paths (`ratios`)
    option   beside path                             -> options of reading positions (`ratios`)
    cache    with mlxcache and another value           -> peers
    a number with three values or more               -> cost against it
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from mlxcache.history.loading.history import facts_of

PLACE: Final = ["machine", "env", "commit", "commit_index"]
Place = tuple[str, str, int]  # machine, environment, index of the commit
KEEP_COMMITS: Final = 6  # of a machine and environment, the newest
REFERENCE_CACHE: Final = "mlxcache"
_LIMIT_OF: Final = {("tokens", "128"): "chunk", ("tokens", "2048"): "prompt", ("context", "1024"): "decode"}
_SMALLEST_SPAN: Final = 4.0


@dataclass(frozen=True, slots=True)
class Curve:
    """A benchmark's value against one numeric parameter, all others fixed.

    `slope` is in the unit for one more of the parameter; `exponent` 0 means that the cost does not grow, 1 that
    it grows like the parameter. low and high are the ends of the run's own 99 % interval, NaN where it has none;
    `others` are the fixed parameters with their values.
    """

    benchmark: str
    parameter: str
    fixed: str
    unit: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    slope: float
    exponent: float
    others: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """What tells it from all other curves of a commit."""
        return curve_name(self.benchmark, self.parameter, self.fixed)


def curve_name(benchmark: str, parameter: str, fixed: str) -> str:
    """See `Curve.name`."""
    return f"{benchmark}\0{parameter}\0{fixed}"


def param_names(df: pd.DataFrame, benchmark: str) -> tuple[str, ...]:
    """A benchmark's parameters that have a column."""
    known = facts_of(df).benchmarks.get(benchmark)
    names = known.param_names if known is not None else ()
    return tuple(name for name in names if f"param_{name}" in df.columns)


def benchmarks_with(df: pd.DataFrame, *wanted: str) -> list[str]:
    """Measured benchmarks that have all these parameters."""
    if any(f"param_{name}" not in df.columns for name in wanted):
        return []
    measured = set(df["benchmark"].unique())
    candidates = (name for name in facts_of(df).benchmarks if name in measured)
    return [name for name in candidates if set(wanted) <= set(param_names(df, name))]


def rows_of(df: pd.DataFrame, benchmark: str) -> pd.DataFrame:
    """A benchmark's values with its parameters as text columns of their own names."""
    mask = (df["benchmark"] == benchmark).to_numpy() & (df["status"] == "ok").to_numpy()
    names = param_names(df, benchmark)
    part = df.loc[mask, [*PLACE, "value", "ci99_low", "ci99_high", "unit", *(f"param_{name}" for name in names)]]
    part = part.rename(columns={f"param_{name}": f"p:{name}" for name in names})
    for column in ["machine", "env", "commit", "unit", *(f"p:{name}" for name in names)]:
        part[column] = part[column].astype("str")
    fine: pd.DataFrame = part.loc[(np.isfinite(part["value"]) & (part["value"] > 0)).to_numpy()]
    return fine


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A frame's rows as dictionaries."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def newest_commits(frame: pd.DataFrame) -> dict[tuple[str, str], list[int]]:
    """The newest few commits of each machine and environment, newest first."""
    found: dict[tuple[str, str], list[int]] = {}
    for (machine, env), part in frame.groupby(["machine", "env"], sort=True):
        found[str(machine), str(env)] = sorted(set(part["commit_index"].tolist()), reverse=True)[:KEEP_COMMITS]
    return found


def sort_key(text: str) -> tuple[float, str]:
    """Numbers in their order, then words in theirs."""
    try:
        return (float(text), "")
    except ValueError:
        return (math.inf, text)


def is_number(text: str) -> bool:
    """Whether a parameter's text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


class Rows:
    """Each benchmark's rows by place, looked up once for all commits of a table."""

    def __init__(self, df: pd.DataFrame) -> None:
        self.df = df
        self._known: dict[str, dict[Place, list[dict[str, Any]]]] = {}

    def at(self, benchmark: str, machine: str, env: str, commit_index: int) -> list[dict[str, Any]]:
        """As `rows_of` has them, in the table's order."""
        return self._of(benchmark).get((machine, env, commit_index), [])

    def of_machine(self, benchmark: str, machine: str) -> Iterator[tuple[Place, list[dict[str, Any]]]]:
        """All rows of a benchmark on a machine, by place."""
        return ((place, rows) for place, rows in self._of(benchmark).items() if place[0] == machine)

    def _of(self, benchmark: str) -> dict[Place, list[dict[str, Any]]]:
        if benchmark not in self._known:
            places: dict[Place, list[dict[str, Any]]] = {}
            for row in records(rows_of(self.df, benchmark)):
                places.setdefault((row["machine"], row["env"], int(row["commit_index"])), []).append(row)
            self._known[benchmark] = places
        return self._known[benchmark]


@dataclass(frozen=True, slots=True)
class Race:
    """The same work on several caches; `limit` is how long its bytes take at the machine's copy speed, or None."""

    title: str
    benchmark: str
    unit: str
    entries: tuple[tuple[str, float, float, float], ...]  # name, value, low, high
    limit: float | None


def races(rows: Rows, machine: str, env: str, commit_index: int) -> list[Race]:
    """All comparisons of caches at one commit."""
    shares = _limit_shares(rows, machine, env, commit_index)
    found = []
    for benchmark in benchmarks_with(rows.df, "cache"):
        others = [name for name in param_names(rows.df, benchmark) if name != "cache"]
        groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for row in rows.at(benchmark, machine, env, commit_index):
            groups.setdefault(tuple(str(row[f"p:{name}"]) for name in others), []).append(row)
        for values, group in groups.items():
            entries = [
                (str(row["p:cache"]), float(row["value"]), float(row["ci99_low"]), float(row["ci99_high"]))
                for row in sorted(group, key=lambda row: float(row["value"]))
            ]
            own = next((value for name, value, _, _ in entries if name == REFERENCE_CACHE), None)
            if len(entries) < 2 or own is None:
                continue
            kind = next((_LIMIT_OF[key] for key in zip(others, values, strict=False) if key in _LIMIT_OF), "")
            limit = own * shares[kind] if kind in shares and "Ring" not in benchmark else None
            more = " ".join(f"{name}={value}" for name, value in zip(others, values, strict=False))
            title = f"{benchmark}{f' {more}' if more else ''}"
            found.append(Race(title, benchmark, str(group[0]["unit"]), tuple(entries), limit))
    found.sort(key=lambda race: [sort_key(word) for word in race.title.replace("=", " ").split()])
    return found


def _limit_shares(rows: Rows, machine: str, env: str, commit_index: int) -> dict[str, float]:
    """The share of the machine's limit that each kind of step reaches, where that was measured."""
    for benchmark in benchmarks_with(rows.df, "kind"):
        if benchmark.endswith("track_fraction_of_limit"):
            return {
                str(row["p:kind"]): float(row["value"]) for row in rows.at(benchmark, machine, env, commit_index)
            }
    return {}


def curves(
    rows: Rows, machine: str, env: str, commit_index: int, most: int = 400, *, known: Collection[str] = ()
) -> list[Curve]:
    """Every benchmark against every numeric parameter with three values or more that span a factor of four.

    At most so many, less those whose names are `known`.
    """
    df = rows.df
    found: list[Curve | None] = []
    for benchmark in benchmarks_with(df):
        names = param_names(df, benchmark)
        if not names or len(found) >= most:
            continue
        part = rows.at(benchmark, machine, env, commit_index)
        for name in names:
            texts = {row[f"p:{name}"] for row in part}
            numbers = sorted(float(text) for text in texts if is_number(text) and float(text) > 0)
            if len(numbers) < 3 or len(numbers) < len(texts) or numbers[-1] < _SMALLEST_SPAN * numbers[0]:
                continue
            others = [other for other in names if other != name]
            groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
            for row in part:
                groups.setdefault(tuple(row[f"p:{other}"] for other in others), []).append(row)
            for fixed, group in groups.items():
                # Where a row lacks a parameter, it is of another shape of the benchmark.
                if len(group) < 3 or not all(isinstance(value, str) for value in fixed):
                    continue
                pairs = tuple(zip(others, map(str, fixed), strict=True))
                label = " ".join(f"{other}={value}" for other, value in pairs)
                wanted = curve_name(benchmark, name, label) not in known
                found.append(_curve(benchmark, name, label, pairs, group) if wanted else None)
    return [curve for curve in found[:most] if curve is not None]


def _curve(
    benchmark: str, name: str, label: str, others: tuple[tuple[str, str], ...], rows: Sequence[Mapping[str, Any]]
) -> Curve:
    points = sorted(
        (float(row[f"p:{name}"]), float(row["value"]), float(row["ci99_low"]), float(row["ci99_high"]))
        for row in rows
    )
    x, y, low, high = np.array(points).T
    slope = float(np.polyfit(x, y, 1)[0])
    exponent = float(np.polyfit(np.log(x), np.log(y), 1)[0])
    ends = (tuple(x.tolist()), tuple(y.tolist()), tuple(low.tolist()), tuple(high.tolist()))
    return Curve(benchmark, name, label, str(rows[0]["unit"]), *ends, slope, exponent, others)
