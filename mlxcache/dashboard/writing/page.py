"""What a page of the site is, and what all of them are made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.output import Output
from mlxcache.dashboard.writing.render import Pages

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class Site:
    """One build: what is told, who writes pages, where to."""

    facts: SiteFacts
    pages: Pages
    out: Output


@dataclass(frozen=True, slots=True)
class Page(Generic[Content]):
    """One entry of the menu.

    path: its file. title: what the menu calls it. find: what it has to show, None where that is nothing; then the
    site has no such page. write: writes it, and what belongs to it.
    """

    path: str
    title: str
    find: Callable[[SiteFacts], Content | None]
    write: Callable[[Site, Content], None]


def always(facts: SiteFacts) -> SiteFacts | None:
    """For a page that every site has."""
    return facts


def with_series(facts: SiteFacts) -> SiteFacts | None:
    """For a page that needs a measured value."""
    return facts if len(facts.store) else None


AnyPage = Page[Any]
