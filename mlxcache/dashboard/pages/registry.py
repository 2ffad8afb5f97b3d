"""The pages of the site in the order of the menu: a page is one module with a `PAGE` and one line here."""

from __future__ import annotations

from typing import Final

from mlxcache.dashboard.pages import (
    benchmarks,
    changes,
    commits,
    compare,
    data,
    explorer,
    front,
    help,
    paths,
    peers,
    quality,
    releases,
    scaling,
)
from mlxcache.dashboard.writing.page import AnyPage

PAGES: Final[tuple[AnyPage, ...]] = (
    front.PAGE,
    changes.PAGE,
    compare.PAGE,
    explorer.PAGE,
    benchmarks.PAGE,
    commits.PAGE,
    releases.PAGE,
    paths.PAGE,
    peers.PAGE,
    scaling.PAGE,
    quality.PAGE,
    data.PAGE,
    help.PAGE,
)
