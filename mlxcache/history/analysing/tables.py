"""Changes and comparisons for analysts: with parameters, series and the dtypes of the results table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import numpy as np
import pandas as pd

from mlxcache.history.analysing.releases import column_of
from mlxcache.history.changes import change_table
from mlxcache.history.changes.change_table import ChangesFrame
from mlxcache.history.comparing.comparison import judge_stored
from mlxcache.history.comparing.verdicts import Limits
from mlxcache.history.loading.history import History
from mlxcache.history.loading.series_table import KEY_COLUMNS
from mlxcache.history.repository.commits import RepositoryError
from mlxcache.history.repository.revisions import resolve_commit

_TEXTS: Final = ("machine", "env", "benchmark", "params", "version", "unit")
P = ParamSpec("P")
Table = TypeVar("Table", bound=pd.DataFrame)
# What stands for a commit in a comparison of environments: packages and their releases.
Environment = Mapping[str, str]


def _with_columns(
    judge: Callable[Concatenate[History | pd.DataFrame, P], ChangesFrame],
) -> Callable[Concatenate[History | pd.DataFrame, P], ChangesFrame]:
    @wraps(judge)
    def judged(history: History | pd.DataFrame, /, *args: P.args, **kwargs: P.kwargs) -> ChangesFrame:
        whole = History.of(history)
        return with_columns_of(whole.frame, judge(whole, *args, **kwargs))

    return judged


#: `change_table.change_points`, whose rows have the param_ columns of the table and categories as there.
change_points = _with_columns(change_table.change_points)


def compare(
    table: History | pd.DataFrame,
    base: str | Environment,
    head: str | Environment,
    *,
    at: str | None = None,
    limits: Limits | None = None,
    control: str | None = "auto",
    higher_better: Mapping[str, bool] | None = None,
    base_changes: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Verdicts from stored results: two commits, or two environments at one commit.

        compare(df, "main", "HEAD")
        compare(df, {"mlx": "0.31.2"}, {"mlx": "0.32.4"}, at="7a2cb590")

    Args:
        table: what `read` or `load` returned; with `samples=True` the samples' spread counts.
        base, head: commits: names of the table or beginnings that fit one, or any revision where `load` was given
            the repository. Or packages and their releases, which name an environment.
        at: the commit at which environments are compared; not for commits.
        limits, control, higher_better, base_changes: see `comparing.comparison.compare`.

    Returns:
        The columns of `comparing.comparison.compare`, with `series` (of head), the param_ columns of the table,
        and texts as categories as in the table.

    Raises:
        ValueError: a commit, package or release is not there, or an environment's description fits several.
    """
    history = History.of(table)
    options: dict[str, Any] = {
        "limits": limits, "control": control, "higher_better": higher_better, "base_changes": base_changes
    }  # fmt: skip
    if isinstance(base, str) and isinstance(head, str):
        if at is not None:
            raise ValueError(f"at: got {at!r}, which is for comparing environments; base and head are commits")
        one, other = as_commit(history, base), as_commit(history, head)
        return with_columns_of(history.frame, judge_stored(history, one, other, **options)[0])
    if isinstance(base, str) or isinstance(head, str) or at is None:
        raise ValueError(
            f"base is {base!r}, head {head!r} and at {at!r}; expected two commits, or two environments such as "
            '{"mlx": "0.31.2"} and the commit `at` which to compare them'
        )
    names = [", ".join(f"{package} {release}" for package, release in side.items()) for side in (base, head)]
    parts = []
    for place, (role, side, name) in enumerate(zip(("base", "head"), (base, head), names, strict=True)):
        rows = _in_environment(history, side, role, as_commit(history, at))
        parts.append(pd.DataFrame(rows).assign(commit=name, commit_index=np.int32(place)))
    both = pd.concat(parts, ignore_index=True)
    both["env"] = f"{names[0]} -> {names[1]}"
    only_two = History(both.drop(columns=["series"]), history.facts)
    judged = judge_stored(only_two, names[0], names[1], **options)
    return with_columns_of(parts[1].assign(env=both["env"].iloc[0]), judged[0])


def as_commit(history: History, name: str) -> str:
    """What the table calls a commit: its own name for it, a revision of its repository, or `name` as it is."""
    if name in history.commits or history.facts.repo is None:
        return name
    if sum(commit.startswith(name) for commit in history.commits) == 1 and len(name) >= 4:
        return name
    try:
        found = resolve_commit(history.facts.repo, name)
    except RepositoryError:
        return name  # whoever looks it up says what there is
    return found


def _in_environment(history: History, side: Environment, role: str, commit: str) -> pd.DataFrame:
    frame = history.frame
    rows = frame[frame["commit"].astype("str").str.startswith(commit).to_numpy()]
    if rows.empty:
        raise ValueError(f"at: no results for commit {commit!r}")
    for package, release in side.items():
        column = column_of(frame, package)
        there = sorted(set(rows[column].astype("str")) - {""})
        rows = rows[(rows[column].astype("str") == release).to_numpy()]
        if rows.empty:
            raise ValueError(
                f"{role}: no results with {package} {release} at {commit[:10]}; there are: "
                f"{', '.join(there) or 'none'}"
            )
    several = rows.groupby("machine", observed=True)["env"].nunique()
    if (several > 1).any():
        machine = str(several.idxmax())
        envs = sorted(set(rows.loc[rows["machine"] == machine, "env"].astype("str")))
        raise ValueError(f"{role}: {dict(side)} fits {len(envs)} environments of {machine}: {', '.join(envs)}")
    return rows


def with_columns_of(frame: pd.DataFrame, found: Table) -> Table:
    """`found` with the series number and param_ columns that its rows' series have in `frame`, texts as there."""
    if "series" not in frame.columns or not set(_TEXTS) <= set(frame.columns):
        return found
    params = [name for name in frame.columns if name.startswith("param_")]
    numbers, first = np.unique(frame["series"].to_numpy(), return_index=True)
    keys = frame.take(first)
    place_of = {
        key: place
        for place, key in enumerate(zip(*(keys[name].astype("str") for name in KEY_COLUMNS), strict=True))
    }
    own = zip(*(found[name].astype("str") for name in KEY_COLUMNS), strict=True)
    places = np.array([place_of.get(key, -1) for key in own], np.int64)
    if (places < 0).any():
        return found
    columns: dict[str, Any] = {}
    if "series" not in found.columns:
        columns["series"] = numbers[places]
    for name in params:
        columns[name] = keys[name].array.take(places)
    for name in _TEXTS:
        dtype = frame[name].dtype
        if isinstance(dtype, pd.CategoricalDtype):
            columns[name] = pd.Categorical(found[name], dtype=dtype)
    made: Table = found.assign(**columns)
    return made
