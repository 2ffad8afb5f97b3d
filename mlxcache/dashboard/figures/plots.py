"""Writes figures to a folder, one file each."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from mlxcache.dashboard.figures.change import change_figure
from mlxcache.support.atomic import write_atomically


def file_name(row: Mapping[Any, Any]) -> str:
    """A name that tells the benchmark and the commit, and that no other change has."""
    words = re.sub(r"[^A-Za-z0-9.]+", "-", f"{row['benchmark']}-{row['params']}").strip("-")[:80]
    key = "\0".join(str(row[name]) for name in ("machine", "env", "benchmark", "params", "version"))
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return f"{words}-{row['after'][:8]}-{digest}.svg"


def save(figure: Figure, path: Path) -> Path:
    """Write a figure so that nobody ever meets half of it."""
    data = io.BytesIO()
    kind = path.suffix.removeprefix(".")
    figure.savefig(data, format=kind, metadata={"Date": None} if kind == "svg" else None)
    write_atomically(path, data.getvalue())
    return path


def plot_changes(df: pd.DataFrame, changes: pd.DataFrame, folder: Path) -> list[Path]:
    """One figure for each change, in `folder`; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    return [save(change_figure(df, row), folder / file_name(row)) for row in changes.to_dict("records")]


def plot_series(df: pd.DataFrame, rows: pd.DataFrame, base: str, head: str, folder: Path) -> list[Path]:
    """One figure for each row of a comparison whose series has stored values on both commits."""
    folder.mkdir(parents=True, exist_ok=True)
    order = dict(zip(df["commit"].astype("str"), df["commit_index"].tolist(), strict=True))
    written = []
    for row in rows.to_dict("records"):
        mask = df["status"] == "ok"
        for name in ("machine", "env", "benchmark", "params", "version"):
            mask &= df[name] == row[name]
        series = df[mask]
        if series.empty or not {base, head} <= set(series["commit"].astype("str")):
            continue
        change = {
            **row,
            "series": series["series"].iloc[0],
            "before": base,
            "after": head,
            "before_index": order[base],
            "after_index": order[head],
            "segment_start": base,
            "segment_end": head,
            "magnitude": row["change"],
            "ci95_low": row["ci95_low"],
            "ci95_high": row["ci95_high"],
            "value_before": row["value_base"],
            "value_after": row["value_head"],
            "state": row["verdict"],
            "confirmed": False,
            "confidence": 1.0 - row["adjusted_p"],
        }
        written.append(save(change_figure(df, change), folder / file_name(change)))
    return written
