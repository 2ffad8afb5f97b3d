"""All results as one tidy table: a row for each machine, environment, commit, benchmark and parameter set.

    df = load("results", repo=".")
    df[df.benchmark == "pool.Write.time_write"].groupby("series").value.last()

The table may have ten million rows, so text is stored as categories and everything that is the same for all
rows of a file or of a benchmark is worked out once for it and not once a row.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from mlxcache.history.asv.machines import Rule, as_rules
from mlxcache.history.asv.problems import Problem, Problems
from mlxcache.history.asv.tree import as_roots, find_machine_folders
from mlxcache.history.loading.assembly import Extras, assemble
from mlxcache.history.loading.history import Facts, History, ResultsFrame, Source
from mlxcache.history.loading.parse_cache import default_folder
from mlxcache.history.loading.reading import Reader, settle_duplicates
from mlxcache.history.repository.commits import order_commits
from mlxcache.support.composed import then

# More memory than this is not spent on param_ columns unless they are asked for.
PARAM_COLUMNS_BYTES: Final = 384 * 1024**2

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def read(
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
) -> History:
    """Read asv results of any project and any version of asv.

    `read` gives the history, `load` its table alone, which is `read(...).frame`.

    Args:
        results: a results folder, a folder above several, one machine's folder, or a list of such.
        repo: the project's repository, which gives the order of commits; None orders them by date.
        samples: add the column `samples`.
        quartiles: add the columns `q_25` and `q_75`.
        timing: add the columns `started_at` and `duration`.
        machine_rules: which machines are one kind, see `mlxcache.history.asv.machines`; none joins any.
        branch: whose history orders the commits.
        first_parent: order by first parents only.
        benchmarks: only benchmarks in whose name this regular expression is found.
        param_columns: which parameters get a column of their own: all (True), none (False), those named, or
            (None) all unless they would take more than 384 MB, in which case there is a notice instead.
        cache: keep parsed files in the default folder (True, see `parse_cache.default_folder`), in this
            folder, or not at all (False). With a cache, a large tree that is new is parsed by two processes.
        show_progress: None shows it where stderr is a terminal.

    Returns:
        A table of one row a value, in commit order, with these columns (text as categories):

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
        ci99_low, ci99_high  the 99 % interval that asv computed from the run's samples, in `unit`; may be infinite
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

        Its `facts` hold commits, machines, benchmarks, sources, problems and notices (see `Facts`); selections
        and copies of the frame share them. `attrs["problems"]` has the problems as well.

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

    reader = Reader(rules, wanted, folder, spread=samples or quartiles)
    folders, problems = find_machine_folders(roots)
    reader.problems += problems
    reader.read(folders, show_progress)

    order = order_commits(reader.recorded_dates(), repo, branch=branch, first_parent=first_parent)
    first_file: dict[str, str] = {}
    for file in reader.files:
        first_file.setdefault(file.parsed.head.commit, file.path)
    reader.problems += [Problem(first_file[name], "", why) for name, why in order.strays]
    reader.problems += settle_duplicates(reader.files, lambda name: order.commits[name].name)

    reader.cases.freeze()
    n = sum(map(len, reader.files))
    params, notices = reader.cases.choose_param_columns(param_columns, n, PARAM_COLUMNS_BYTES)
    extras = Extras(host=bool(rules), samples=samples, quartiles=quartiles, timing=timing, params=params)
    frame = assemble(reader.files, reader.cases, order.commits, extras)

    if wanted is not None and n == 0 and reader.files:
        notices.append(_no_such_benchmark(wanted.pattern, reader))
    if not reader.files:
        notices.append("no result files were found in " + ", ".join(map(str, roots)))
    facts = Facts(
        commits={
            commit.name: commit for commit in sorted(order.commits.values(), key=lambda commit: commit.index)
        },
        machines=dict(sorted(reader.machines.items())),
        benchmarks=dict(sorted(reader.benchmarks.items())),
        sources={file.path: Source(file.path, file.kind, file.host, file.parsed.head) for file in reader.files},
        problems=Problems(reader.problems),
        notices=(*order.notices, *notices),
        repo=None if repo is None else os.fspath(repo),
    )
    table = ResultsFrame(frame)
    table.facts = facts
    table.attrs["problems"] = facts.problems
    return History(table, facts)


def _table_of(history: History) -> ResultsFrame:
    assert isinstance(history.frame, ResultsFrame)
    return history.frame


load = then(read, _table_of, "load")


def _no_such_benchmark(pattern: str, reader: Reader) -> str:
    """That no benchmark matches, and which ones have a name like it."""
    known = sorted(reader.benchmarks)
    like = difflib.get_close_matches(
        pattern, [*known, *(name.rpartition(".")[2] for name in known)], n=3, cutoff=0.5
    )
    near = like or known[:3]
    told = f"; the nearest {'is' if len(near) == 1 else 'are'}: {', '.join(near)}" if near else ""
    return f"benchmarks: no benchmark's name has {pattern!r} in it{told}"


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
