"""The changes for programs: an Atom feed for readers, JSON for scripts."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any, Final
from xml.etree import ElementTree

from mlxcache.history.answering.account import Account
from mlxcache.history.repository.commits import Commit
from mlxcache.reports.events import Event
from mlxcache.reports.plain_text import clean, short
from mlxcache.reports.text import as_json, label
from mlxcache.reports.units import change_of, format_value, interval_of
from mlxcache.support.names import digest

_ATOM: Final = "http://www.w3.org/2005/Atom"
_MOST: Final = 100
FEED_PATH: Final = "feed.xml"
JSON_PATH: Final = "changes.json"


def headline(event: Event) -> str:
    """One line: what, which way, how much."""
    more = f" and {len(event.rows) - 1} more" if len(event.rows) > 1 else ""
    name = short(event.benchmark)
    if event.uncertain:
        return f"{name} may be {event.word} or not: {interval_of(event.lead)}{more}"
    is_or_was = "was" if event.retired or event.state == "recovered" else "is"
    return f"{name} {is_or_was} {event.word}: {change_of(event.lead)}{more}"


def as_feed(
    events: list[Event], account: Account, title: str, address: str, commits: Mapping[str, Commit]
) -> bytes:
    """The newest events as Atom, under the account of all; `address` is where the site will be, "" if unknown."""
    feed = ElementTree.Element("feed", {"xmlns": _ATOM})
    dates = [_date(commits.get(event.after)) for event in events[:_MOST]]
    base = address.rstrip("/") + "/" if address else ""
    _add(feed, "id", f"{base}{FEED_PATH}" if base else f"urn:mlxcache:{digest(title, size=16)}")
    _add(feed, "title", f"{clean(title)}: changes of performance")
    _add(feed, "subtitle", clean(". ".join([account.sentence, *account.remarks()]) + "."))
    _add(feed, "updated", max(dates, default=_date(None)))
    ElementTree.SubElement(feed, "link", {"rel": "self", "href": f"{base}{FEED_PATH}"})
    ElementTree.SubElement(feed, "link", {"href": f"{base}index.html"})
    author = ElementTree.SubElement(feed, "author")
    _add(author, "name", "mlxcache dashboard")
    for event, date in zip(events, dates, strict=False):
        entry = ElementTree.SubElement(feed, "entry")
        page = f"{base}{event.address}.html"
        _add(entry, "id", page if base else f"urn:mlxcache:{digest(title, event.address, size=16)}")
        _add(entry, "title", clean(headline(event)))
        _add(entry, "updated", date)
        ElementTree.SubElement(entry, "link", {"href": page})
        _add(entry, "summary", clean(_summary(event)))
        ElementTree.SubElement(entry, "category", {"term": event.direction})
        ElementTree.SubElement(entry, "category", {"term": event.state})
    text: bytes = ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def as_changes_json(events: list[Event], account: Account) -> str:
    """The account, and all events with all rows; without indents, which would be half of it."""
    return as_json(
        {
            "version": 1,
            "status": int(account.status),
            "answer": clean(account.sentence),
            "remarks": list(map(clean, account.remarks())),
            "changes": [
                {
                    "page": f"{event.address}.html",
                    "benchmark": clean(event.benchmark),
                    "direction": event.direction,
                    "state": event.state,
                    "uncertain": event.uncertain,
                    "still_measured": not event.retired,
                    "before": clean(event.before),
                    "after": clean(event.after),
                    "range_commits": event.range_commits,
                    "series": [{name: _plain(value) for name, value in row.items()} for row in event.rows],
                }
                for event in events
            ],
        },
        indent=None,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _summary(event: Event) -> str:
    rows = []
    for row in event.rows[:20]:
        unit = str(row["unit"])
        values = f"{format_value(row['value_before'], unit)} to {format_value(row['value_after'], unit)}"
        values += f" ({interval_of(row)})"
        rows.append(f"{short(label(row))} on {short(str(row['machine']), 60)}: {values}")
    state = "no longer measured" if event.retired else "uncertain" if event.uncertain else event.state_word
    return f"{state}, between {event.before[:10]} and {event.after[:10]}. " + "; ".join(rows)


def _date(commit: Commit | None) -> str:
    seconds = commit.date_s if commit is not None else None
    try:
        moment = datetime.datetime.fromtimestamp(seconds or 0, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        moment = datetime.datetime.fromtimestamp(0, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _add(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = text
