"""Addresses within the site that say what they show by name, so that they mean the same after the next build."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.history.loading.series_store import Key

_MOST: int = 40  # values of a facet that an address lists


def explorer_link(facts: SiteFacts, benchmark: str, keys: Sequence[Key] = ()) -> str:
    """The explorer with these series of a benchmark; with all of them where none is named."""
    wanted: dict[str, list[str]] = {}
    for key in keys:
        named = [("machine", key.machine), ("env", key.env), *facts.names.pairs(benchmark, key.params)]
        for name, value in named:
            own = wanted.setdefault(name, [])
            if value not in own:
                own.append(value)
    parts = [f"b={_text(benchmark)}"]
    parts += [
        f"{_text(name)}={','.join(map(_text, values))}" for name, values in wanted.items() if len(values) <= _MOST
    ]
    return f"explorer.html#{';'.join(parts)}"


def compare_link(base: str, head: str) -> str:
    """The comparison of two commits."""
    return f"compare.html#a={_text(base)}&b={_text(head)}"


def _text(text: str) -> str:
    return quote(text.encode("utf-8", "replace"), safe="")
