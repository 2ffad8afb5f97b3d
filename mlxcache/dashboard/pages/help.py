"""What the words on the pages mean, and how the pages answer questions."""

from __future__ import annotations

from typing import Final

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.writing.page import Page, Site, always
from mlxcache.history.answering.account import LEAST_COMMITS


def _write(site: Site, facts: SiteFacts) -> None:
    site.pages.page(PAGE.path, "help.html", least=LEAST_COMMITS, has_series=bool(len(facts.store)))


PAGE: Final = Page("help.html", "Help", always, _write)
