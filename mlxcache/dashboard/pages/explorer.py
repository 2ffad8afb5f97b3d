"""The explorer and the comparison: pages that a script fills from the packed values."""

from __future__ import annotations

from typing import Final

from mlxcache.dashboard.data.explorer import write_explorer_data
from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.writing.page import Page, Site, with_series


def _write(site: Site, facts: SiteFacts) -> None:
    write_explorer_data(site.out, facts)
    site.pages.page(PAGE.path, "explorer.html")


PAGE: Final = Page("explorer.html", "Explorer", with_series, _write)
