"""Apache Otava: CSV files with a time, a commit and one column a series, and the configuration that names them.

Otava turns every cell into a number, so series that were measured on different commits go into different files:
no cell is empty, and no value is made up for one. Its time must not step back, as authors' dates do.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from mlxcache.exports.exporter import Asked, Folder
from mlxcache.exports.selection import measured
from mlxcache.history.loading.direction import higher_is_better
from mlxcache.history.loading.history import facts_of

CONFIGURATION = "otava.yaml"


def files(df: pd.DataFrame) -> dict[str, bytes]:
    """File names and contents, for one folder."""
    rows = measured(df)
    benchmarks = facts_of(df).benchmarks
    found: dict[str, bytes] = {}
    tests: dict[str, Any] = {}
    for (machine, env), group in rows.groupby(["machine", "env"], observed=True, sort=True):
        names = group["benchmark"].astype("str") + group["params"].astype("str").map(
            lambda text: f"({text})" if text else ""
        )
        several = group.assign(_name=names).groupby("_name")["version"].nunique()
        versions = names.map(several).to_numpy() > 1
        names = names.where(~versions, names + " v" + group["version"].astype("str").str[:8])
        wide = group.assign(_name=names).pivot_table(
            index="commit_index", columns="_name", values="value", aggfunc="median", observed=True
        )
        dates, commits = (
            _dates(group),
            dict(zip(group["commit_index"], group["commit"].astype("str"), strict=True)),
        )
        for number, columns in enumerate(_alike(wide), 1):
            test = _slug(f"{machine}.{env}.{number}")
            block = wide[columns].dropna()
            found[f"{test}.csv"] = _csv(block, dates, commits)
            tests[test] = {
                "type": "csv",
                "file": f"{test}.csv",
                "time_column": "time",
                "attributes": ["commit"],
                "metrics": {
                    name: {"column": name, "direction": 1 if _better(name, group, names, benchmarks) else -1}
                    for name in columns
                },
                "csv_options": {"delimiter": ",", "quote_char": '"'},
            }
    # JSON is YAML, and quotes every name.
    found[CONFIGURATION] = (json.dumps({"tests": tests}, indent=1) + "\n").encode()
    return found


def _dates(group: pd.DataFrame) -> dict[int, pd.Timestamp]:
    """Each commit's date, or the latest before it where its own is older."""
    by_commit = group.groupby("commit_index")["commit_date"].min().sort_index()
    by_commit = by_commit.ffill().bfill().fillna(pd.Timestamp(0, tz="UTC")).cummax()
    return {int(str(index)): date for index, date in by_commit.items()}


def _alike(wide: pd.DataFrame) -> list[list[str]]:
    """Columns in groups that have values on the same commits."""
    groups: dict[bytes, list[str]] = {}
    for name in wide.columns:
        groups.setdefault(np.packbits(wide[name].notna().to_numpy()).tobytes(), []).append(str(name))
    return list(groups.values())


def _csv(block: pd.DataFrame, dates: Mapping[int, pd.Timestamp], commits: Mapping[int, str]) -> bytes:
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["time", "commit", *block.columns])
    for index, values in zip(block.index.tolist(), block.to_numpy(np.float64).tolist(), strict=True):
        out.writerow([dates[index].strftime("%Y-%m-%d %H:%M:%S +0000"), commits[index], *map(repr, values)])
    return text.getvalue().encode()


def _better(name: str, group: pd.DataFrame, names: pd.Series[str], benchmarks: Mapping[str, Any]) -> bool:
    first = group[(names == name).to_numpy()].iloc[0]
    entry = benchmarks.get(str(first["benchmark"]))
    return higher_is_better(str(first["unit"]), getattr(entry, "facts", None))


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-")


def _fill(asked: Asked, folder: Path) -> None:
    for name, data in files(asked.table).items():
        (folder / name).write_bytes(data)


EXPORTER: Final = Folder("otava", "a folder of CSV files with otava.yaml", _fill)
