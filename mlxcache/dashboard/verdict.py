"""A comparison's verdict: in words, as Markdown for a pull request, and as an exit status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from mlxcache.dashboard.report import (
    Format,
    as_json,
    before_after,
    code,
    cut,
    interval,
    label,
    markdown_table,
    records,
    text_table,
)
from mlxcache.dashboard.units import format_change
from mlxcache.history.verdicts import Verdict

# 2 is "it could not be done" everywhere.
EXIT_STATUS: dict[Verdict, int] = {Verdict.NO_REGRESSION: 0, Verdict.REGRESSION: 1, Verdict.INCONCLUSIVE: 3}
_SIGNS = {Verdict.NO_REGRESSION: "✅", Verdict.REGRESSION: "🔺", Verdict.INCONCLUSIVE: "❔"}
_HEADER = ("benchmark", "change", "95 % interval", "base -> head", "rounds")


@dataclass(frozen=True)
class Comparison:
    """What there is to say: the rows of `compare`, the verdict over all of them, and remarks."""

    rows: pd.DataFrame
    verdict: Verdict
    base: str
    head: str
    notices: Sequence[str] = field(default_factory=tuple)


def render(comparison: Comparison, how: Format) -> str:
    """The comparison in one of the three formats; ends with a newline."""
    if how == "json":
        return as_json(
            {
                "verdict": str(comparison.verdict),
                "base": comparison.base,
                "head": comparison.head,
                "notices": list(comparison.notices),
                "series": records(comparison.rows),
            }
        )
    return _markdown(comparison) if how == "markdown" else _text(comparison)


def _parts(comparison: Comparison) -> list[tuple[str, pd.DataFrame]]:
    rows = comparison.rows
    better = rows[(rows["direction"] == "improvement") & rows["relevant"]]
    return [
        ("New regressions", rows[rows["verdict"] == Verdict.REGRESSION]),
        ("Inconclusive", rows[rows["verdict"] == Verdict.INCONCLUSIVE]),
        ("Improvements", better),
    ]


def _cells(row: Mapping[Any, Any]) -> list[str]:
    more = f" (about {row['further_rounds']} more would decide)" if row["further_rounds"] else ""
    return [
        label(row) + (f" [{row['note']}]" if row["note"] else ""),
        format_change(row["change"]),
        interval(row["low"], row["high"]),
        before_after(row, "value_base", "value_head"),
        f"{row['rounds']}{more}",
    ]


def headline(comparison: Comparison) -> str:
    """The verdict and the counts behind it."""
    rows = comparison.rows
    count = rows["verdict"].value_counts()
    parts = [f"{int(count.get(v, 0))} {v}" for v in Verdict if count.get(v, 0)]
    fine = int((rows["significant"] & ~rows["relevant"]).sum())
    small = f"; {fine} significant but too small to be relevant" if fine else ""
    return f"{comparison.verdict}: {len(rows)} series compared, {', '.join(parts)}{small}"


def _text(comparison: Comparison) -> str:
    lines = [f"{comparison.base[:10]} -> {comparison.head[:10]}", headline(comparison)]
    for title, rows in _parts(comparison):
        if rows.empty:
            continue
        shown, rest = cut(rows)
        lines += ["", f"{title} ({len(rows)})"]
        lines += text_table(_HEADER, (_cells(row) for row in shown.to_dict("records")))
        lines += [rest] if rest else []
    already = comparison.rows[comparison.rows["already_on_base"] != ""]
    if not already.empty:
        shown, rest = cut(already)
        lines += ["", f"Already on base, not from this change ({len(already)})"]
        lines += [f"{label(row)}: {row['already_on_base']}" for row in shown.to_dict("records")]
        lines += [rest] if rest else []
    lines += [f"note: {notice}" for notice in comparison.notices]
    return "\n".join(lines) + "\n"


def _markdown(comparison: Comparison) -> str:
    sign = _SIGNS[comparison.verdict]
    lines = [
        f"### {sign} Benchmarks: {comparison.verdict}",
        "",
        f"{headline(comparison)} ({code(comparison.base[:10])} against {code(comparison.head[:10])}).",
    ]
    for title, rows in _parts(comparison):
        if rows.empty:
            continue
        shown, rest = cut(rows)
        table = markdown_table(_HEADER, ([code(label(row)), *_cells(row)[1:]] for row in shown.to_dict("records")))
        lines += ["", f"**{title}** ({len(rows)})", "", *table]
        lines += ["", rest] if rest else []
    already = comparison.rows[comparison.rows["already_on_base"] != ""]
    if not already.empty:
        shown, rest = cut(already)
        lines += ["", f"**Already on base**, not from this change ({len(already)})", ""]
        lines += [f"- {code(label(row))}: {row['already_on_base']}" for row in shown.to_dict("records")]
        lines += ["", rest] if rest else []
    if comparison.notices:
        lines += ["", *(f"> {notice}" for notice in comparison.notices)]
    return "\n".join(lines) + "\n"
