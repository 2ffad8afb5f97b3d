"""The text about a change that people paste into an issue."""

from __future__ import annotations

from mlxcache.dashboard.data.names import Names
from mlxcache.dashboard.data.repository import RangeCommit
from mlxcache.dashboard.drawings.numbers import value_text
from mlxcache.dashboard.writing.render import confidence
from mlxcache.reports.events import Event
from mlxcache.reports.markdown import code, plain, table
from mlxcache.reports.plain_text import clean, cut, short
from mlxcache.reports.units import change_of, interval_of

_MOST_ROWS = 20
_MOST_COMMITS = 20


def issue_text(event: Event, commits: list[RangeCommit], n_commits: int, page: str, names: Names) -> str:
    """Markdown: what moved, by how much, where to look."""
    sign = "▲" if float(event.lead["difference"]) > 0 else "▼"
    lines = [
        f"### {code(short(clean(event.benchmark)))} is {event.word}: {sign} {change_of(event.lead)}",
        "",
        f"Between {code(event.before[:10])} and {code(event.after[:10])}; {event.state_word}, "
        f"confidence {confidence(event.confidence)}.",
        "",
    ]
    rows = [
        (
            code(
                short(
                    clean(f"{row['benchmark']} {names.params(str(row['benchmark']), str(row['params']))}".strip())
                )
            ),
            change_of(row),
            interval_of(row),
            " -> ".join(
                value_text(float(row[name]), str(row["unit"])) for name in ("value_before", "value_after")
            ),
            plain(short(clean(names.machine(str(row["machine"]))), 60)),
        )
        for row in event.rows[:_MOST_ROWS]
    ]
    if len(rows) == 1:
        name, _, interval, course, machine = rows[0]
        lines.append(f"{name} on {machine}: {course}, 95 % interval {interval}.")
    else:
        lines += table(("benchmark", "change", "95 % interval", "before -> after", "machine"), rows)
    if len(event.rows) > _MOST_ROWS:
        lines += ["", f"and {len(event.rows) - _MOST_ROWS} more series."]
    if commits:
        lines += ["", f"Commits in the range ({n_commits}):", ""]
        lines += [f"- {code(c.name[:10])} {plain(cut(clean(c.subject), 120))}" for c in commits[:_MOST_COMMITS]]
        if n_commits > _MOST_COMMITS:
            lines.append(f"- and {n_commits - _MOST_COMMITS} more")
    if page:
        lines += ["", page]
    return "\n".join(lines) + "\n"
