"""The peers' table: one step by our cache, by mlx-lm's, by bare MLX, and what the machine's limit would take.

Reads the suite's own `peers` and `limits` benchmarks from stored results, for each machine its newest commit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from mlxcache.runner.estimator import low_quantile

# What the suite's steps move: K and V of a token in 32 layers of 8 heads of 128 float16, read once, written once.
BYTES_PER_TOKEN = 2 * 2 * 32 * 8 * 128 * 2
OURS = "mlxcache"


def peers_table(table: pd.DataFrame) -> pd.DataFrame:
    """One row per machine and step, one column per cache in seconds, and `limit`, the time at copy speed.

    Args:
        table: what `mlxcache.history.load(..., samples=True)` returned.

    Raises ValueError if it holds no result of `peers`.
    """
    peers = table[table["benchmark"].astype(str).str.startswith("peers.") & (table["status"] == "ok")]
    if peers.empty:
        raise ValueError("results: no result of the `peers` benchmarks; run `mlxcache bench --bench peers`")
    rows = []
    for (machine, env), there in peers.groupby(["machine", "env"], observed=True):
        newest = there[there["commit_index"] == there["commit_index"].max()]
        commit = str(newest["commit"].iloc[0])
        beside = table[(table["machine"] == machine) & (table["env"] == env)]
        bandwidth = beside.loc[beside["benchmark"] == "limits.Limits.track_copy_bandwidth", "value"].dropna()
        for (benchmark, size), step in _steps(newest):
            tokens = int(size) if benchmark == "prefill" else 1
            row: dict[str, object] = {"machine": machine, "commit": commit[:8], "step": f"{benchmark} {size}"}
            row |= {cache: _estimate(value, samples) for cache, value, samples in step}
            if len(bandwidth):
                row["limit"] = tokens * BYTES_PER_TOKEN / (float(bandwidth.iloc[-1]) * 1e9)
            rows.append(row)
    return pd.DataFrame(rows)


def as_text(table: pd.DataFrame) -> str:
    """The table in microseconds, each peer with our time over its time in brackets.

    `limit` is the time that the step's bytes take at the machine's copy speed; dispatch is not in it.
    """
    caches = [name for name in table.columns if name not in ("machine", "commit", "step", OURS, "limit")]
    lines = []
    for (machine, commit), rows in table.groupby(["machine", "commit"], sort=False):
        lines += [f"{machine}, commit {commit}: microseconds a step, in brackets ours over it", ""]
        header = ["step", OURS, *caches, "limit"]
        cells = [header]
        for _, row in rows.iterrows():
            mine = float(row[OURS])
            peers = [_cell(mine, row.get(name)) for name in caches]
            cells.append([str(row["step"]), f"{mine * 1e6:,.0f}", *peers, _limit(row.get("limit"))])
        widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
        lines += ["  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in cells]
        lines.append("")
    return "\n".join(lines)


def _steps(rows: pd.DataFrame) -> Iterable[tuple[tuple[str, str], list[tuple[str, float, object]]]]:
    steps: dict[tuple[str, str], list[tuple[str, float, object]]] = {}
    columns = zip(rows["benchmark"], rows["params"], rows["value"], rows["samples"], strict=True)
    for benchmark, params, value, samples in columns:
        cache, _, size = str(params).replace("'", "").partition(", ")
        steps.setdefault((str(benchmark).split(".")[1].lower(), size), []).append((cache, value, samples))
    return steps.items()


def _estimate(value: float, samples: object) -> float:
    return value if samples is None else low_quantile(np.asarray(samples))


def _limit(seconds: object) -> str:
    return f"{seconds * 1e6:.3g}" if isinstance(seconds, float) and np.isfinite(seconds) else "-"


def _cell(mine: float, other: object) -> str:
    if not isinstance(other, float) or not np.isfinite(other):
        return "-"
    return f"{other * 1e6:,.0f} ({mine / other:.2f})"
