"""Two commits, releases, machines or environments side by side; a script makes it from the packed values."""

from __future__ import annotations

from typing import Final

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.writing.page import Page, Site


def _find(facts: SiteFacts) -> SiteFacts | None:
    return facts if len(facts.store) and (len(facts.commits) > 1 or len(facts.packages) > 1) else None


def _write(site: Site, facts: SiteFacts) -> None:
    site.pages.page(PAGE.path, "compare.html")


PAGE: Final = Page("compare.html", "Compare", _find, _write)
