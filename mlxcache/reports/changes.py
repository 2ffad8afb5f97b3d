"""The list of changes that `mlxcache regressions` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from mlxcache.history.answering.account import Account
from mlxcache.history.changes.change_table import set_aside_of
from mlxcache.reports import markdown as md
from mlxcache.reports.events import state_word
from mlxcache.reports.text import (
    Format,
    as_json,
    before_after,
    cut,
    label,
    records,
    text_table,
)
from mlxcache.reports.units import change_of, interval_of

# Rows of a list that a terminal still shows whole.
_MOST_BROKEN = 20
_HEADER = (
    "benchmark",
    "change",
    "95 % interval",
    "before -> after",
    "commits",
    "state",
    "confidence",
    "machine",
)


def render(changes: pd.DataFrame, account: Account, how: Format, notices: Sequence[str] = ()) -> str:
    """All changes in one of the three formats; ends with a newline."""
    if how == "json":
        aside = set_aside_of(changes)
        return as_json(
            {
                "status": int(account.status),
                "answer": account.sentence,
                "regressions": len(account.standing),
                "reach": [asdict(entry) for entry in account.reach],
                "broken": [asdict(entry) for entry in account.broken],
                "uncertain": records(account.uncertain),
                "ended": records(account.ended),
                "notices": list(notices),
                "changes": records(changes),
                "refuted": records(aside.refuted) if aside is not None else [],
                "documentation_only": records(aside.documentation) if aside is not None else [],
                "machine": records(aside.machine) if aside is not None else [],
            }
        )
    markdown = how == "markdown"
    parts = _parts(changes, account)
    notices = [*account.remarks(), *notices]
    envs = len({env for _, rows in parts for env in rows["env"]}) > 1
    header = (*_HEADER, "environment") if envs else _HEADER
    lines = [f"### {account.sentence}" if markdown else account.sentence]
    lines += _broken(account, markdown=markdown)
    for title, rows in parts:
        if rows.empty:
            continue
        shown, rest = cut(rows)
        remarks = [note for note in dict.fromkeys(shown["note"]) if note]
        cells = [_cells(row, remarks, envs, markdown=markdown) for row in shown.to_dict("records")]
        many = f" ({len(rows)}{', newest first' if len(rows) > 1 else ''})"
        lines += ["", f"**{title}**{many}", ""] if markdown else ["", title + many]
        lines += md.table(header, cells) if markdown else text_table(header, cells)
        lines += ["", *_remarks(remarks, markdown=markdown)] if remarks else []
        lines += ["", rest] if rest else []
    if notices:
        between = "\n>\n" if markdown else "\n"
        lines += [
            "",
            between.join(f"> {md.plain(notice)}" if markdown else f"note: {notice}" for notice in notices),
        ]
    return "\n".join(lines) + "\n"


def _broken(account: Account, *, markdown: bool) -> list[str]:
    """What gives no value any more, first of all: it may be the largest change of them."""
    if not account.broken:
        return []
    title = f"Gives no value any more ({len(account.broken)})"
    header = ("benchmark", "last value", "none since", "commits", "machine")
    cells = [
        [
            md.code(entry.name) if markdown else entry.name,
            entry.last_good[:8],
            entry.since[:8],
            str(entry.n_commits),
            md.code(entry.machine) if markdown else entry.machine,
        ]
        for entry in account.broken[:_MOST_BROKEN]
    ]
    rest = len(account.broken) - len(cells)
    lines = ["", f"**{title}**", ""] if markdown else ["", title]
    lines += md.table(header, cells) if markdown else text_table(header, cells)
    return lines + ([f"and {rest} more"] if rest else [])


def _parts(changes: pd.DataFrame, account: Account) -> list[tuple[str, pd.DataFrame]]:
    worse = changes["direction"] == "regression"
    parts = [
        ("Regressions", account.standing),
        ("Uncertain: the interval holds 0", account.uncertain),
        ("No longer measured", account.ended),
        ("Recovered regressions", changes[worse & (changes["state"] == "recovered")]),
        ("Improvements", changes[~worse]),
    ]
    aside = set_aside_of(changes)
    if aside is not None:
        parts += [
            ("Refuted by a rerun", aside.refuted),
            ("Only documentation changed there", aside.documentation),
            ("The machine's own", aside.machine),
        ]
    return parts


def _remarks(remarks: Sequence[str], *, markdown: bool) -> list[str]:
    """What the numbers behind benchmarks stand for, once each, so that the table stays narrow."""
    # A hard line break in Markdown, else the lines would run together.
    end = "\\" if markdown else ""
    lines = [f"[{number}] {md.plain(note) if markdown else note}" for number, note in enumerate(remarks, 1)]
    return [*(line + end for line in lines[:-1]), lines[-1]]


def _cells(row: Mapping[Any, Any], remarks: Sequence[str], envs: bool, *, markdown: bool) -> list[str]:
    arrow = "▲" if row["magnitude"] > 0 else "▼"
    commits = f"{row['before'][:8]}..{row['after'][:8]}"
    if row["range_commits"] > 1:
        commits += f" ({row['range_commits']} commits)"
    name = md.code(label(row)) if markdown else label(row)
    if row["note"]:
        name += f" [{remarks.index(row['note']) + 1}]"
    state = row["state"]
    if state == "recovered":
        state = f"{state_word(state, row['direction'])} at {row['recovered_at'][:8]}"
    return [
        name,
        f"{arrow} {change_of(row)}",
        interval_of(row),
        before_after(row, "value_before", "value_after"),
        commits,
        state,
        f"{row['confidence']:.2f}",
        md.code(str(row["machine"])) if markdown else str(row["machine"]),
        *([md.code(str(row["env"])) if markdown else str(row["env"])] if envs else []),
    ]
