"""Ratios of two values that one run measured, with intervals that the next run keeps.

The samples of one run say how well that run knows its ratio, not what the next one finds: on a shared machine
neighbouring commits differ by far more. An interval here is the wider of the two: the run's own, and what the
same ratios did from commit to commit. With fewer than three runs the second is unknown, and nothing is judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy import stats

from mlxcache.dashboard.data.suite import Place, Rows, benchmarks_with, param_names, sort_key

TOKENS_BY_HEAD_SIZE: Final = "Tokens by head size, context 1024"
LEAST_RUNS: Final = 3
_LEAST_STEPS: Final = 4  # from commit to commit, over all cells, before their spread means anything
_LEVEL: Final = 0.995  # both sides: 99 %
_REFERENCE_OPTION: Final = "host"
_SIDES: Final = ("int32", "int64")
_INTERLEAVED: Final = "int64_over_int32"  # in the name of a benchmark that measures the ratio itself


@dataclass(frozen=True, slots=True)
class Ratio:
    """One value over another.

    low and high are the ends of a 99 % interval of what another run would find, NaN where that is not known.
    """

    ratio: float
    low: float
    high: float
    value: float
    over: float
    unit: str

    @property
    def judged(self) -> bool:
        """Whether there were runs enough to say anything."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def differs(self) -> bool:
        """Whether the interval leaves 1 out."""
        return self.low > 1.0 or self.high < 1.0


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
class Line:
    """Ratios against one numeric parameter: x, and a ratio for each."""

    name: str
    x: tuple[float, ...]
    points: tuple[Ratio, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """Lines of one benchmark on one machine."""

    benchmark: str
    parameter: str
    lines: tuple[Line, ...]


def ratio_of(one: Mapping[str, Any], other: Mapping[str, Any], spread: float = math.nan) -> Ratio:
    """The first value over the second.

    `spread` is half of the interval that runs differ by, on a logarithmic scale; NaN where that is not known,
    and then nothing is judged.
    """
    value, over = float(one["value"]), float(other["value"])
    own = math.hypot(_log_width(one), _log_width(other))
    width = spread if math.isnan(own) else max(own, spread)
    if math.isnan(spread):
        width = math.nan
    ratio = value / over
    return Ratio(ratio, ratio * math.exp(-width), ratio * math.exp(width), value, over, str(one["unit"]))


def _log_width(row: Mapping[str, Any]) -> float:
    value, low, high = float(row["value"]), float(row["ci99_low"]), float(row["ci99_high"])
    if not (0 < low < math.inf and 0 < high < math.inf):
        return math.nan
    return max(math.log(high / value), math.log(value / low), 0.0)


def run_to_run(histories: Iterable[Mapping[int, float]]) -> float:
    """Half of the 99 % interval of another run, from histories that should stay where they are.

    Args:
        histories: logarithms of a ratio by commit index, one mapping for each cell and environment.

    Returns:
        NaN where fewer than three runs are known.
    """
    steps: list[float] = []
    longest = 0
    for history in histories:
        longest = max(longest, len(history))
        values = [history[index] for index in sorted(history)]
        steps += np.diff(values).tolist()
    if longest < LEAST_RUNS or len(steps) < _LEAST_STEPS:
        return math.nan
    sigma = math.sqrt(sum(step * step for step in steps) / len(steps) / 2)
    return float(stats.t.ppf(_LEVEL, len(steps))) * sigma


Cell = tuple[str, ...]


def _pairs(
    rows: Sequence[Mapping[str, Any]], by: str, top: str, bottom: str, names: Sequence[str]
) -> dict[Cell, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Rows that differ in the parameter `by` alone, by the values of the others."""
    sides: dict[str, dict[Cell, Mapping[str, Any]]] = {top: {}, bottom: {}}
    for row in rows:
        side = sides.get(str(row[f"p:{by}"]))
        if side is not None:
            side[tuple(str(row[f"p:{name}"]) for name in names)] = row
    return {key: (row, sides[bottom][key]) for key, row in sides[top].items() if key in sides[bottom]}


def _spread(
    rows: Rows, benchmark: str, machine: str, by: str, top: str, bottom: str, names: Sequence[str]
) -> float:
    """`run_to_run` of all pairs of a benchmark on a machine, whatever the environment."""
    histories: dict[tuple[Any, ...], dict[int, float]] = {}
    for (_, env, index), own in rows.of_machine(benchmark, machine):
        for key, (one, other) in _pairs(own, by, top, bottom, names).items():
            histories.setdefault((env, *key), {})[index] = math.log(one["value"] / other["value"])
    return run_to_run(histories.values())


def _paired(rows: Rows, machine: str, env: str, commit: int) -> Iterator[tuple[str, list[str], dict[Cell, Ratio]]]:
    """Benchmarks that were measured on both paths: name, its other parameters, int64 over int32."""
    for benchmark in benchmarks_with(rows.df, "path"):
        names = [name for name in param_names(rows.df, benchmark) if name != "path"]
        here = rows.at(benchmark, machine, env, commit)
        if "option" in names or {row["unit"] for row in here} == {"ratio"}:
            continue  # a ratio of ratios answers nothing
        pairs = _pairs(here, "path", "int64", "int32", names)
        if pairs:
            spread = _spread(rows, benchmark, machine, "path", "int64", "int32", names)
            yield benchmark, names, {key: ratio_of(one, other, spread) for key, (one, other) in pairs.items()}


def pair_ratios(
    rows: Rows, benchmark: str, by: str, top: str, bottom: str, at: Place
) -> list[tuple[dict[str, str], Ratio]]:
    """What `top` takes over `bottom`, two values of the parameter `by`, for each set of the other parameters."""
    names = [name for name in param_names(rows.df, benchmark) if name != by]
    spread = _spread(rows, benchmark, at[0], by, top, bottom, names)
    pairs = _pairs(rows.at(benchmark, *at), by, top, bottom, names)
    return [
        (dict(zip(names, key, strict=True)), ratio_of(one, other, spread)) for key, (one, other) in pairs.items()
    ]


def path_maps(rows: Rows, machine: str, env: str, commit_index: int) -> list[HeatMap]:
    """int64 over int32 at one commit: tokens by head size over all steps, then each benchmark by itself."""
    found: list[HeatMap] = []
    combined: dict[tuple[str, str], Ratio] = {}
    for benchmark, names, cells in _paired(rows, machine, env, commit_index):
        if "head_dim" in names and ("context" in names) != ("tokens" in names):
            for key, ratio in cells.items():
                values = dict(zip(names, key, strict=True))
                if values.get("context", "1024") == "1024":
                    combined[values.get("tokens", "1"), values["head_dim"]] = ratio
        found += _maps_of(benchmark, names, cells)
    if len({row for row, _ in combined}) > 1:
        found.insert(0, heat_map(TOKENS_BY_HEAD_SIZE, "tokens", "head size", combined.items()))
    return found


def path_ratios(rows: Rows, machine: str, env: str, commit_index: int) -> list[tuple[str, str, Ratio]]:
    """int64 over int32 at one commit, as benchmark, other parameters, ratio."""
    return [
        (benchmark, " ".join(f"{name}={value}" for name, value in zip(names, key, strict=True)), ratio)
        for benchmark, names, cells in _paired(rows, machine, env, commit_index)
        for key, ratio in cells.items()
    ]


def path_pictures(rows: Rows, machine: str, env: str, commit_index: int) -> list[Picture]:
    """int64 over int32 against a numeric parameter, a line for each value of the others; context comes first."""
    found: list[Picture] = []
    for benchmark, names, cells in _paired(rows, machine, env, commit_index):
        for parameter in ("context", "tokens"):
            if parameter not in names:
                continue
            at = names.index(parameter)
            lines: dict[Cell, dict[float, Ratio]] = {}
            for key, ratio in cells.items():
                try:
                    lines.setdefault(key[:at] + key[at + 1 :], {})[float(key[at])] = ratio
                except ValueError:
                    continue
            rest = names[:at] + names[at + 1 :]
            drawn = [
                Line(
                    " ".join(f"{name}={value}" for name, value in zip(rest, fixed, strict=True)),
                    tuple(sorted(points)),
                    tuple(points[x] for x in sorted(points)),
                )
                for fixed, points in sorted(lines.items(), key=lambda item: [sort_key(word) for word in item[0]])
                if len(points) > 1
            ]
            if drawn and len(drawn[0].x) > 1:
                found.append(Picture(benchmark, parameter, tuple(drawn)))
                break
    return sorted(
        found, key=lambda p: (p.parameter != "context", not p.benchmark.startswith("decode"), p.benchmark)
    )


def interleaved(rows: Rows, machine: str, env: str, commit_index: int) -> list[tuple[str, str, Ratio]]:
    """Benchmarks that take both paths in turn and report the ratio itself: name, parameters, the ratio."""
    found = []
    for benchmark in map(str, rows.df["benchmark"].unique()):
        if _INTERLEAVED not in benchmark:
            continue
        names = list(param_names(rows.df, benchmark))
        histories: dict[tuple[Any, ...], dict[int, float]] = {}
        for (_, own_env, index), own in rows.of_machine(benchmark, machine):
            for row in own:
                key = (own_env, *(row[f"p:{name}"] for name in names))
                histories.setdefault(key, {})[index] = math.log(row["value"])
        spread = run_to_run(histories.values())
        for row in rows.at(benchmark, machine, env, commit_index):
            certain = {"value": 1.0, "ci99_low": 1.0, "ci99_high": 1.0}
            text = " ".join(f"{name}={row[f'p:{name}']}" for name in names)
            found.append(
                (benchmark, text, replace(ratio_of({**row, "unit": "ratio"}, certain, spread), over=math.nan))
            )
    return found


def heat_map(
    title: str, row_name: str, column_name: str, cells: Iterable[tuple[tuple[str, str], Ratio]]
) -> HeatMap:
    """A heat map of the cells, rows and columns in the order of their numbers."""
    table = dict(cells)
    rows = sorted({row for row, _ in table}, key=sort_key)
    columns = sorted({column for _, column in table}, key=sort_key)
    return HeatMap(title, row_name, column_name, tuple(rows), tuple(columns), table)


def _maps_of(benchmark: str, names: list[str], cells: Mapping[Cell, Ratio]) -> list[HeatMap]:
    """Two parameters span a map; each combination of further ones has its own."""
    groups: dict[Cell, dict[tuple[str, str], Ratio]] = {}
    for key, ratio in cells.items():
        padded = (*key, "", "")
        groups.setdefault(key[2:], {})[padded[1] if len(key) > 1 else "", padded[0]] = ratio
    row_name = names[1] if len(names) > 1 else ""
    column_name = names[0] if names else ""
    maps = []
    for rest, table in groups.items():
        more = " ".join(f"{name}={value}" for name, value in zip(names[2:], rest, strict=True))
        maps.append(heat_map(f"{benchmark}{f' {more}' if more else ''}", row_name, column_name, table.items()))
    return maps


def option_maps(rows: Rows, machine: str, env: str, commit_index: int) -> list[HeatMap]:
    """Each option over the one that the cache uses, for each path."""
    found = []
    for benchmark in benchmarks_with(rows.df, "option", "path"):
        here = rows.at(benchmark, machine, env, commit_index)
        others = [name for name in param_names(rows.df, benchmark) if name not in ("option", "path")]
        for path in sorted({str(row["p:path"]) for row in here}):
            cells = {}
            for option in dict.fromkeys(str(row["p:option"]) for row in here if row["p:path"] == path):
                at = (machine, env, commit_index)
                for values, ratio in pair_ratios(rows, benchmark, "option", option, _REFERENCE_OPTION, at):
                    if values.get("path") == path:
                        cells[", ".join(values[name] for name in others), option] = ratio
            if cells:
                found.append(heat_map(f"{path} positions", ", ".join(others), "option", cells.items()))
    return found
