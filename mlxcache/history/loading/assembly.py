"""Puts what was read into the table: one allocation a column, filled file by file in commit order."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlxcache.history.asv.columns import STATUS_NAMES, ParsedFile, Spread
from mlxcache.history.loading.cases import Cases, Codes, Places, code_type
from mlxcache.history.loading.reading import ResultFile
from mlxcache.history.repository.commits import Commit
from mlxcache.support.releases import release_key

Array = npt.NDArray[Any]

# Columns that a file's content gives as they are, and what `ParsedFile` calls them.
_CONTENT: Final = {
    "value": "values",
    "ci99_low": "ci_low",
    "ci99_high": "ci_high",
    "n_samples": "n_samples",
    "status": "status",
}


# What a reader looks for, and what is the same in most rows.
_SHOWN_FIRST: Final = ("benchmark", "params", "value", "unit", "commit", "commit_index", "commit_date")
_SHOWN_LAST: Final = ("machine", "env", "file", "host")


@dataclass(frozen=True, slots=True)
class Extras:
    """Which columns beyond the usual ones the table has."""

    host: bool = False
    samples: bool = False
    quartiles: bool = False
    timing: bool = False
    params: Sequence[str] = ()  # names of parameters that get a column


def assemble(
    files: Sequence[ResultFile], cases: Cases, commits: dict[str, Commit], extras: Extras
) -> pd.DataFrame:
    """The table of all values that the files keep; `commits` is by the names that the files use.

    Takes the values out of the files on the way: a large tree has no memory for both.
    """
    table = _Table(files, cases, commits, extras)
    middle = len(table.files) // 2
    with ThreadPoolExecutor(1) as pool:  # copying needs the interpreter for the least part of its time
        rest = pool.submit(table.fill, range(middle, len(table.files)))
        table.fill(range(middle))
        rest.result()
    return table.frame()


class _Labels:
    """The categories of what is the same for all values of a file."""

    def __init__(self, labels: Iterable[str], *, releases: bool = False) -> None:
        self.names = sorted(set(labels), key=release_key) if releases else sorted(set(labels))
        self.code = {name: code for code, name in enumerate(self.names)}

    def column(self, n: int) -> Array:
        # A single label's codes are all 0, which memory is before anybody touches it.
        return (np.zeros if len(self.names) == 1 else np.empty)(n, code_type(len(self.names)))


class _Table:
    def __init__(
        self, files: Sequence[ResultFile], cases: Cases, commits: dict[str, Commit], extras: Extras
    ) -> None:
        self._cases = cases
        self._commits = commits
        self._extras = extras
        self._machines = _Labels(file.kind for file in files)
        self._hosts = _Labels(file.host for file in files)
        self._envs = _Labels(file.parsed.head.env for file in files)
        self._paths = _Labels(file.path for file in files)
        self.files = sorted(files, key=self._rank)
        self._series = _Series([self._rank(file)[1:3] for file in self.files], self.files, cases.rank)
        self._of_case: dict[str, tuple[Codes, Sequence[str]]] = {
            "benchmark": (cases.benchmark, cases.benchmark_names),
            "params": (cases.params, cases.params_names),
            "version": (cases.version, cases.version_names),
            "unit": (cases.unit, cases.unit_names),
        }
        for name in extras.params:
            self._of_case[f"param_{name}"] = (cases.param_codes[name], cases.param_names[name])
        self._releases = {name: _Labels(values, releases=True) for name, values in _releases(self.files).items()}
        self._ends = np.cumsum([len(file) for file in self.files]).tolist()
        self._columns = self._allocate(sum(map(len, files)))

    def _rank(self, file: ResultFile) -> tuple[int, int, int, int]:
        head = file.parsed.head
        return (
            self._commits[head.commit].index,
            self._machines.code[file.kind],
            self._envs.code[head.env],
            self._paths.code[file.path],
        )

    def _allocate(self, n: int) -> dict[str, Array]:
        columns: dict[str, Array] = {
            "machine": self._machines.column(n),
            "commit": np.empty(n, code_type(len(self._commits))),
            "commit_index": np.empty(n, np.int32),
            "commit_date": np.empty(n, "datetime64[s]"),
            "env": self._envs.column(n),
            **{name: labels.column(n) for name, labels in self._releases.items()},
            "benchmark": np.empty(n, self._cases.benchmark.dtype),
        }
        for name, (codes, _) in self._of_case.items():
            if name.startswith("param_"):
                columns[name] = np.empty(n, codes.dtype)
        columns |= {
            "params": np.empty(n, self._cases.params.dtype),
            "version": np.empty(n, self._cases.version.dtype),
            "value": np.empty(n),
            "unit": np.empty(n, self._cases.unit.dtype),
            "ci99_low": np.empty(n),
            "ci99_high": np.empty(n),
            "n_samples": np.empty(n, np.int32),
            "status": np.empty(n, np.int8),
            "series": np.empty(n, np.int32),
            "file": self._paths.column(n),
        }
        if self._extras.host:
            columns["host"] = self._hosts.column(n)
        if self._extras.quartiles:
            columns |= {"q_25": np.empty(n), "q_75": np.empty(n)}
        if self._extras.samples:
            columns["samples"] = np.full(n, None, object)
        if self._extras.timing:
            columns |= {"started_at": np.empty(n, "datetime64[ms]"), "duration": np.empty(n, np.float32)}
        return columns

    def fill(self, indices: Iterable[int]) -> None:
        """Put the values of these files into the columns, and take them out of the files."""
        cases: Places | None = None
        meanings: dict[str, Array] = {}
        for index in indices:
            if self.files[index].cases is not cases:  # files that follow one another mostly share theirs
                cases = self.files[index].cases
                meanings = self._meanings(cases)
            self._fill(index, meanings)

    def _fill(self, index: int, meanings: dict[str, Array]) -> None:
        file = self.files[index]
        parsed, keep = file.parsed, file.keep
        rows = slice(self._ends[index] - len(file), self._ends[index])
        columns = {name: column[rows] for name, column in self._columns.items()}

        commit = self._commits[parsed.head.commit]
        if len(self._machines.names) > 1:
            columns["machine"][:] = self._machines.code[file.kind]
        columns["commit"][:] = commit.index
        columns["commit_index"][:] = commit.index
        columns["commit_date"][:] = _date(commit.date_s)
        if len(self._envs.names) > 1:
            columns["env"][:] = self._envs.code[parsed.head.env]
        own = _releases([file])
        for name, labels in self._releases.items():
            columns[name][:] = labels.code[next(iter(own.get(name, [""])))]
        columns["file"][:] = self._paths.code[file.path]
        if self._extras.host:
            columns["host"][:] = self._hosts.code[file.host]
        for name, codes in meanings.items():
            columns[name][:] = codes if keep is None else codes[keep]
        numbers = self._series.numbers(index)
        columns["series"][:] = numbers if keep is None else numbers[keep]
        for name, source in _CONTENT.items():
            values = getattr(parsed, source)
            columns[name][:] = values if keep is None else values[keep]
        if parsed.spread is not None:
            self._fill_spread(columns, parsed.spread, slice(None) if keep is None else keep)
        if self._extras.timing:
            row = self._cases.row_of_value(parsed.layout)
            row = row if keep is None else row[keep]
            columns["started_at"][:] = _dates_ms(parsed.row_started_ms)[row]
            columns["duration"][:] = parsed.row_duration_s[row]
        file.parsed = _emptied(parsed)

    def _meanings(self, cases: Places) -> dict[str, Array]:
        """What the cases mean, column by column."""
        # No case is out of range, except for -1, which is not kept.
        return {
            name: np.take(codes, cases, mode="clip") if len(codes) else np.zeros(len(cases), codes.dtype)
            for name, (codes, _) in self._of_case.items()
        }

    def _fill_spread(self, columns: dict[str, Array], spread: Spread, keep: slice | npt.NDArray[np.bool_]) -> None:
        if self._extras.quartiles:
            columns["q_25"][:] = spread.q_25[keep]
            columns["q_75"][:] = spread.q_75[keep]
        if self._extras.samples:
            pieces = np.full(len(spread.q_25), None, object)
            for value in np.flatnonzero(np.diff(spread.offsets)).tolist():
                pieces[value] = spread.samples[spread.offsets[value] : spread.offsets[value + 1]]
            columns["samples"][:] = pieces[keep]

    def frame(self) -> pd.DataFrame:
        """The columns as a frame; text columns become categories."""
        ordered = sorted(
            {commit.name: commit for commit in self._commits.values()}.values(), key=lambda c: c.index
        )
        labels: dict[str, Sequence[str]] = {
            "machine": self._machines.names,
            "commit": [commit.name for commit in ordered],
            "env": self._envs.names,
            "status": STATUS_NAMES,
            "file": self._paths.names,
            "host": self._hosts.names,
            **{name: names for name, (_, names) in self._of_case.items()},
            **{name: releases.names for name, releases in self._releases.items()},
        }
        data: dict[str, Any] = {}
        for name in list(self._columns):
            column = self._columns.pop(name)
            param = name.removeprefix("param_") if name.startswith("param_") else ""
            if param in self._cases.param_numbers:
                data[name] = _numbers(column, self._cases.param_numbers[param])
            elif name in labels:
                in_order = name in ("commit", "python") or bool(param) or name.startswith("req_")
                data[name] = _categories(column, list(labels[name]), ordered=in_order, absent=bool(param))
            elif name == "commit_date":
                data[name] = pd.DatetimeIndex(column).as_unit("ms").tz_localize("UTC").array
            else:
                data[name] = column
        shown: list[str] = [name for name in _SHOWN_FIRST if name in data]
        shown += [name for name in data if name not in (*shown, *_SHOWN_LAST)]
        shown += [name for name in _SHOWN_LAST if name in data]
        return pd.DataFrame({name: data[name] for name in shown}, copy=False)


def _numbers(codes: Array, values: Array) -> pd.api.extensions.ExtensionArray:
    """A parameter's numbers, missing where a benchmark has no such parameter."""
    absent = codes < 0
    found: Array = values[np.where(absent, 0, codes)] if len(values) else np.zeros(len(codes), np.int16)
    return (
        pd.arrays.FloatingArray(found, absent)
        if found.dtype.kind == "f"
        else pd.arrays.IntegerArray(found, absent)
    )


def _categories(codes: Array, labels: list[str], *, ordered: bool, absent: bool) -> pd.Categorical:
    """Text as categories; with `absent` what is missing is "", so that grouping keeps its rows."""
    if absent and bool((codes < 0).any()):
        if "" in labels:
            codes = np.where(codes < 0, labels.index(""), codes)
        else:
            labels, codes = ["", *labels], codes.astype(code_type(len(labels) + 1)) + 1
    dtype = pd.CategoricalDtype(pd.Index(labels, dtype="str"), ordered=ordered)
    return pd.Categorical.from_codes(codes, dtype=dtype)


class _Series:
    """Numbers the series of all files, by machine, environment, benchmark, version and parameters."""

    def __init__(self, places: Sequence[tuple[int, int]], files: Sequence[ResultFile], rank: Codes) -> None:
        self._places = places
        self._cases = [file.cases for file in files]
        self._rank = rank
        # Files of one layout share their array of cases, so few have to be looked at.
        layouts: dict[tuple[int, int], dict[int, Places]] = defaultdict(dict)
        for place, cases in zip(places, self._cases, strict=True):
            layouts[place][id(cases)] = cases
        self._present: dict[tuple[int, int], tuple[int, Array]] = {}
        self._known: dict[tuple[tuple[int, int], int], npt.NDArray[np.int32]] = {}
        first = 0
        for place in sorted(layouts):
            seen = np.zeros(len(rank), np.bool_)
            for cases in layouts[place].values():
                seen[rank[cases[cases >= 0]]] = True
            present = np.flatnonzero(seen)
            self._present[place] = (first, present)
            first += len(present)

    def numbers(self, index: int) -> npt.NDArray[np.int32]:
        """The series of each value of the file at that index."""
        place, cases = self._places[index], self._cases[index]
        key = (place, id(cases))
        if key not in self._known:
            first, present = self._present[place]
            # Without any wanted benchmark there is no rank to look up, and no row to keep the number either.
            ranks = self._rank[cases] if len(self._rank) else np.zeros(len(cases), np.int64)
            self._known[key] = (first + np.searchsorted(present, ranks)).astype(np.int32)
        return self._known[key]


def _releases(files: Iterable[ResultFile]) -> dict[str, list[str]]:
    """Column name (`python`, `req_mlx`) to the releases that the files say, "" where one of them says none."""
    found: dict[str, list[str]] = {}
    n = 0
    for n, file in enumerate(files, 1):
        own = {"python": str(file.parsed.head.python or "")}
        for package, release in file.parsed.head.requirements.items():
            own[requirement_column(str(package))] = release if isinstance(release, str) else ""
        for name, release in own.items():
            found.setdefault(name, [""] * (n - 1)).append(release)
        for values in found.values():
            values += [""] * (n - len(values))
    return found


def requirement_column(package: str) -> str:
    """The column of a package's releases: `req_mlx_lm` of asv's "pip+mlx-lm"."""
    return "req_" + re.sub(r"[^0-9A-Za-z]+", "_", package.removeprefix("pip+")).strip("_").lower()


def _date(seconds: int | None) -> np.datetime64:
    return np.datetime64("NaT", "s") if seconds is None else np.datetime64(seconds, "s")


_NOT_A_TIME: Final = np.iinfo(np.int64).min  # what numpy stores for NaT


def _dates_ms(milliseconds: npt.NDArray[np.float64]) -> Array:
    known = np.abs(milliseconds) < 1e15  # false for NaN
    whole = np.where(known, milliseconds, 0).astype(np.int64)
    return np.where(known, whole, _NOT_A_TIME).astype("datetime64[ms]")


def _emptied(parsed: ParsedFile) -> ParsedFile:
    none = np.empty(0)
    counts, status = np.empty(0, np.int32), np.empty(0, np.int8)
    return ParsedFile(parsed.head, b"", none, status, none, none, counts, none, none, [])
