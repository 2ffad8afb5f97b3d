"""The text about a change that people paste into an issue."""

from __future__ import annotations

from mlxcache.dashboard.data.repository import RangeCommit
from mlxcache.reports.events import Event
from mlxcache.reports.markdown import code, plain, table
from mlxcache.reports.plain_text import clean, cut, short
from mlxcache.reports.text import before_after, interval, label
from mlxcache.reports.units import format_change

_MOST_ROWS = 20
_MOST_COMMITS = 20


def issue_text(event: Event, commits: list[RangeCommit], n_commits: int, page: str) -> str:
    """Markdown: what moved, by how much, where to look."""
    sign = "▲" if float(event.lead["magnitude"]) > 0 else "▼"
    lines = [
        f"### {code(short(clean(event.benchmark)))} is {event.word}: {sign} "
        f"{format_change(float(event.lead['magnitude']))}",
        "",
        f"Between {code(event.before[:10])} and {code(event.after[:10])}; {event.state_word}, "
        f"confidence {event.confidence:.2f}.",
        "",
    ]
    rows = [
        (
            code(short(clean(label(row)))),
            format_change(float(row["magnitude"])),
            interval(float(row["magnitude_low"]), float(row["magnitude_high"])),
            before_after(row, "value_before", "value_after"),
            plain(short(clean(str(row["machine"])), 60)),
        )
        for row in event.rows[:_MOST_ROWS]
    ]
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
