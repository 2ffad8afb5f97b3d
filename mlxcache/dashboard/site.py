"""Writes the static site: the answer, a page for each change and commit, the rest to look around in.

    history = read("results", repo=".")
    build_site(history, change_points(history, repo="."), Path("site"), repo=Path("."))

What is on the pages is decided by the modules in `pages`, which `pages.registry` lists. Anything that did not
change since the last build into the same folder is left as it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pandas as pd

from mlxcache.dashboard.data.answer import certain
from mlxcache.dashboard.data.facts import gather
from mlxcache.dashboard.output import Output
from mlxcache.dashboard.pages.registry import PAGES
from mlxcache.dashboard.writing.page import Site
from mlxcache.dashboard.writing.render import Pages
from mlxcache.history.loading.history import History
from mlxcache.reports.events import standing


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did."""

    n_files: int
    n_written: int
    n_bytes: int
    n_changes: int
    n_standing: int
    seconds: float


def build_site(
    history: History | pd.DataFrame,
    changes: pd.DataFrame,
    folder: Path,
    *,
    repo: Path | None = None,
    branch: str = "HEAD",
    title: str = "",
    address: str = "",
    notices: Iterable[str] = (),
    machine_names: Mapping[str, str] | None = None,
) -> Built:
    """Write the site of a history and its changes.

    Args:
        history: what `mlxcache.history.read` or `load` returned.
        changes: what `change_points` made of it.
        folder: where to; made if missing. Files of an earlier build are reused or removed, others stay.
        repo: the project's repository, for subjects of commits and links to them.
        branch: whose commits they are.
        title: the project's name; the repository's folder is called like it if this is empty.
        address: where the site will be served, for absolute links in the feed and in texts to paste.
        notices: what else a reader should know.
        machine_names: short names of machines by their own, before those that machine.json files give as "alias".

    Raises:
        output.SiteError: the folder holds something else.
        OSError: a file cannot be written.
    """
    started = time.monotonic()
    out = Output(folder)
    facts = gather(
        history, changes, repo=repo, branch=branch, title=title, address=address, notices=notices,
        machine_names=machine_names,
    )  # fmt: skip
    found = [(page, content) for page in PAGES if (content := page.find(facts)) is not None]
    now = certain(standing(facts.events))
    pages = Pages(out, facts, [(page.path, page.title) for page, _ in found], len(now))
    site = Site(facts, pages, out)
    for page, content in found:
        page.write(site, content)
    for file in sorted(resources.files("mlxcache.dashboard").joinpath("static").iterdir(), key=lambda f: f.name):
        if file.is_file():
            out.data(f"static/{file.name}", file.read_bytes())
    out.finish()
    return Built(
        out.n_files, out.n_written, out.n_bytes, len(facts.events), len(now), time.monotonic() - started
    )  # fmt: skip
