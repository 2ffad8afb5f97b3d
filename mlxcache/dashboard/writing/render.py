"""Turns templates into pages; escaping is on for all of them."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from mlxcache.dashboard.data.answer import day, plural
from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.quality import percent
from mlxcache.dashboard.data.repository import commit_page
from mlxcache.dashboard.drawings.numbers import TIMES, course_text, value_text, values_text
from mlxcache.dashboard.output import Output
from mlxcache.dashboard.writing.tables import Table, write_csv
from mlxcache.reports.events import Event
from mlxcache.reports.plain_text import clean, cut, short
from mlxcache.reports.units import change_of, format_change, interval_of


def _finalize(value: Any) -> Any:
    """Every text that reaches a page passes here; markup of our own making does not."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return clean(value)
    return value


def amount(row: Mapping[Any, Any]) -> str:
    """A change without its sign, for where an arrow and a word tell the direction."""
    text = change_of(row).lstrip("+-")
    return f"{TIMES}{text[1:]}" if text.startswith("x") else text


def _flush(markup: str) -> str:
    """Markup without indents and empty lines: thousands of pages repeat them."""
    return re.sub(r"\n\s+", "\n", markup)


def _breakable(text: str) -> Markup:
    """A dotted name that a line may end in after each of its parts."""
    return Markup(re.sub(r"([._/]+)(?=[^._/])", r"\1<wbr>", str(escape(clean(text)))))


def by_commit(events: Iterable[Event]) -> list[tuple[str, list[Event]]]:
    """Events in their order, those that follow one another at the same commit together."""
    return [(after, list(group)) for after, group in itertools.groupby(events, key=lambda event: event.after)]


def _value(value: float, unit: str) -> str:
    return value_text(float(value), str(unit)) if math.isfinite(value) else "n/a"


def confidence(share: float) -> str:
    """How sure the detector is; never that it cannot be wrong."""
    return "> 0.99" if share > 0.99 else f"{share:.2f}"


class Pages:
    """Writes the pages of one site.

    Every template sees `site`: the title, the pages of the menu as (path, title), how many regressions stand, and
    functions that name commits, machines, environments and parameters.
    """

    def __init__(self, out: Output, facts: SiteFacts, menu: Sequence[tuple[str, str]], n_standing: int) -> None:
        self._out = out
        measured = {commit.name for commit in facts.commits}
        site = {
            "title": clean(facts.title),
            "menu": menu,
            "n_standing": n_standing,
            "commit_address": facts.repository.address,
            "commit_page": lambda name: commit_page(name) if name in measured else "",
            "commit_subject": facts.repository.subject,
            "commit_day": lambda name: day(facts.by_name.get(name)),
            "machine": facts.names.machine,
            "environment": facts.names.environment,
            "params": facts.names.params,
        }
        self._environment = Environment(
            loader=PackageLoader("mlxcache.dashboard", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_finalize,
        )
        self._environment.filters |= {
            "short": short,
            "cut": cut,
            "breakable": _breakable,
            "by_commit": by_commit,
            "amount": amount,
            "change": format_change,
            "percent": percent,
            "confidence": confidence,
            "day": day,
        }
        self._environment.globals |= {
            "value": _value,
            "values": values_text,
            "course": course_text,
            "interval": interval_of,
            "plural": plural,
            "site": site,
        }

    def page(self, path: str, template: str, **facts: Any) -> None:
        """Write one page; `root` leads from it back to the front page's folder."""
        root = "../" * path.count("/")
        text = self._environment.get_template(template).render(path=path, root=root, **facts)
        head, mark, rest = text.partition("<textarea")
        own, end, tail = rest.partition("</textarea>")
        self._out.text(path, _flush(head) + mark + own + end + _flush(tail))

    def table(self, table: Table) -> Table:
        """Write a table's CSV file; returns the table, for the page that shows it."""
        write_csv(self._out, table)
        return table
