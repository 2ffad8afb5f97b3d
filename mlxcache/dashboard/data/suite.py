"""Tables behind the pages about one question: two paths, peers and limit, cost against size.

They look at names of parameters only, so any suite that has such parameters gets the pages:

    path     with int32 and int64 among its values   -> the two paths
    option   beside path                             -> options of reading positions
    cache    with mlxcache and another value           -> peers
    a number with three values or more               -> cost against it
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from mlxcache.history.loading.history import facts_of

PLACE: Final = ["machine", "env", "commit", "commit_index"]
TOKENS_BY_HEAD_SIZE: Final = "Tokens by head size"
KEEP_COMMITS: Final = 6  # of a machine and environment, the newest
REFERENCE_CACHE: Final = "mlxcache"
_REFERENCE_OPTION: Final = "host"
_LIMIT_OF: Final = {("tokens", "128"): "chunk", ("tokens", "2048"): "prompt", ("context", "1024"): "decode"}
_SMALLEST_SPAN: Final = 4.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """One value over another, with an interval (NaN where a value has none)."""

    ratio: float
    low: float
    high: float
    value: float
    over: float
    unit: str

    @property
    def differs(self) -> bool:
        """Whether the interval leaves 1 out."""
        return self.low > 1.0 or self.high < 1.0

    @property
    def may_be_one(self) -> bool:
        """Whether the interval holds 1; not known without an interval."""
        return self.low <= 1.0 <= self.high


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Ratios over two parameters; both lists of names are in the order of their numbers."""

    title: str
    row_name: str
    column_name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], Ratio]


@dataclass(frozen=True, slots=True)
class Curve:
    """A benchmark's value against one numeric parameter, all others fixed.

    `slope` is in the unit for one more of the parameter; `exponent` 0 means that the cost does not grow, 1 that
    it grows like the parameter.
    """

    benchmark: str
    parameter: str
    fixed: str
    unit: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    slope: float
    exponent: float

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
    part = df.loc[mask, [*PLACE, "value", "ci_low", "ci_high", "unit", *(f"param_{name}" for name in names)]]
    part = part.rename(columns={f"param_{name}": f"p:{name}" for name in names})
    for column in ["machine", "env", "commit", "unit", *(f"p:{name}" for name in names)]:
        part[column] = part[column].astype("str")
    fine: pd.DataFrame = part.loc[(np.isfinite(part["value"]) & (part["value"] > 0)).to_numpy()]
    return fine


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def newest_commits(frame: pd.DataFrame) -> dict[tuple[str, str], list[int]]:
    """The newest few commits of each machine and environment, newest first."""
    found: dict[tuple[str, str], list[int]] = {}
    for (machine, env), part in frame.groupby(["machine", "env"], sort=True):
        found[str(machine), str(env)] = sorted(set(part["commit_index"].tolist()), reverse=True)[:KEEP_COMMITS]
    return found


def ratio_of(one: Mapping[str, Any], other: Mapping[str, Any]) -> Ratio:
    """The first value over the second; both intervals are widths on a logarithmic scale, added in squares."""
    value, over = float(one["value"]), float(other["value"])
    width = math.hypot(_log_width(one), _log_width(other))
    ratio = value / over
    return Ratio(ratio, ratio * math.exp(-width), ratio * math.exp(width), value, over, str(one["unit"]))


def _log_width(row: Mapping[str, Any]) -> float:
    value, low, high = float(row["value"]), float(row["ci_low"]), float(row["ci_high"])
    if not (0 < low < math.inf and 0 < high < math.inf):
        return math.nan
    return max(math.log(high / value), math.log(value / low), 0.0)


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


def heat_map(
    title: str, row_name: str, column_name: str, cells: Iterable[tuple[tuple[str, str], Ratio]]
) -> HeatMap:
    """A heat map of the cells, rows and columns in the order of their numbers."""
    table = dict(cells)
    rows = sorted({row for row, _ in table}, key=sort_key)
    columns = sorted({column for _, column in table}, key=sort_key)
    return HeatMap(title, row_name, column_name, tuple(rows), tuple(columns), table)


def path_maps(df: pd.DataFrame, machine: str, env: str, commit_index: int) -> list[HeatMap]:
    """int64 over int32 at one commit: tokens by head size over all steps, then each benchmark by itself."""
    found: list[HeatMap] = []
    combined: dict[tuple[str, str], Ratio] = {}
    for benchmark in benchmarks_with(df, "path"):
        names = [name for name in param_names(df, benchmark) if name != "path"]
        if "option" in names:
            continue
        part = _at(rows_of(df, benchmark), machine, env, commit_index)
        if set(part["unit"]) == {"ratio"}:
            continue  # a ratio of ratios answers nothing
        sides = {path: part[part["p:path"] == path] for path in ("int32", "int64")}
        columns = [f"p:{name}" for name in names]
        narrow = {tuple(row[c] for c in columns): row for row in _records(sides["int32"])}
        cells: dict[tuple[str, ...], Ratio] = {}
        for row in _records(sides["int64"]):
            key = tuple(row[c] for c in columns)
            if key in narrow:
                cells[key] = ratio_of(row, narrow[key])
        if not cells:
            continue
        if "head_dim" in names and ("context" in names) != ("tokens" in names):
            for key, ratio in cells.items():
                values = dict(zip(names, key, strict=True))
                if values.get("context", "1024") == "1024":
                    combined[values.get("tokens", "1"), values["head_dim"]] = ratio
        found += _maps_of(benchmark, names, cells)
    if len({row for row, _ in combined}) > 1:
        found.insert(0, heat_map(TOKENS_BY_HEAD_SIZE, "tokens", "head size", combined.items()))
    return found


def _maps_of(benchmark: str, names: list[str], cells: Mapping[tuple[str, ...], Ratio]) -> list[HeatMap]:
    """Two parameters span a map; each combination of further ones has its own."""
    groups: dict[tuple[str, ...], dict[tuple[str, str], Ratio]] = {}
    for key, ratio in cells.items():
        padded = (*key, "", "")
        groups.setdefault(key[2:], {})[padded[1] if len(key) > 1 else "", padded[0]] = ratio
    row_name = names[1] if len(names) > 1 else ""
    column_name = names[0] if names else ""
    maps = []
    for rest, table in groups.items():
        more = ", ".join(f"{name} {value}" for name, value in zip(names[2:], rest, strict=True))
        maps.append(heat_map(f"{benchmark}{f': {more}' if more else ''}", row_name, column_name, table.items()))
    return maps


def option_maps(df: pd.DataFrame, machine: str, env: str, commit_index: int) -> list[HeatMap]:
    """Each option over the one that the cache uses, for each path."""
    found = []
    for benchmark in benchmarks_with(df, "option", "path"):
        part = _at(rows_of(df, benchmark), machine, env, commit_index)
        others = [name for name in param_names(df, benchmark) if name not in ("option", "path")]
        for path, rows in part.groupby("p:path", sort=True):
            cells = {}
            records = _records(rows)
            base = {_rest(row, others): row for row in records if row["p:option"] == _REFERENCE_OPTION}
            for row in records:
                if _rest(row, others) in base:
                    cells[_rest(row, others), row["p:option"]] = ratio_of(row, base[_rest(row, others)])
            if cells:
                found.append(heat_map(f"{path} positions", ", ".join(others), "option", cells.items()))
    return found


def _rest(row: Mapping[str, Any], names: Iterable[str]) -> str:
    return ", ".join(str(row[f"p:{name}"]) for name in names)


def _at(frame: pd.DataFrame, machine: str, env: str, commit_index: int) -> pd.DataFrame:
    return frame[(frame["machine"] == machine) & (frame["env"] == env) & (frame["commit_index"] == commit_index)]


@dataclass(frozen=True, slots=True)
class Race:
    """The same work on several caches; `limit` is how long its bytes take at the machine's copy speed, or None."""

    title: str
    unit: str
    entries: tuple[tuple[str, float, float, float], ...]  # name, value, low, high
    limit: float | None


def races(df: pd.DataFrame, machine: str, env: str, commit_index: int) -> list[Race]:
    """All comparisons of caches at one commit."""
    shares = _limit_shares(df, machine, env, commit_index)
    found = []
    for benchmark in benchmarks_with(df, "cache"):
        part = _at(rows_of(df, benchmark), machine, env, commit_index)
        others = [name for name in param_names(df, benchmark) if name != "cache"]
        for fixed, rows in part.groupby([f"p:{name}" for name in others] or ["unit"], sort=True):
            values = list(map(str, fixed))
            entries = [
                (str(row["p:cache"]), float(row["value"]), float(row["ci_low"]), float(row["ci_high"]))
                for row in rows.sort_values("value").to_dict("records")
            ]
            own = next((value for name, value, _, _ in entries if name == REFERENCE_CACHE), None)
            if len(entries) < 2 or own is None:
                continue
            kind = next((_LIMIT_OF[key] for key in zip(others, values, strict=False) if key in _LIMIT_OF), "")
            limit = own * shares[kind] if kind in shares and "Ring" not in benchmark else None
            more = ", ".join(f"{name} {value}" for name, value in zip(others, values, strict=False))
            title = f"{benchmark}{f': {more}' if more else ''}"
            found.append(Race(title, str(rows["unit"].iloc[0]), tuple(entries), limit))
    found.sort(key=lambda race: [sort_key(word) for word in race.title.replace(",", "").split()])
    return found


def _limit_shares(df: pd.DataFrame, machine: str, env: str, commit_index: int) -> dict[str, float]:
    """The share of the machine's limit that each kind of step reaches, where that was measured."""
    for benchmark in benchmarks_with(df, "kind"):
        if benchmark.endswith("track_fraction_of_limit"):
            part = _at(rows_of(df, benchmark), machine, env, commit_index)
            return dict(zip(part["p:kind"], part["value"].astype(float), strict=True))
    return {}


class Rows:
    """Each benchmark's rows by place, looked up once for all commits of a table."""

    def __init__(self, df: pd.DataFrame) -> None:
        self._df = df
        self._known: dict[str, dict[tuple[str, str, int], list[dict[str, Any]]]] = {}

    def at(self, benchmark: str, machine: str, env: str, commit_index: int) -> list[dict[str, Any]]:
        """As `rows_of` has them, in the table's order."""
        if benchmark not in self._known:
            places: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
            for row in _records(rows_of(self._df, benchmark)):
                places.setdefault((row["machine"], row["env"], int(row["commit_index"])), []).append(row)
            self._known[benchmark] = places
        return self._known[benchmark].get((machine, env, commit_index), [])


def curves(
    df: pd.DataFrame,
    machine: str,
    env: str,
    commit_index: int,
    most: int = 200,
    *,
    rows: Rows | None = None,
    known: Collection[str] = (),
) -> list[Curve]:
    """Every benchmark against every numeric parameter with three values or more that span a factor of four.

    At most so many, less those whose names are `known`. `rows` are those of `df`, to share between commits.
    """
    source = rows or Rows(df)
    found: list[Curve | None] = []
    for benchmark in benchmarks_with(df):
        names = param_names(df, benchmark)
        if not names or len(found) >= most:
            continue
        part = source.at(benchmark, machine, env, commit_index)
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
                label = ", ".join(f"{o} {v}" for o, v in zip(others, fixed, strict=True))
                wanted = curve_name(benchmark, name, label) not in known
                found.append(_curve(benchmark, name, label, group) if wanted else None)
    return [curve for curve in found[:most] if curve is not None]


def _curve(benchmark: str, name: str, label: str, rows: Sequence[Mapping[str, Any]]) -> Curve:
    points = sorted((float(row[f"p:{name}"]), float(row["value"])) for row in rows)
    x, y = np.array([p[0] for p in points]), np.array([p[1] for p in points])
    slope = float(np.polyfit(x, y, 1)[0])
    exponent = float(np.polyfit(np.log(x), np.log(y), 1)[0])
    return Curve(
        benchmark, name, label, str(rows[0]["unit"]), tuple(x.tolist()), tuple(y.tolist()), slope, exponent
    )
