"""What else is known about a change: commits in its range, documentation, reruns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from mlxcache.history.changes.confirmations import Confirmation
from mlxcache.history.changes.documentation import documentation_only
from mlxcache.history.loading.history import facts_of

# A range with nothing but documentation keeps this share of its odds.
_DOCUMENTATION_ODDS: Final = 1 / 20


def range_commits(df: pd.DataFrame, changes: pd.DataFrame) -> list[int]:
    """How many commits of the branch each range holds, where the table knows their places."""
    commits = facts_of(df).commits

    def position(name: str) -> int | None:
        return getattr(commits.get(name), "position", None)

    counts = []
    for before, after in zip(changes["before"], changes["after"], strict=True):
        first, last = position(before), position(after)
        counts.append(last - first if first is not None and last is not None else 0)
    return counts


def without_documentation(
    changes: pd.DataFrame, repo: str | os.PathLike[str] | None, min_confidence: float
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Lower the confidence of ranges that touch documentation only; returns what stays and what fell away."""
    if repo is None or changes.empty:
        return changes, changes.iloc[:0]
    pairs = list(zip(changes["before"], changes["after"], strict=True))
    harmless = documentation_only(repo, pairs)
    mask = np.array([pair in harmless for pair in pairs])
    changes = changes.copy()
    odds = changes["confidence"] / (1.0 - changes["confidence"]).clip(lower=1e-12) * _DOCUMENTATION_ODDS
    changes.loc[mask, "confidence"] = (odds / (1.0 + odds))[mask]
    changes.loc[mask, "note"] = "only documentation changed in this range"
    dropped = mask & (changes["confidence"] < min_confidence).to_numpy()
    return changes[~dropped].reset_index(drop=True), changes[dropped].reset_index(drop=True)


def apply_confirmations(
    changes: pd.DataFrame, confirmations: Iterable[Confirmation], df: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """States from reruns.

    The newest one of a series whose range overlaps the change's search range decides.
    """
    by_series: dict[tuple[str, str, str, str], list[Confirmation]] = {}
    for confirmation in confirmations:
        by_series.setdefault(confirmation.key()[1:], []).append(confirmation)
    if not by_series or changes.empty:
        return changes, changes.iloc[:0]
    order = _order_of_commits(df)
    machines = facts_of(df).machines
    changes = changes.copy()
    refuted = np.zeros(len(changes), np.bool_)
    for i, row in enumerate(changes.to_dict("records")):
        key = (row["env"], row["benchmark"], row["params"], row["version"])
        hosts = {row["machine"], *machines.get(row["machine"], {}).get("hosts", [])}
        for confirmation in reversed(by_series.get(key, [])):
            if confirmation.machine not in hosts or not _overlaps(confirmation, row, order):
                continue
            if confirmation.outcome == "refuted":
                refuted[i] = True
            elif confirmation.outcome == "confirmed" and confirmation.change * row["magnitude"] > 0:
                changes.loc[i, "confirmed"] = True
                if row["state"] == "candidate":
                    changes.loc[i, "state"] = "confirmed"
                _note(changes, i, confirmation, row)
            elif confirmation.outcome == "undecided":
                _note(changes, i, confirmation, row)
            break
    return changes[~refuted].reset_index(drop=True), changes[refuted].reset_index(drop=True)


def _note(changes: pd.DataFrame, i: int, confirmation: Confirmation, row: Mapping[Any, Any]) -> None:
    text = f"a rerun of {confirmation.pairs} pairs measured {confirmation.change:+.1%}"
    if confirmation.outcome == "undecided":
        text += f" ({confirmation.low:+.1%} to {confirmation.high:+.1%}), which decides nothing"
    elif (confirmation.before, confirmation.after) != (row["before"], row["after"]):
        text += f" between {confirmation.before[:8]} and {confirmation.after[:8]}"
    changes.loc[i, "note"] = "; ".join(filter(None, [row["note"], text]))


def _order_of_commits(df: pd.DataFrame) -> dict[str, int]:
    table = df[["commit", "commit_index"]].drop_duplicates() if "commit_index" in df.columns else None
    if table is None:
        return {}
    return dict(zip(table["commit"].astype("str"), table["commit_index"].tolist(), strict=True))


def _overlaps(confirmation: Confirmation, row: Mapping[Any, Any], order: Mapping[str, int]) -> bool:
    named = (confirmation.candidate_before, confirmation.candidate_after)
    if named == (row["before"], row["after"]):
        return True
    places = [order.get(commit) for commit in named]
    low, high = order.get(row["search_before"]), order.get(row["search_after"])
    first, last = places
    if first is None or last is None or low is None or high is None:
        return False
    return first < high and last > low
