"""Builds small history tables and repositories for the tests."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd


def commit_name(index: int) -> str:
    """A full hash that tells its place."""
    return f"{index:08x}" + "0" * 32


def history_frame(
    values: Sequence[float],
    *,
    benchmark: str = "bench.time_x",
    machine: str = "m1",
    env: str = "env1",
    unit: str = "seconds",
    params: str = "",
    version: str = "1",
) -> pd.DataFrame:
    """One series with the columns of `load`, one value a commit; NaN is a failed one."""
    n = len(values)
    value = np.asarray(values, dtype=np.float64)
    return pd.DataFrame(
        {
            "machine": machine,
            "commit": [commit_name(i) for i in range(n)],
            "commit_index": np.arange(n),
            "commit_date": pd.date_range("2024-01-01", periods=n, freq="D"),
            "env": env,
            "benchmark": benchmark,
            "params": params,
            "version": version,
            "value": value,
            "unit": unit,
            "ci99_low": np.nan,
            "ci99_high": np.nan,
            "n_samples": 0,
            "status": np.where(np.isfinite(value), "ok", "failed"),
        }
    )


def tables(*frames: pd.DataFrame) -> pd.DataFrame:
    """Several series in one table."""
    return pd.concat(frames, ignore_index=True)


def levels(*pieces: tuple[int, float], sigma: float = 0.01, seed: int = 0) -> np.ndarray:
    """Seconds on levels of (commits, height)."""
    rng = np.random.default_rng(seed)
    return np.concatenate([height * np.exp(rng.normal(0, sigma, n)) for n, height in pieces])


def git(repo: Path, *arguments: str) -> str:
    """Run git with a fixed identity."""
    done = subprocess.run(
        ["git", "-C", str(repo), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def commit_file(repo: Path, name: str, text: str) -> str:
    """Write a file, commit it, return the hash."""
    path = repo / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", f"change {name}")
    return git(repo, "rev-parse", "HEAD")
