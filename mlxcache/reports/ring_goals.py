"""What is promised of a ring beside what was measured on each machine, in Markdown, from stored results."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

BENCHMARKS = (
    r"^(ratios\.(Rotating|Ring|RingOfOneWindow|RingPrefill)|footprint\.Footprint\.track_.*ring|model\.ModelRatio)"
)


class Goal(NamedTuple):
    """A promise: the benchmark and parameters that hold it, as asv writes them, and the most that they may be."""

    says: str
    benchmark: str
    params: str
    most: float


def goals() -> list[Goal]:
    """Every promise of a ring."""
    rotating, turned, laps = (
        "ratios.Rotating.track_over_rotating",
        "ratios.RingOfOneWindow.track_over_flat",
        "ratios.Ring.track_over_flat",
    )
    found = [
        Goal(
            f"one token, 32 rings of {window}, {what}, over `RotatingKVCache`; max_rewind {back}",
            rotating,
            f"{window}, '{'attention' if what == 'attention included' else 'cache'}', '{back}'",
            1.0,
        )
        for what in ("cache alone", "attention included")
        for window in (256, 1024, 4096)
        for back in ("0", "window")
    ]
    found += [
        Goal(
            f"a lap over a flat one, window {window}, tokens a step: {tokens}, {statistic}; max_rewind {back}",
            benchmark,
            f"{window}, {tokens}, '{statistic}'",
            most,
        )
        for back, benchmark in (("0", turned), ("window", laps))
        for window in (256, 4096)
        for tokens in (1, 4)
        for statistic, most in (("p99", 1.1), ("mean", 1.05))
    ]
    found += [
        Goal(
            f"chunks of {tokens} over a flat layer's, window {window}",
            "ratios.RingPrefill.track_over_flat",
            f"{window}, {tokens}",
            1.05,
        )
        for window in (256, 4096)
        for tokens in (128, 512, 2048)
    ]
    return [
        *found,
        Goal("windows held; max_rewind 0", "footprint.Footprint.track_turning_ring_of_promised", "", 1.05),
        Goal("windows held; max_rewind window", "footprint.Footprint.track_ring_of_window", "", 2.1),
        Goal(
            "a Gemma 3's token over mlx-lm's, positions counted on the host",
            "model.ModelRatio.track_over_mlx_lm",
            "'gemma3_text', 'sequence', 'host'",
            1.0,
        ),
    ]


def ring_goals(table: pd.DataFrame) -> pd.DataFrame:
    """One row per goal, one column per machine: the newest value there, NaN where none is stored.

    Args:
        table: what `mlxcache.history.load(..., benchmarks=BENCHMARKS)` returned.
    """
    found = table[(table["status"] == "ok") & table["value"].notna()]
    columns: dict[str, list[float]] = {}
    wanted = goals()
    for machine, there in found.groupby("machine", observed=True):
        newest = there.sort_values("commit_index").groupby(["benchmark", "params"], observed=True)["value"].last()
        values = dict(zip(map(tuple, newest.index), map(float, newest), strict=True))
        columns[str(machine)] = [values.get((goal.benchmark, goal.params), float("nan")) for goal in wanted]
    return pd.DataFrame(
        {"goal": [goal.says for goal in wanted], "most": [goal.most for goal in wanted], **columns}
    )


def as_markdown(found: pd.DataFrame) -> str:
    """The table in Markdown; in bold what is above its goal, "-" what was not measured."""
    machines = [name for name in found.columns if name not in ("goal", "most")]
    lines = ["| goal | at most | " + " | ".join(machines) + " |", "|---|---:|" + "---:|" * len(machines)]
    for _, row in found.iterrows():
        cells = [_cell(float(row[machine]), float(row["most"])) for machine in machines]
        lines.append(f"| {row['goal']} | {row['most']:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: float, most: float) -> str:
    if value != value:
        return "-"
    return f"**{value:.3f}**" if round(value, 3) > most else f"{value:.3f}"
