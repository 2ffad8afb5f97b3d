"""What every command that reads results is asked with: which results, and what of them.

`add_results` declares the options once and `chosen` reads what they choose, so that `--env` or `--control` means
the same wherever it is taken. An option that chooses nothing, or has nothing to work on, is an error.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import pandas as pd

from mlxcache.history.changes.change_table import ChangesFrame, only_series
from mlxcache.history.comparing.protocol import matching
from mlxcache.history.loading.history import History
from mlxcache.history.loading.series_table import control_test
from mlxcache.history.loading.table import read
from mlxcache.history.repository.full_history import require_full_history
from mlxcache.remeasure.project import results_folder

_SHOWN: Final = 8
_ENOUGH_FOR_MEDIAN: Final = 5

# Option, how it is kept, metavar, help: what `add_results` adds unless it is told to leave it out.
_OPTIONS: Final = (
    ("--branch", "store", "REV", "whose history: a branch, tag or commit (default: HEAD)"),
    ("--machine-rule", "append", "RULE", "which machines are one: REGEX=NAME, FIELD~REGEX=NAME or FIELD,FIELD"),
    ("--machine", "append", "REGEX", "only machines of this name, or in whose name this is found"),
    ("--env", "append", "REGEX", "only environments of this name, or in whose name this is found"),
    ("--bench", "append", "REGEX", "only benchmarks in whose name, as in b.time_x(64), this is found"),
    ("--control", "store", "REGEX", "the control benchmark (default: by name); median: of all timings; or none"),
)


def add_results(
    parser: argparse.ArgumentParser, *, repo: str | None = None, without: Collection[str] = ()
) -> None:
    """Add --results, --repo and the options that choose among the results, `without` some of them."""
    parser.add_argument("--results", metavar="DIR", help="asv results (default: results_dir of asv.conf.json)")
    default = repo or "none; commits are then ordered by date"
    parser.add_argument("--repo", metavar="DIR", default=repo, help=f"the repository (default: {default})")
    for option, action, metavar, said in _OPTIONS:
        if option not in without:
            parser.add_argument(option, action=action, metavar=metavar, help=said)


def needs(args: argparse.Namespace, needed: str, *options: str) -> None:
    """Raise ValueError if one of the options was given although `needed` was not: it would have no effect."""
    for option in options:
        if not getattr(args, _name(needed)) and _was_given(args, option):
            raise ValueError(f"{option} has no effect without {needed}")


def excludes(args: argparse.Namespace, present: str, *options: str) -> None:
    """Raise ValueError if one of the options was given beside `present`, with which it has no effect."""
    if getattr(args, _name(present)):
        no_effect(args, present, *options)


def no_effect(args: argparse.Namespace, where: str, *options: str) -> None:
    """Raise ValueError if one of the options was given: it has no effect with what `where` names."""
    for option in options:
        if _was_given(args, option):
            raise ValueError(f"{option} has no effect with {where}")


def _name(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _was_given(args: argparse.Namespace, option: str) -> bool:
    given = getattr(args, _name(option))
    return bool(given) or (given == 0 and given is not False)


def control_of(args: argparse.Namespace) -> str | None:
    """What --control says, as `change_points` takes it."""
    return None if args.control == "none" else args.control or "auto"


def chosen(
    args: argparse.Namespace,
    *,
    samples: bool = False,
    branch: str | None = None,
    benchmarks: str | None = None,
    param_columns: bool | None = None,
    absent: bool = False,
) -> History:
    """The results that the options choose; --bench is left to `only`, since what is judged needs the others too.

    Args:
        args: of a parser that `add_results` added to; `args.results` is filled in.
        samples, benchmarks, param_columns: see `load`.
        branch: whose history, where the command knows better than --branch.
        absent: whether machines and environments may be asked for that have no results yet.

    Raises:
        ValueError, OSError: of `load`; a shallow clone; an option that chooses nothing, with what there is.
    """
    check_patterns(args)
    args.results = results_folder(args.results, args.repo or ".")
    asked = getattr(args, "branch", None)
    if args.repo is not None:
        require_full_history(args.repo)
    elif asked:
        raise ValueError("--branch has no effect without --repo, which knows the branch")
    rules = getattr(args, "machine_rule", None) or ()
    history = read(
        args.results,
        args.repo,
        samples=samples,
        machine_rules=rules,
        branch=branch or asked or "HEAD",
        benchmarks=benchmarks,
        param_columns=param_columns,
    )
    _check_rules(rules, history)
    frame = history.frame
    if not frame.empty:
        for column, option in (("machine", "--machine"), ("env", "--env")):
            if wanted := getattr(args, column, None):
                names = sorted(set(frame[column].astype("str")))
                fitting = {name for pattern in wanted for name in _fitting(pattern, names, option, absent)}
                frame = frame[frame[column].isin(fitting).to_numpy(bool)]
        if bench := getattr(args, "bench", None):
            known = matchable(frame)
            for pattern in bench:
                if matching(known, [pattern]).empty:
                    raise ValueError(_fits_nothing("--bench", pattern, sorted(set(known["benchmark"]))))
        _check_control(getattr(args, "control", None), frame)
    return history if frame is history.frame else History(frame, history.facts)


def only(args: argparse.Namespace, history: History, changes: ChangesFrame) -> tuple[History, ChangesFrame]:
    """What --bench leaves of a history and its changes: judged like all the others, and told alone."""
    if not args.bench:
        return history, changes
    numbers = matching(matchable(history.frame), args.bench)["series"].tolist()
    kept = history.frame["series"].isin(numbers).to_numpy(bool)
    return History(history.frame[kept], history.facts), only_series(changes, numbers)


def matchable(frame: pd.DataFrame) -> pd.DataFrame:
    """Number, benchmark and parameters of each series."""
    _, first = np.unique(frame["series"].to_numpy(), return_index=True)
    columns = ["benchmark", "params"]
    return pd.DataFrame(
        {"series": frame["series"].take(first), **{c: frame[c].take(first).astype("str") for c in columns}}
    )


def _check_rules(rules: Sequence[str], history: History) -> None:
    """A rule that joins or renames no machine is a typo."""
    if not rules or not history.sources:
        return
    hosts = sorted({source.host for source in history.sources.values()})
    if all(source.machine == source.host for source in history.sources.values()):
        raise ValueError(_fits_nothing("--machine-rule", ", ".join(rules), hosts))


def _check_control(control: str | None, frame: pd.DataFrame) -> None:
    if control in (None, "none", "auto"):
        return
    names = sorted(set(frame["benchmark"].astype("str")))
    if control != "median":
        if not any(map(control_test(control), names)):
            raise ValueError(_fits_nothing("--control", str(control), names))
        return
    timed = frame[(frame["unit"].astype("str") == "seconds").to_numpy(bool)]
    most = timed.groupby(["machine", "env"], observed=True)["series"].nunique().max() if len(timed) else 0
    if most < _ENOUGH_FOR_MEDIAN:
        raise ValueError(
            f"--control median: the middle one of {most} timings is no control; expected a machine with at least "
            f"{_ENOUGH_FOR_MEDIAN}"
        )


def check_patterns(args: argparse.Namespace) -> None:
    """Raise ValueError for a --machine, --env or --bench that is no regular expression."""
    for option in ("machine", "env", "bench"):
        for pattern in getattr(args, option, None) or ():
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"--{option}: {pattern!r} is no regular expression: {error}") from None


def _fitting(pattern: str, names: Sequence[str], option: str, absent: bool) -> list[str]:
    if pattern in names:
        return [pattern]
    found = [name for name in names if re.search(pattern, name)]
    if not found and not absent:
        raise ValueError(_fits_nothing(option, pattern, names))
    return found


def _fits_nothing(option: str, pattern: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{option}: {pattern!r} fits none of the results; there are: {', '.join(names[:_SHOWN])}{more}"
