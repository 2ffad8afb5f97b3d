"""Which issues a branch needs: one a confirmed regression, closed when it has recovered, and one for what broke.

A candidate never opens one, and a series that nobody measures any more closes its issue. What gives no value any
more has one for each commit since which it is so. A change is what happened at one commit, to however many series
and machines; as more commits are measured its place may move a little, so an issue is known by its series and the
neighbourhood.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import pandas as pd

from mlxcache.history.answering.account import Account, Broken, told
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
    broken: bool


@dataclass(frozen=True)
class _Wanted:
    """An issue as it should be."""

    after: str
    series: frozenset[str]
    broken: bool
    title: str
    body: str


def plan(
    changes: pd.DataFrame,
    issues: Sequence[Mapping[str, Any]],
    order: Mapping[str, int],
    page: str = "",
    account: Account | None = None,
) -> list[Action]:
    """What has to be done so that the issues say what the changes say.

    Args:
        changes: what `change_points` returned, with the confirmations.
        issues: our open issues: number, title, body.
        order: every measured commit's place on the branch.
        page: address of the published site, linked from the issues.
        account: what is known of them all; None takes all series for measured and working.
    """
    known = [issue for issue in map(_read, issues) if issue is not None]
    worse = changes[(changes["direction"] == "regression") & changes["confirmed"]]
    standing = worse[worse["state"] != "recovered"]
    recovered = worse[worse["state"] == "recovered"]
    ended: set[str] = set()
    wanted: list[_Wanted] = []
    if account is not None:
        standing = account.standing[account.standing["confirmed"].to_numpy(bool)]
        ended = set(map(_digest, account.ended.to_dict("records")))
        wanted = _broken(account, page)
    for after, rows in standing.groupby("after", sort=False):
        title, body = _text(str(after), rows, page, _reach(account, rows))
        series = frozenset(map(_digest, rows.to_dict("records")))
        wanted.append(_Wanted(str(after), series, False, title, body))
    actions: list[Action] = []
    met: set[int] = set()
    for each in wanted:
        issue = next((k for k in known if k.number not in met and _same(k, each, order)), None)
        if issue is None:
            actions.append(Action("open", None, each.title, each.body))
            continue
        met.add(issue.number)
        if (issue.title, issue.body.strip()) != (each.title, each.body.strip()):
            actions.append(Action("update", issue.number, each.title, each.body))
    back = [(str(row["after"]), _digest(row), str(row["recovered_at"])) for row in recovered.to_dict("records")]
    for issue in known:
        if issue.number in met:
            continue
        if issue.broken:
            if account is None or not issue.series <= {_digest(asdict(key)) for key in account.keys}:
                continue  # of what was not looked at
            told = "Gives values again, or is no longer measured.\n\n"
            actions.append(Action("close", issue.number, issue.title, told + issue.body))
            continue
        if ended and issue.series <= ended:
            told = "No longer measured: what stood when the series ended counts no more.\n\n"
            actions.append(Action("close", issue.number, issue.title, told + issue.body))
            continue
        # A series may have recovered from another change before.
        own = {name: where for after, name, where in back if _is_near(after, issue.after, order)}
        if not issue.series <= own.keys():
            continue
        when = sorted({own[name] for name in issue.series})
        told = f"Recovered at {', '.join(code(commit[:10]) for commit in when)}.\n\n"
        actions.append(Action("close", issue.number, issue.title, told + issue.body))
    return actions


def _same(issue: _Known, wanted: _Wanted, order: Mapping[str, int]) -> bool:
    alike = issue.broken == wanted.broken and bool(issue.series & wanted.series)
    return alike and _is_near(issue.after, wanted.after, order)


def _reach(account: Account | None, rows: pd.DataFrame) -> list[str]:
    """What can be told at all of the machines of these rows."""
    machines = set(rows["machine"].astype("str"))
    return [told(entry) for entry in account.reach if entry.machine in machines] if account else []


def _broken(account: Account, page: str) -> list[_Wanted]:
    """An issue for each commit since which something gives no value."""
    found: dict[str, list[Broken]] = {}
    for entry in account.broken:
        found.setdefault(entry.since, []).append(entry)
    wanted = []
    for since, entries in found.items():
        n = len(entries)
        more = f" and {n - 1} more" if n > 1 else ""
        name = _mentions_nobody(clipped(one_line(label(asdict(entries[0]))), 90))
        series = sorted(_digest(asdict(entry)) for entry in entries)
        cells = [
            [
                code(clipped(label(asdict(e)), 120)),
                code(e.last_good[:10]),
                str(e.n_commits),
                code(clipped(e.machine, 60)),
            ]
            for e in entries[:_ROWS]
        ]
        lines = [
            f"{n} series gave values and {'gives' if n == 1 else 'give'} none since {code(since[:10])}: failed or "
            "timed out. That may be the largest change of all.",
            "",
            *table(["benchmark", "last value", "commits without", "machine"], cells),
            *([f"and {n - _ROWS} more"] if n > _ROWS else []),
            "",
            *([f"[History]({page})", ""] if page.startswith("https://") else []),
            "This text is kept up to date; the issue is closed when there are values again.",
            "",
            f"<!-- mlxcache change {json.dumps({'after': since, 'series': series[:2000], 'broken': True})} -->",
        ]
        title = f"No value since {since[:10]}: {name}{more}"
        wanted.append(_Wanted(since, frozenset(series), True, title, "\n".join(lines) + "\n"))
    return wanted


def _mentions_nobody(text: str) -> str:
    """A title is plain text: nothing in it is markup, but a mention would still call somebody."""
    return text.replace("@", "@\N{ZERO WIDTH NON-JOINER}")


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
    broken = facts.get("broken") is True
    title, body = str(issue["title"]), str(issue["body"])
    return _Known(int(issue["number"]), title, body, str(facts.get("after")), series, broken)


def _digest(row: Mapping[Any, Any]) -> str:
    key = "\0".join(str(row[name]) for name in ("machine", "env", "benchmark", "params"))
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def _text(after: str, rows: pd.DataFrame, page: str, reach: Sequence[str]) -> tuple[str, str]:
    ordered = rows.assign(_size=rows["magnitude"].abs()).sort_values(
        ["_size", "benchmark"], ascending=[False, True]
    )
    found = ordered.to_dict("records")
    first = found[0]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    name = _mentions_nobody(clipped(one_line(label(first)), 90))
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
        *([plain(line), ""] if (line := "; ".join(reach)) else []),
        "This text is kept up to date; the issue is closed when the values are back.",
        "",
        f"<!-- mlxcache change {marker} -->",
    ]
    return title, "\n".join(lines) + "\n"
