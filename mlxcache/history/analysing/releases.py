"""Releases of a package side by side, at one commit of the project that was measured with all of them.

    side_by_side(df, "mlx")                 # a row a series and release, relative to the oldest release
    releases(df, "mlx")                     # which commit was measured with which releases

Two releases that were measured at two commits differ in the project's own code as well, so they are never laid
beside each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from mlxcache.history.loading.history import History
from mlxcache.history.loading.series_table import has_number
from mlxcache.support.releases import release_key

_WHAT: Final = ("machine", "benchmark", "version", "params", "unit")


def column_of(table: pd.DataFrame, package: str) -> str:
    """The column that has a package's releases.

    Raises ValueError naming the packages that there are.
    """
    wanted = package if package in ("python",) or package.startswith("req_") else f"req_{package}"
    for name in (wanted, wanted.replace("-", "_")):
        if name in table.columns:
            return name
    there = ", ".join(sorted(c.removeprefix("req_") for c in table.columns if c.startswith("req_"))) or "none"
    raise ValueError(f"package: the results say no release of {package!r}; they say those of: python, {there}")


def releases(table: History | pd.DataFrame, package: str) -> pd.DataFrame:
    """Which commits were measured with which releases of a package, machine by machine.

    Columns: machine, commit, commit_index, release, series (how many have a value), in the order of commits and
    releases.
    """
    frame = History.of(table).frame
    name = column_of(frame, package)
    rows = frame[has_number(frame) & (frame[name].astype("str") != "").to_numpy()]
    grouped = rows.assign(release=rows[name].astype("str")).groupby(
        ["machine", "commit", "commit_index", "release"], observed=True
    )
    found: pd.DataFrame = grouped["series"].nunique().rename("series").reset_index()
    found = found.assign(release=_in_order(found["release"]))
    return found.sort_values(["machine", "commit_index", "release"], ignore_index=True)


def _in_order(texts: pd.Series[str]) -> pd.Categorical[Any]:
    """Releases as ordered categories: 0.9 before 0.30."""
    return pd.Categorical(texts, categories=sorted(set(texts), key=release_key), ordered=True)


def side_by_side(
    table: History | pd.DataFrame, package: str, *, commit: str | None = None, wanted: Sequence[str] | None = None
) -> pd.DataFrame:
    """Every series that was measured with several releases of a package, at one commit.

    Args:
        table: what `read` or `load` returned, or a selection of it.
        package: "mlx", "numpy" ..., or "python".
        commit: the commit (full hash, or its beginning); None takes, machine by machine, the newest of those
            that have most of the releases.
        wanted: which releases; None takes all that the commit has.

    Returns:
        One row a series and release: machine, benchmark, version, params, the param_ columns, unit, commit,
        release, value, ratio (value over that of the oldest release that the series has), and others (other
        packages whose release differs from the oldest's, "mlx-lm 0.32.2", or "").

    Raises:
        ValueError: no commit was measured with two releases, or the commit or a release is not there.
    """
    frame = History.of(table).frame
    name = column_of(frame, package)
    rows = frame[has_number(frame) & (frame[name].astype("str") != "").to_numpy()]
    rows = rows.assign(release=rows[name].astype("str"))
    if commit is not None:
        rows = rows[rows["commit"].astype("str").str.startswith(commit)]
        if rows["commit"].nunique() != 1:
            raise ValueError(
                f"commit: {commit!r} fits {rows['commit'].nunique()} commits of the table; expected one"
            )
    if wanted is not None:
        missing = [release for release in wanted if release not in set(rows["release"])]
        if missing:
            there = ", ".join(sorted(set(rows["release"]), key=release_key)) or "none"
            raise ValueError(f"wanted: no results with {package} {', '.join(missing)}; there are: {there}")
        rows = rows[rows["release"].isin(list(wanted))]
    counts = rows.groupby(["machine", "commit_index"], observed=True)["release"].nunique()
    counts = counts[counts >= 2]
    if counts.empty:
        raise ValueError(
            f"no commit was measured with two releases of {package}; `mlxcache bench --mlx A,B` measures one so"
        )
    best = counts.reset_index().sort_values(["release", "commit_index"]).groupby("machine", observed=True).last()
    chosen = rows["commit_index"].to_numpy() == rows["machine"].map(best["commit_index"]).to_numpy()
    rows = rows[chosen]
    packages = [c for c in rows.columns if (c.startswith("req_") or c == "python") and c != name]
    params = [c for c in rows.columns if c.startswith("param_")]
    keys = [c for c in (*_WHAT, *params) if c in rows.columns]
    columns = [*keys, "commit", "release"]
    plain = pd.DataFrame({c: rows[c].astype("str") if c in (*_WHAT, "commit") else rows[c] for c in columns})
    values = plain.assign(value=rows["value"].to_numpy(np.float64), **{c: rows[c].astype("str") for c in packages})
    made = (
        values.groupby(columns, observed=True, dropna=False)
        .agg({"value": "median", **dict.fromkeys(packages, "first")})
        .reset_index()
    )
    made = made.assign(release=_in_order(made["release"])).sort_values([*_WHAT, "release"], ignore_index=True)
    first = made.groupby(list(_WHAT), observed=True, sort=False)[["value", *packages]].transform("first")
    several = made.groupby(list(_WHAT), observed=True, sort=False)["release"].transform("size") > 1
    made = made.assign(
        ratio=made["value"] / first["value"].where(first["value"] > 0),
        others=[
            ", ".join(
                f"{c.removeprefix('req_')} {row[c] or 'none'}" for c in packages if row[c] != first[c].iloc[place]
            )
            for place, row in enumerate(made.to_dict("records"))
        ],
    )
    empty = [c for c in params if made[c].isna().all() or (made[c].astype("str") == "").all()]
    found: pd.DataFrame = made[several].drop(columns=[*packages, *empty])
    return found.reset_index(drop=True)
