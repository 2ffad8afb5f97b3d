"""Builds comparisons for the tests of what is said about them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mlxcache.history.comparing.comparison import COLUMNS
from mlxcache.history.comparing.verdicts import Verdict, overall
from mlxcache.reports.comparison import Comparison

BASE, HEAD = "a" * 40, "b" * 40


def row(benchmark: str = "mod.time_x", change: float = 0.0, **given: Any) -> dict[str, Any]:
    """One series; a change of 2.5 % or more is significant unless told otherwise."""
    significant = given.get("significant", abs(change) >= 0.025)
    verdict = Verdict.REGRESSION if significant and change >= 0.025 else Verdict.NO_REGRESSION
    direction = ("regression" if change > 0 else "improvement") if significant else "unchanged"
    return {
        "machine": "m1",
        "env": "env1",
        "benchmark": benchmark,
        "params": "",
        "version": "1",
        "unit": "seconds",
        "base": BASE,
        "head": HEAD,
        "value_base": 0.001,
        "value_head": 0.001 * (1 + change),
        "change": change,
        "ci95_low": change - 0.01,
        "ci95_high": change + 0.01,
        "direction": direction,
        "p_value": 0.0001 if significant else 0.5,
        "adjusted_p": 0.0002 if significant else 0.9,
        "significant": significant,
        "relevant": abs(change) >= 0.025,
        "verdict": str(verdict),
        "rounds": 20,
        "further_rounds": 0,
        "control": "",
        "already_on_base": "",
        "note": "",
        **given,
    }


def undecided(benchmark: str = "mod.time_open", **given: Any) -> dict[str, Any]:
    """A series that forty more rounds would decide."""
    facts = {"significant": False, "ci95_low": -0.05, "ci95_high": 0.12, "further_rounds": 40}
    return row(benchmark, 0.03, verdict="inconclusive", **{**facts, **given})


def comparison(*rows: dict[str, Any], **given: Any) -> Comparison:
    """A comparison of these rows with the verdict that they have together."""
    frame = pd.DataFrame(list(rows), columns=list(COLUMNS))
    facts: dict[str, Any] = {"verdict": overall(frame["verdict"].tolist()), "measured": True, **given}
    return Comparison(frame, base=BASE, head=HEAD, **facts)
