"""The verdict as a pull request's comment, in Markdown.

    body = comment(comparison)

The first line has the verdict and a reader may stop there. Then what changed and whose change it is, what is
open and what would settle it, how quiet the runner was, and the command that shows the same at home. Everything
else is folded. GitHub takes 65,536 characters: rows go before the text does, and what was left out is said.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from mlxcache.history.comparing.protocol import Comparison, NotDone, Protocol
from mlxcache.history.comparing.verdicts import Limits, Verdict
from mlxcache.reports.comparison import (
    NOT_DONE,
    as_text,
    headline,
    to_json,
)
from mlxcache.reports.interval_bars import Bar, draw
from mlxcache.reports.markdown import block, clipped, code, folded, one_line, plain, table
from mlxcache.reports.text import Format, before_after, interval, label
from mlxcache.reports.units import format_change
from mlxcache.support.names import series_pattern

__all__ = ["NOT_DONE", "Comparison", "Figure", "NotDone", "comment", "headline", "marker", "render"]

# GitHub counts characters; bytes are never fewer, and leave room for what a workflow may add.
LIMIT: Final = 65_000
_SIGNS: Final = {Verdict.NO_REGRESSION: "✅", Verdict.REGRESSION: "🔺", Verdict.INCONCLUSIVE: "❔"}
# Benchmarks named in the command that reproduces the verdict.
_REPRODUCED: Final = 3
_NO_ROOM: Final = "no room here, `--format json` has all"


@dataclass(frozen=True)
class Figure:
    """A picture to show: its address and what it says to those who do not see it."""

    url: str
    title: str


@dataclass(frozen=True)
class _Room:
    """How much of everything is shown."""

    changed: int
    still_open: int
    others: int
    notices: int
    drawn: int
    name: int


# The first that fits is taken; the last one fits always.
_ROOMS: Final = (
    _Room(100, 50, 200, 50, 14, 160),
    _Room(100, 30, 60, 20, 14, 120),
    _Room(60, 20, 0, 10, 10, 100),
    _Room(25, 10, 0, 5, 6, 80),
    _Room(10, 5, 0, 3, 0, 60),
    _Room(0, 0, 0, 0, 0, 40),
)


def marker(key: str = "") -> str:
    """The invisible line by which a workflow finds its own comment and updates it."""
    safe = "".join(c for c in key if c.isalnum() or c in "._-")
    return f"<!-- mlxcache verdict{' ' * bool(safe)}{safe} -->"


def render(outcome: Comparison | NotDone, how: Format) -> str:
    """The outcome in one of the three formats; ends with a newline."""
    if how == "json":
        return to_json(outcome)
    if how == "markdown":
        return comment(outcome)
    return as_text(outcome) if isinstance(outcome, Comparison) else f"not compared: {outcome.reason}\n"


def comment(
    outcome: Comparison | NotDone, *, figures: Sequence[Figure] = (), details: str = "", key: str = ""
) -> str:
    """The comment; ends with its marker.

    Args:
        outcome: the comparison, or why there is none.
        figures: pictures that are published somewhere; the first three are shown.
        details: the address of the full results, such as the workflow's run.
        key: tells several comments on one pull request apart, such as one a machine.
    """
    tail = ["", marker(key)]
    if isinstance(outcome, NotDone):
        return "\n".join([*_not_done(outcome, details), *tail]) + "\n"
    for room in _ROOMS:
        body = "\n".join([*_body(outcome, figures, details, room), *tail]) + "\n"
        if len(body.encode("utf-8")) <= LIMIT:
            break
    return body


def _not_done(outcome: NotDone, details: str) -> list[str]:
    lines = [
        "### ⛔ Not measured: there is no verdict on this change",
        "",
        "This is neither a pass nor a regression. The reason:",
        "",
        *block(clipped(one_line(outcome.reason), 4000)),
    ]
    return [*lines, "", f"[The whole log]({_address(details)})"] if details else lines


def _body(comparison: Comparison, figures: Sequence[Figure], details: str, room: _Room) -> list[str]:
    rows = comparison.rows
    lines = [f"### {_SIGNS[comparison.verdict]} {_first_line(comparison, room)}", "", *_how(comparison)]
    for reason in comparison.undone:
        lines += ["", f"**Not compared:** {plain(clipped(one_line(reason), 500))}"]
    if comparison.lost:
        names = ", ".join(code(clipped(name, room.name)) for name in comparison.lost[:5])
        more = f" and {len(comparison.lost) - 5} more" if comparison.lost[5:] else ""
        lines += ["", f"**Ran on base, gave no value on head:** {names}{more}. Nothing is known about them."]
    changed = rows[_states(rows) != ""]
    lines += _table_of_changes(changed, room)
    still_open = rows[rows["verdict"] == Verdict.INCONCLUSIVE]
    if not still_open.empty:
        lines += ["", *_open(comparison, still_open, room)]
    if room.drawn:
        lines += _drawn(rows, room)
    for figure in figures[:3]:
        lines += ["", f"![{plain(clipped(figure.title, 200))}]({_address(figure.url)})"]
    if comparison.noise:
        lines += [
            "",
            "**Noise of the runner:** " + "; ".join(plain(clipped(x, 300)) for x in comparison.noise[:6]),
        ]
    lines += ["", "To see the same on your machine:", "", *block(_command(comparison), "sh")]
    lines += ["", *_folded(comparison, changed, room)]
    return [*lines, "", f"[Full results]({_address(details)})"] if details else lines


def _first_line(comparison: Comparison, room: _Room) -> str:
    rows = comparison.rows
    total = f"{len(rows)} series" if len(rows) != 1 else "1 series"
    if comparison.verdict is Verdict.REGRESSION:
        worse = rows[rows["verdict"] == Verdict.REGRESSION]
        first = worse.iloc[0].to_dict()
        most = f"{code(clipped(label(first), room.name))} by {format_change(float(first['change']))}"
        if len(worse) == 1:
            return f"Regression: 1 of {total} got worse, {most}"
        return f"Regression: {len(worse)} of {total} got worse, most of all {most}"
    still_open = int((rows["verdict"] == Verdict.INCONCLUSIVE).sum())
    if comparison.verdict is Verdict.INCONCLUSIVE and not still_open and comparison.undone:
        return f"Inconclusive: {len(comparison.undone)} comparison{'s' * (len(comparison.undone) != 1)} not made"
    if comparison.verdict is Verdict.INCONCLUSIVE and not still_open:
        return f"Inconclusive: {len(comparison.lost)} series of base gave no value on head"
    if comparison.verdict is Verdict.INCONCLUSIVE:
        return f"Inconclusive: {still_open} of {total} cannot be told from noise yet"
    better = int((_states(rows) == "better").sum() + (_states(rows) == "recovered").sum())
    gained = f", {better} got better" if better else ""
    told = f"{len(rows) - still_open} of {total}, {still_open} cannot be told from noise" if still_open else total
    return f"No regression in {told}{gained}"


def _how(comparison: Comparison) -> list[str]:
    rows = comparison.rows
    machines = sorted(set(rows["machine"]))
    where = ", ".join(code(clipped(name, 80)) for name in machines[:3]) + (" and others" if machines[3:] else "")
    commits = f"{code(comparison.head[:10])} against {code(comparison.base[:10])}"
    rounds = rows["rounds"]
    if comparison.measured:
        spread = f"{rounds.min()}" if rounds.min() == rounds.max() else f"{rounds.min()} to {rounds.max()}"
        text = f"{commits}, measured in turn for {spread} rounds on {where}."
    else:
        text = f"{commits}, from stored results of {where} that were taken at different times."
    if comparison.verdict is Verdict.INCONCLUSIVE:
        text += " Inconclusive does not mean fine: a slowdown that matters is neither seen nor excluded."
    small = int((rows["significant"] & ~rows["relevant"]).sum())
    if small:
        text += f" {small} more changed measurably but by too little to matter."
    return [text]


def _states(rows: pd.DataFrame) -> pd.Series[str]:
    """What a reader should make of each row; "" where nothing happened."""

    def state(row: Mapping[Any, Any]) -> str:
        before = row["already_on_base"] != ""
        if row["verdict"] == Verdict.REGRESSION:
            return "new here, and more on trunk" if before else "new here"
        if row["direction"] == "improvement" and row["relevant"]:
            return "recovered" if before else "better"
        return "already on trunk" if before else ""

    return pd.Series([state(row) for row in rows.to_dict("records")], index=rows.index, dtype="str")


def _table_of_changes(changed: pd.DataFrame, room: _Room) -> list[str]:
    if changed.empty:
        return []
    several = changed["machine"].nunique() > 1 or changed["env"].nunique() > 1
    order = ["new here", "new here, and more on trunk", "recovered", "better", "already on trunk"]
    states = _states(changed)
    ranked = changed.assign(_state=states, _rank=states.map(order.index)).sort_values("_rank", kind="stable")
    shown = ranked.iloc[: room.changed]
    header = ["benchmark", "change", "95 % interval", "base → head", "whose"]
    cells = [_cells(row, several, room) for row in shown.to_dict("records")]
    lines = ["", *table([*header, "where"] if several else header, cells)] if cells else []
    left_out = len(ranked) - len(shown)
    if left_out:
        worse = int((ranked.iloc[room.changed :]["verdict"] == Verdict.REGRESSION).sum())
        lines += ["", f"and {left_out} more ({worse} of them regressions): {_NO_ROOM}"]
    return lines


def _cells(row: Mapping[Any, Any], several: bool, room: _Room) -> list[str]:
    state = str(row["_state"])
    if state in ("already on trunk", "new here, and more on trunk"):
        state += f" ({plain(clipped(row['already_on_base'], 120))})"
    cells = [
        code(clipped(label(row), room.name)),
        f"**{format_change(row['change'])}**" if state.startswith("new") else format_change(row["change"]),
        interval(row["ci95_low"], row["ci95_high"]),
        plain(before_after(row, "value_base", "value_head").replace("->", "→")),
        state,
    ]
    return [*cells, code(clipped(f"{row['machine']}, {row['env']}", 60))] if several else cells


def _drawn(rows: pd.DataFrame, room: _Room) -> list[str]:
    """The intervals of what changed or is open, drawn with characters: it needs no place to be published."""
    notable = rows[(_states(rows) != "") | (rows["verdict"] == Verdict.INCONCLUSIVE)]
    bars = [
        Bar(clipped(one_line(label(row)), 44), row["change"], row["ci95_low"], row["ci95_high"])
        for row in notable.iloc[: room.drawn].to_dict("records")
    ]
    drawing = draw(bars)
    return ["", *block("\n".join(drawing))] if drawing else []


def _open(comparison: Comparison, still_open: pd.DataFrame, room: _Room) -> list[str]:
    plural = "s" * (len(still_open) != 1)
    rounds = [int(more) for more in still_open["further_rounds"] if more]
    if comparison.measured and rounds:
        most, now = max(rounds), int(still_open["rounds"].max())
        need = f"about {now + most} rounds instead of {now} would settle all, or a quieter runner"
    elif comparison.measured:
        need = "a quieter runner or more rounds would tell"
    else:
        need = "measuring both commits in turn (`--measure`) would tell"
    summary = f"{len(still_open)} benchmark{plural} still open: {need}."
    shown = still_open.iloc[: room.still_open]
    if shown.empty:
        return [summary]
    cells = [
        [
            code(clipped(label(row), room.name)),
            interval(row["ci95_low"], row["ci95_high"]),
            f"{row['rounds']}",
            f"about {row['further_rounds']} more" if row["further_rounds"] else "",
            plain(clipped(row["note"], 120)),
        ]
        for row in shown.to_dict("records")
    ]
    lines = table(["benchmark", "could be anything in", "rounds", "would take", "note"], cells)
    left_out = len(still_open) - len(shown)
    return [summary, "", *lines, *(["", f"and {left_out} more: {_NO_ROOM}"] if left_out else [])]


def _command(comparison: Comparison) -> str:
    """What shows the same at home, for the benchmarks that the verdict rests on."""
    rows = comparison.rows
    chosen = (
        rows[rows["verdict"] == comparison.verdict]
        if comparison.verdict is not Verdict.NO_REGRESSION
        else rows[:0]
    )
    words = ["mlxcache", "compare", comparison.base[:12], comparison.head[:12], "--measure"]
    words += _options(comparison.protocol)
    for row in chosen.iloc[:_REPRODUCED].to_dict("records"):
        pattern = series_pattern(str(row["benchmark"]), str(row["params"]))
        if len(pattern) <= 400 and pattern == one_line(pattern):
            words += ["--bench", pattern]
    return shlex.join(words)


def _options(protocol: Protocol) -> list[str]:
    """The options that a user must give for the same protocol."""
    usual = Protocol()
    words = []
    for name, option, default, _ in Limits.options():
        if (value := 100.0 * getattr(protocol.limits, name)) != default:
            words += [option, f"{value:g}"]
    if protocol.rounds != usual.rounds:
        words += ["--rounds", str(protocol.rounds)]
    if protocol.control != usual.control:
        words += ["--control", protocol.control or "none"]
    for environment in protocol.environments:
        words += ["--env", environment]
    return [one_line(clipped(word, 200)) for word in words]


def _folded(comparison: Comparison, changed: pd.DataFrame, room: _Room) -> list[str]:
    rest = comparison.rows.drop(changed.index)
    rest = rest[rest["verdict"] == Verdict.NO_REGRESSION]
    lines: list[str] = []
    if room.others and not rest.empty:
        cells = [
            [
                code(clipped(label(row), room.name)),
                format_change(row["change"]),
                interval(row["ci95_low"], row["ci95_high"]),
            ]
            for row in rest.iloc[: room.others].to_dict("records")
        ]
        lines += table(["benchmark", "change", "95 % interval"], cells)
    left_out = len(rest) - min(room.others, len(rest))
    if left_out:
        lines += ["", f"{left_out} unchanged ones are not listed."]
    lines += ["", *(f"- {plain(clipped(notice, 500))}" for notice in comparison.notices[: room.notices])]
    if len(comparison.notices) > room.notices:
        lines += [f"- and {len(comparison.notices) - room.notices} more remarks"]
    tolerated = _excluded(rest)
    lines += ["", f"Of the unchanged ones {tolerated}"] if tolerated else []
    limits = comparison.protocol.limits
    lines += [
        "",
        "Significant means more than chance with all series looked at (at most "
        f"{limits.false_share:.0%} of such findings false); a regression is that *and* at least "
        f"{limits.relevant:.1%}. No regression means that a slowdown of {limits.tolerated:.0%} is excluded.",
    ]
    return folded(f"{len(rest)} unchanged, and remarks", lines)


def _excluded(rest: pd.DataFrame) -> str:
    """How large a change the intervals leave room for."""
    ends = [max(abs(row["ci95_low"]), abs(row["ci95_high"])) for row in rest.to_dict("records")]
    finite = [end for end in ends if math.isfinite(end)]
    return f"none can have changed by more than {max(finite):.1%} (95 % intervals)." if finite else ""


def _address(url: str) -> str:
    """An address that ends where it should."""
    safe = "".join(f"%{ord(c):02X}" if c in "()<>\"'`\\ " else c for c in one_line(url))
    return safe if safe.startswith(("https://", "http://")) else "#"
