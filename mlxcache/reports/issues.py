"""Which issues the confirmed regressions of a branch need: one a change, closed when it has recovered.

A candidate never opens one. A change is what happened at one commit, to however many series and machines; as
more commits are measured its place may move a little, so an issue is known by its series and the neighbourhood.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import pandas as pd

from mlxcache.reports.events import change_word
from mlxcache.reports.markdown import block, clipped, code, one_line, plain, table
from mlxcache.reports.text import before_after, label
from mlxcache.reports.units import change_of, interval_of

_MARK: Final = re.compile(r"<!-- mlxcache change (\{[^<>]*\}) -->")
# Measured commits by which a change may move and still be the same one.
_NEAR: Final = 12
# Rows of an issue's table; well below GitHub's limit for the body.
_ROWS: Final = 60

Kind = Literal["open", "update", "close"]


@dataclass(frozen=True)
class Action:
    """What to do; `number` is the issue's, None to open one."""

    kind: Kind
    number: int | None
    title: str
    body: str


@dataclass(frozen=True)
class _Known:
    number: int
    title: str
    body: str
    after: str
    series: frozenset[str]


def plan(
    changes: pd.DataFrame, issues: Sequence[Mapping[str, Any]], order: Mapping[str, int], page: str = ""
) -> list[Action]:
    """What has to be done so that the issues say what the changes say.

    Args:
        changes: what `change_points` returned, with the confirmations.
        issues: our open issues: number, title, body.
        order: every measured commit's place on the branch.
        page: address of the published site, linked from the issues.
    """
    known = [issue for issue in map(_read, issues) if issue is not None]
    worse = changes[(changes["direction"] == "regression") & changes["confirmed"]]
    standing = worse[worse["state"] != "recovered"]
    recovered = worse[worse["state"] == "recovered"]
    actions: list[Action] = []
    met: set[int] = set()
    for after, rows in standing.groupby("after", sort=False):
        title, body = _text(str(after), rows, page)
        series = frozenset(map(_digest, rows.to_dict("records")))
        issue = next((k for k in known if k.number not in met and _same(k, str(after), series, order)), None)
        if issue is None:
            actions.append(Action("open", None, title, body))
            continue
        met.add(issue.number)
        if (issue.title, issue.body.strip()) != (title, body.strip()):
            actions.append(Action("update", issue.number, title, body))
    back = [(str(row["after"]), _digest(row), str(row["recovered_at"])) for row in recovered.to_dict("records")]
    for issue in known:
        # A series may have recovered from another change before.
        own = {name: where for after, name, where in back if _is_near(after, issue.after, order)}
        if issue.number in met or not issue.series <= own.keys():
            continue
        when = sorted({own[name] for name in issue.series})
        told = f"Recovered at {', '.join(code(commit[:10]) for commit in when)}.\n\n"
        actions.append(Action("close", issue.number, issue.title, told + issue.body))
    return actions


def _same(issue: _Known, after: str, series: frozenset[str], order: Mapping[str, int]) -> bool:
    return bool(issue.series & series) and _is_near(issue.after, after, order)


def _is_near(one: str, other: str, order: Mapping[str, int]) -> bool:
    if one == other:
        return True
    places = order.get(one), order.get(other)
    return places[0] is not None and places[1] is not None and abs(places[0] - places[1]) <= _NEAR


def _read(issue: Mapping[str, Any]) -> _Known | None:
    found = _MARK.search(str(issue["body"]))
    try:
        facts = json.loads(found[1]) if found else None
        series = frozenset(map(str, facts["series"])) if facts else frozenset()
    except (ValueError, KeyError, TypeError):
        return None
    if not facts or not series:
        return None
    return _Known(int(issue["number"]), str(issue["title"]), str(issue["body"]), str(facts.get("after")), series)


def _digest(row: Mapping[Any, Any]) -> str:
    key = "\0".join(str(row[name]) for name in ("machine", "env", "benchmark", "params"))
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def _text(after: str, rows: pd.DataFrame, page: str) -> tuple[str, str]:
    ordered = rows.assign(_size=rows["magnitude"].abs()).sort_values(
        ["_size", "benchmark"], ascending=[False, True]
    )
    found = ordered.to_dict("records")
    first = found[0]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    # A title is plain text: nothing in it is markup, but a mention would still call somebody.
    name = clipped(one_line(label(first)), 90).replace("@", "@\N{ZERO WIDTH NON-JOINER}")
    word = change_word(str(first["unit"]), "regression").capitalize()
    title = f"{word} since {after[:10]}: {name} {change_of(first)}{more}"
    span = int(first["range_commits"])
    where = f"between {code(first['before'][:10])} and {code(after[:10])}" + (f", {span} commits" * (span > 1))
    cells = [
        [
            code(clipped(label(row), 120)),
            change_of(row),
            interval_of(row),
            plain(before_after(row, "value_before", "value_after").replace("->", "→")),
            code(clipped(str(row["machine"]), 60)),
        ]
        for row in found[:_ROWS]
    ]
    left = [f"and {len(found) - _ROWS} more"] if len(found) > _ROWS else []
    marker = json.dumps({"after": after, "series": [_digest(row) for row in found[:2000]]})
    lines = [
        f"{len(found)} series got worse {where}. A rerun of both commits in turn has confirmed it.",
        "",
        *table(["benchmark", "change", "95 % interval", "before → after", "machine"], cells),
        *left,
        "",
        "To find the commit, or to see it on your machine:",
        "",
        *block(shlex.join(["mlxcache", "bisect", one_line(label(first)), "--change", after[:12]]), "sh"),
        "",
        *([f"[History]({page})", ""] if page.startswith("https://") else []),
        "This text is kept up to date; the issue is closed when the values are back.",
        "",
        f"<!-- mlxcache change {marker} -->",
    ]
    return title, "\n".join(lines) + "\n"
