"""All results as one tidy table: a row for each machine, environment, commit, benchmark and parameter set.

    df = load("results", repo=".")
    df[df.benchmark == "pool.Write.time_write"].groupby("series").value.last()

The table may have ten million rows, so text is stored as categories and everything that is the same for all
rows of a file or of a benchmark is worked out once for it and not once a row.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from mlxcache.history.asv_columns import OK, STATUS_NAMES, UNUSABLE, Head, ParsedFile
from mlxcache.history.asv_facts import Benchmark, read_benchmarks, read_machine
from mlxcache.history.cases import Cases
from mlxcache.history.commits import Commit, CommitOrder, order_commits
from mlxcache.history.machines import Rule, as_rules, kind_of
from mlxcache.history.parse_cache import ParseCache, default_folder
from mlxcache.history.problems import Facts, Problem, Problems
from mlxcache.history.progress import progress
from mlxcache.history.tree import MachineFolder, as_roots, find_machine_folders

# More memory than this is not spent on param_ columns unless they are asked for.
PARAM_COLUMNS_BYTES: Final = 256 * 1024**2

Codes = npt.NDArray[np.signedinteger[Any]]
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class Source:
    """One results file of the table, in `df.attrs["sources"]` by the path that the column `file` has."""

    file: str
    machine: str  # as the table has it, rules applied
    host: str  # as the results have it
    head: Head  # environment, python, requirements, env_vars, durations, what the file says of the machine


@dataclass(slots=True)
class _File:
    path: str
    host: str
    kind: str
    parsed: ParsedFile
    codes: Codes  # case of each value
    keep: npt.NDArray[np.bool_] | None = None

    def selected(self) -> int:
        return len(self.codes) if self.keep is None else int(np.count_nonzero(self.keep))


def load(
    results: Paths,
    repo: str | os.PathLike[str] | None = None,
    *,
    samples: bool = False,
    quartiles: bool = False,
    timing: bool = False,
    machine_rules: Iterable[str | Rule] = (),
    branch: str = "HEAD",
    first_parent: bool = True,
    benchmarks: str | re.Pattern[str] | None = None,
    param_columns: bool | Sequence[str] | None = None,
    cache: bool | str | os.PathLike[str] = True,
    show_progress: bool | None = None,
) -> pd.DataFrame:
    """Read asv results of any project and any version of asv.

    Args:
        results: a results folder, a folder above several, one machine's folder, or a list of such.
        repo: the project's repository, which gives the order of commits; None orders them by date.
        samples: add the column `samples`.
        quartiles: add the columns `q_25` and `q_75`.
        timing: add the columns `started_at` and `duration`.
        machine_rules: which machines are one kind, see `mlxcache.history.machines`; none joins any.
        branch: whose history orders the commits.
        first_parent: order by first parents only.
        benchmarks: only benchmarks in whose name this regular expression is found.
        param_columns: which parameters get a column of their own: all (True), none (False), those named, or
            (None) all unless they would take more than 256 MB, in which case there is a notice instead.
        cache: keep parsed files in the default folder (True, see `parse_cache.default_folder`), in this
            folder, or not at all (False).
        show_progress: None shows it where stderr is a terminal.

    Returns:
        One row a value, in commit order, with these columns (text as categories):

        machine       the machine's name, or its kind where a rule says so
        commit        full hash, or what the results say where the repository does not know it; ordered
        commit_index  its rank among the table's commits, oldest 0
        commit_date   author date, UTC
        env           asv's environment name
        benchmark     name
        param_<name>  the parameter's value as people write it ('a' without its quotes), missing where the
                      benchmark has no such parameter
        params        all parameter values as asv stores them, joined by ", "; "" without parameters
        version       of the benchmark's code; "" if neither the result nor benchmarks.json says it
        value         in `unit`; NaN unless status is ok
        unit          "seconds", "bytes" or the benchmark's own; "" if unknown
        ci_low, ci_high   99 % confidence interval as asv computed it, in `unit`; may be infinite
        n_samples     how many samples are behind the value, 0 if asv recorded none
        status        ok, failed or skipped
        series        a number for the machine, environment, benchmark, version and parameters: the rows whose
                      values are comparable; see `series_keys`
        file          where the value is from
        host          (with machine_rules) the machine's own name
        q_25, q_75    (on request) quartiles of the samples, in `unit`
        samples       (on request) all samples as an array, in `unit`; None where none were kept
        started_at, duration  (on request) when the benchmark ran, UTC, and for how many seconds; the same for
                      all its parameters

        `df.attrs` holds "problems" (what could not be used: a list of `Problem`), "notices" (what to know
        about the table as a whole, such as how commits are ordered), "commits" (name to `Commit`),
        "machines" (name to {"hosts", and the fields of machine.json}), "benchmarks" (name to `Benchmark`) and
        "sources" (file to `Source`). Copies of the frame share them.

    Raises:
        FileNotFoundError, NotADirectoryError: nothing, or a file, is where a results folder was expected.
        commits.RepositoryError: `repo` or `branch` cannot be used.
        machines.RuleError: a machine rule is malformed.
        ValueError: `benchmarks` is no regular expression, or `param_columns` names one that does not exist.
    """
    roots = as_roots(results)
    rules = as_rules(machine_rules)
    try:
        wanted = re.compile(benchmarks) if benchmarks is not None else None
    except re.error as error:
        raise ValueError(f"benchmarks: {benchmarks!r} is no regular expression: {error}") from None
    folder = (default_folder() if cache is True else Path(cache)) if cache is not False else None

    reader = _Reader(rules, wanted, folder, spread=samples or quartiles)
    folders, problems = find_machine_folders(roots)
    reader.problems += problems
    reader.read(folders, show_progress)

    recorded = reader.recorded_dates()
    order = order_commits(recorded, repo, branch=branch, first_parent=first_parent)
    first_file: dict[str, str] = {}
    for file in reader.files:
        first_file.setdefault(file.parsed.head.commit, file.path)
    reader.problems += [Problem(first_file[name], "", why) for name, why in order.strays]
    _settle_duplicates(reader.files, order, reader.problems)

    frame, notices = _assemble(reader, order, bool(rules), param_columns, samples, quartiles, timing)
    if not reader.files:
        notices.append("no result files were found in " + ", ".join(map(str, roots)))
    frame.attrs["problems"] = Problems(reader.problems)
    frame.attrs["notices"] = [*order.notices, *notices]
    frame.attrs["commits"] = Facts((commit.name, commit) for commit in _in_order(order))
    frame.attrs["machines"] = Facts(sorted(reader.machines.items()))
    frame.attrs["benchmarks"] = Facts(sorted(reader.benchmarks.items()))
    frame.attrs["sources"] = Facts(
        (file.path, Source(file.path, file.kind, file.host, file.parsed.head)) for file in reader.files
    )
    return frame


def series_keys(df: pd.DataFrame) -> pd.DataFrame:
    """What each series is: one row a series, indexed by its number, in ascending order.

    Columns: machine, env, benchmark, version, params, unit, the table's param_ columns, and n (rows with a
    value).
    """
    columns = ["machine", "env", "benchmark", "version", "params", "unit"]
    columns += [name for name in df.columns if name.startswith("param_")]
    series = df["series"].to_numpy()
    numbers, first = np.unique(series, return_index=True)
    keys = df[columns].take(first)
    keys.index = pd.Index(numbers, name="series")
    measured = series[(df["status"] == "ok").to_numpy()]
    counts = np.zeros(len(numbers), np.int64)
    found, n = np.unique(measured, return_counts=True)
    counts[np.searchsorted(numbers, found)] = n
    keys["n"] = counts
    return keys


class _Reader:
    """Reads machine folders one after the other and collects what the table is made of."""

    def __init__(
        self, rules: list[Rule], wanted: re.Pattern[str] | None, cache: Path | None, *, spread: bool
    ) -> None:
        self._rules = rules
        self._cache = cache
        self._spread = spread
        self.files: list[_File] = []
        self.problems: list[Problem] = []
        self.machines: dict[str, dict[str, Any]] = {}
        self.benchmarks: dict[str, Benchmark] = {}
        self.cases = Cases(self.benchmarks, wanted)
        self._read_benchmarks: set[Path] = set()

    def read(self, folders: list[MachineFolder], show_progress: bool | None) -> None:
        for folder in folders:
            self._read_benchmarks_file(folder.benchmarks_file)
        work = [(folder, path) for folder in folders for path in folder.files]
        current: MachineFolder | None = None
        cache = ParseCache(None, Path(), spread=self._spread)
        facts: dict[str, Any] = {}
        for folder, path in progress(work, "reading results", enabled=show_progress):
            if folder is not current:
                cache.prune()
                current = folder
                cache = ParseCache(self._cache, folder.path, spread=self._spread)
                facts, faults = read_machine(folder.machine_file)
                self._report(folder.machine_file, faults)
            try:
                data = path.read_bytes()
            except OSError as error:
                self.problems.append(Problem(str(path), "", f"cannot be read: {error.strerror or error}"))
                continue
            self._add(path, cache.parse(data, path.name), folder, facts)
        cache.prune()

    def _read_benchmarks_file(self, path: Path) -> None:
        if path in self._read_benchmarks:
            return
        self._read_benchmarks.add(path)
        found, faults = read_benchmarks(path)
        self._report(path, faults)
        for name, benchmark in found.items():
            self.benchmarks.setdefault(name, benchmark)

    def _report(self, path: Path, faults: Iterable[Any]) -> None:
        self.problems += [Problem(str(path), fault.row, fault.reason, fault.n_values) for fault in faults]

    def _add(self, path: Path, parsed: ParsedFile, folder: MachineFolder, facts: dict[str, Any]) -> None:
        self._report(path, parsed.faults)
        if not parsed.head.commit or not parsed.head.env:
            return
        stated = facts.get("machine")
        stated = stated if isinstance(stated, str) else ""
        host = parsed.head.machine or stated or folder.path.name
        if stated and host != stated:
            why = (
                f"it is of machine {host!r}, but the folder's machine.json says {stated!r}: kept as {host!r}"
            )
            self.problems.append(Problem(str(path), "", why))
            facts = {}
        # Files carry the machine's facts too, which helps where machine.json is missing.
        known = {
            **{key: value for key, value in parsed.head.params.items() if key in _MACHINE_FIELDS},
            **facts,
        }
        kind = kind_of(host, known, self._rules)
        machine = self.machines.setdefault(kind, {"hosts": []})
        if host not in machine["hosts"]:
            machine["hosts"].append(host)
        for key, value in known.items():
            if key not in ("machine", "version"):
                machine.setdefault(key, value)
        codes = self.cases.codes(parsed.layout)
        keep = (parsed.status != UNUSABLE) & (codes >= 0)
        if keep.all():
            keep = None
        self.files.append(_File(str(path), host, kind, parsed, codes, keep))

    def recorded_dates(self) -> dict[str, int | None]:
        """Each commit's date as the results record it, in seconds; the earliest where files differ."""
        recorded: dict[str, int | None] = {}
        for file in self.files:
            head = file.parsed.head
            date = head.date_ms // 1000 if head.date_ms is not None else None
            known = recorded.get(head.commit)
            recorded[head.commit] = date if known is None else known if date is None else min(date, known)
        return recorded


_MACHINE_FIELDS: Final = frozenset({"os", "arch", "cpu", "num_cpu", "ram"})


def _in_order(order: CommitOrder) -> list[Commit]:
    return sorted({commit.name: commit for commit in order.commits.values()}.values(), key=lambda c: c.index)


def _settle_duplicates(files: list[_File], order: CommitOrder, problems: list[Problem]) -> None:
    """Where files share host, commit and environment, count equal values once and keep different ones."""
    groups: dict[tuple[str, str, str], list[_File]] = defaultdict(list)
    for file in files:
        head = file.parsed.head
        groups[file.host, order.commits[head.commit].name, head.env].append(file)
    for group in groups.values():
        for position, later in enumerate(group):
            for earlier in group[:position]:
                _compare(earlier, later, problems)


def _compare(earlier: _File, later: _File, problems: list[Problem]) -> None:
    everything = np.ones(len(later.codes), np.bool_)
    keep = everything if later.keep is None else later.keep
    order = np.argsort(earlier.codes, kind="stable")
    places = np.searchsorted(earlier.codes, later.codes, sorter=order)
    places = order[np.minimum(places, len(order) - 1)] if len(order) else np.zeros(len(later.codes), np.int64)
    if not len(order):
        return
    both = (earlier.codes[places] == later.codes) & keep
    if earlier.keep is not None:
        both &= earlier.keep[places]
    if not both.any():
        return
    a, b = earlier.parsed, later.parsed
    same = both & (a.status[places] == b.status) & ((a.values[places] == b.values) | (b.status != OK))
    n_same, n_other = int(same.sum()), int((both & ~same).sum())
    if n_same:
        later.keep = keep & ~same
        why = f"{n_same} of its values are in {earlier.path} as well: counted once"
        problems.append(Problem(later.path, "", why, n_same))
    if n_other:
        why = f"{n_other} of its values are in {earlier.path} as well, but differ: both are kept"
        problems.append(Problem(later.path, "", why))


def _assemble(
    reader: _Reader,
    order: CommitOrder,
    with_host: bool,
    param_columns: bool | Sequence[str] | None,
    samples: bool,
    quartiles: bool,
    timing: bool,
) -> tuple[pd.DataFrame, list[str]]:
    cases = reader.cases
    cases.freeze()
    commits = _in_order(order)
    machines, machine_code = _coded(file.kind for file in reader.files)
    hosts, host_code = _coded(file.host for file in reader.files)
    envs, env_code = _coded(file.parsed.head.env for file in reader.files)
    paths, path_code = _coded(file.path for file in reader.files)
    ranked = sorted(
        reader.files,
        key=lambda file: (
            order.commits[file.parsed.head.commit].index,
            machine_code[file.kind],
            env_code[file.parsed.head.env],
            path_code[file.path],
        ),
    )
    places = [(machine_code[file.kind], env_code[file.parsed.head.env]) for file in ranked]
    series = _Series(places, [file.codes for file in ranked], cases.rank)
    n = sum(file.selected() for file in ranked)

    names, notices = cases.choose_param_columns(param_columns, n, PARAM_COLUMNS_BYTES)
    of_case: dict[str, Codes] = {
        "benchmark": cases.benchmark,
        "params": cases.params,
        "version": cases.version,
        "unit": cases.unit,
        **{f"param_{name}": cases.param_codes[name] for name in names},
    }
    columns: dict[str, npt.NDArray[Any]] = {
        "machine": np.empty(n, _code_type(len(machines))),
        "commit": np.empty(n, _code_type(len(commits))),
        "commit_index": np.empty(n, np.int32),
        "commit_date": np.empty(n, "datetime64[s]"),
        "env": np.empty(n, _code_type(len(envs))),
        "benchmark": np.empty(n, cases.benchmark.dtype),
        **{f"param_{name}": np.empty(n, cases.param_codes[name].dtype) for name in names},
        "params": np.empty(n, cases.params.dtype),
        "version": np.empty(n, cases.version.dtype),
        "value": np.empty(n),
        "unit": np.empty(n, cases.unit.dtype),
        "ci_low": np.empty(n),
        "ci_high": np.empty(n),
        "n_samples": np.empty(n, np.int32),
        "status": np.empty(n, np.int8),
        "series": np.empty(n, np.int32),
        "file": np.empty(n, _code_type(len(paths))),
    }
    if with_host:
        columns["host"] = np.empty(n, _code_type(len(hosts)))
    if quartiles:
        columns["q_25"], columns["q_75"] = np.empty(n), np.empty(n)
    if samples:
        columns["samples"] = np.full(n, None, object)
    if timing:
        columns["started_at"] = np.empty(n, "datetime64[ms]")
        columns["duration"] = np.empty(n, np.float32)

    start = 0
    for index, file in enumerate(ranked):
        parsed, keep = file.parsed, slice(None) if file.keep is None else file.keep
        codes = file.codes[keep]
        rows = slice(start, start + len(codes))
        start = rows.stop
        commit = order.commits[parsed.head.commit]
        columns["machine"][rows] = machine_code[file.kind]
        columns["commit"][rows] = commit.index
        columns["commit_index"][rows] = commit.index
        columns["commit_date"][rows] = _date(commit.date_s)
        columns["env"][rows] = env_code[parsed.head.env]
        columns["file"][rows] = path_code[file.path]
        if with_host:
            columns["host"][rows] = host_code[file.host]
        for name, codes_of_case in of_case.items():
            columns[name][rows] = codes_of_case[codes]
        columns["series"][rows] = series.numbers(index)[keep]
        columns["value"][rows] = parsed.values[keep]
        columns["ci_low"][rows] = parsed.ci_low[keep]
        columns["ci_high"][rows] = parsed.ci_high[keep]
        columns["n_samples"][rows] = parsed.n_samples[keep]
        columns["status"][rows] = parsed.status[keep]
        spread = parsed.spread
        if quartiles and spread is not None:
            columns["q_25"][rows] = spread.q_25[keep]
            columns["q_75"][rows] = spread.q_75[keep]
        if samples and spread is not None:
            lengths = np.diff(spread.offsets)
            pieces = np.full(len(lengths), None, object)
            for value in np.flatnonzero(lengths).tolist():
                pieces[value] = spread.samples[spread.offsets[value] : spread.offsets[value + 1]]
            columns["samples"][rows] = pieces[keep]
        if timing:
            row_of_value = cases.row_of_value(parsed.layout)[keep]
            columns["started_at"][rows] = _dates_ms(parsed.row_started_ms)[row_of_value]
            columns["duration"][rows] = parsed.row_duration_s[row_of_value]
        file.parsed = _without_values(parsed)  # the table has them now; a large tree needs the memory

    categories: dict[str, tuple[Sequence[str], bool]] = {
        "machine": (machines, False),
        "commit": ([commit.name for commit in commits], True),
        "env": (envs, False),
        "benchmark": (cases.benchmark_names, False),
        "params": (cases.params_names, False),
        "version": (cases.version_names, False),
        "unit": (cases.unit_names, False),
        "status": (STATUS_NAMES, False),
        "file": (paths, False),
        "host": (hosts, False),
        **{f"param_{name}": (cases.param_names[name], False) for name in names},
    }
    data: dict[str, Any] = {}
    for name in list(columns):
        column = columns.pop(name)
        if name in categories:
            labels, ordered = categories[name]
            dtype = pd.CategoricalDtype(pd.Index(list(labels), dtype="str"), ordered=ordered)
            data[name] = pd.Categorical.from_codes(column, dtype=dtype)
        else:
            data[name] = column
    return pd.DataFrame(data, copy=False), notices


class _Series:
    """Numbers the series of all files, by machine, environment, benchmark, version and parameters."""

    def __init__(self, places: list[tuple[int, int]], codes: list[Codes], rank: Codes) -> None:
        self._rank = rank
        self._places = places
        self._codes = codes
        layouts: dict[tuple[int, int], dict[int, Codes]] = defaultdict(dict)
        for place, file_codes in zip(places, codes, strict=True):
            layouts[place][id(file_codes)] = file_codes  # files of one layout share the array
        self._present: dict[tuple[int, int], tuple[int, Codes]] = {}
        self._known: dict[tuple[tuple[int, int], int], npt.NDArray[np.int32]] = {}
        first = 0
        for place in sorted(layouts):
            found = np.concatenate(list(layouts[place].values()))
            present = np.unique(rank[found[found >= 0]])
            self._present[place] = (first, present)
            first += len(present)

    def numbers(self, index: int) -> npt.NDArray[np.int32]:
        """The series of each value of the file at that index."""
        place, codes = self._places[index], self._codes[index]
        key = (place, id(codes))
        if key not in self._known:
            first, present = self._present[place]
            self._known[key] = (first + np.searchsorted(present, self._rank[codes])).astype(np.int32)
        return self._known[key]


def _coded(labels: Iterable[str]) -> tuple[list[str], dict[str, int]]:
    names = sorted(set(labels))
    return names, {name: code for code, name in enumerate(names)}


def _code_type(n_categories: int) -> type[np.signedinteger[Any]]:
    return np.int8 if n_categories <= 127 else np.int16 if n_categories <= 32_767 else np.int32


def _date(seconds: int | None) -> np.datetime64:
    return np.datetime64("NaT", "s") if seconds is None else np.datetime64(seconds, "s")


def _dates_ms(milliseconds: npt.NDArray[np.float64]) -> npt.NDArray[np.datetime64]:
    unknown: Final = np.iinfo(np.int64).min  # what numpy stores for NaT
    whole = np.where(np.abs(milliseconds) < 1e15, milliseconds, np.nan)
    numbers = np.where(np.isnan(whole), 0, whole).astype(np.int64)
    return np.where(np.isnan(whole), unknown, numbers).astype("datetime64[ms]")


def _without_values(parsed: ParsedFile) -> ParsedFile:
    nothing = np.empty(0)
    return ParsedFile(
        parsed.head,
        b"",
        nothing,
        np.empty(0, np.int8),
        nothing,
        nothing,
        np.empty(0, np.int32),
        nothing,
        nothing,
        [],
    )
