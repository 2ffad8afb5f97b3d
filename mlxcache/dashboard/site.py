"""Writes the static site: one page with the answer, one for each change, and the rest to look around in.

    history = read("results", repo=".")
    build_site(history, change_points(history, repo="."), Path("site"), repo=Path("."))

This module decides what is written and in which order; what is on the pages is decided by the modules that it
calls. Anything that did not change since the last build into the same folder is left as it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

import pandas as pd

from mlxcache.dashboard.data import feed
from mlxcache.dashboard.data.answer import answer, day
from mlxcache.dashboard.data.explorer import write_explorer_data
from mlxcache.dashboard.data.quality import coverage, machine_noise
from mlxcache.dashboard.data.repository import Repository
from mlxcache.dashboard.data.suite import KEEP_COMMITS
from mlxcache.dashboard.figures import change_pictures
from mlxcache.dashboard.figures.change_pictures import ChangePictures
from mlxcache.dashboard.output import Output
from mlxcache.dashboard.pages.benchmarks import write_benchmark_pages
from mlxcache.dashboard.pages.changes import write_change_pages
from mlxcache.dashboard.pages.data_page import write_data_page
from mlxcache.dashboard.pages.front import write_front_page
from mlxcache.dashboard.pages.quality_page import write_quality_page
from mlxcache.dashboard.pages.render import Pages
from mlxcache.dashboard.pages.suite import suite_sections, write_suite_pages
from mlxcache.history.loading.history import History
from mlxcache.history.loading.series_store import SeriesStore
from mlxcache.reports.events import group_changes, standing
from mlxcache.reports.plain_text import clean
from mlxcache.reports.retired import retired_series
from mlxcache.support.workers import Helpers

# How many figures a build draws at most unless told otherwise: each takes about a third of a second.
FIGURES: Final = 24
_CHART_LIBRARY: Final = "plotly.min.js"


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did."""

    n_files: int
    n_written: int
    n_bytes: int
    n_changes: int
    n_standing: int
    n_figures_left: int
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
    figures: int | None = FIGURES,
    notices: Iterable[str] = (),
) -> Built:
    """Write the site of a history and its changes.

    Args:
        history: what `mlxcache.history.read` or `load` returned; its workers draw figures.
        changes: what `change_points` made of it.
        folder: where to; made if missing. Files of an earlier build are reused or removed, others stay.
        repo: the project's repository, for subjects of commits and links to them.
        branch: whose commits they are.
        title: the project's name; the repository's folder is called like it if this is empty.
        address: where the site will be served, for absolute links in the feed and in texts to paste.
        figures: how many figures to draw at most that are not there yet; None draws all.
        notices: what else a reader should know.

    Raises:
        output.SiteError: the folder holds something else.
        OSError: a file cannot be written.
    """
    started = time.monotonic()
    whole = History.of(history)
    with whole.workers() as helpers:
        helpers.prepare(change_pictures.__name__)
        return _build(
            whole, changes, Output(folder), helpers, started, repo, branch, title, address, figures, notices
        )


def _build(
    history: History,
    changes: pd.DataFrame,
    out: Output,
    helpers: Helpers,
    started: float,
    repo: Path | None,
    branch: str,
    title: str,
    address: str,
    figures: int | None,
    notices: Iterable[str],
) -> Built:
    df, store = history.frame, history.series
    repository = Repository(repo, branch, history.commits)
    retired = retired_series(store, history.commits)
    events = group_changes(changes, retired)
    name = title or repository.name or "Benchmarks"
    notes = [*history.notices, *notices]
    recent = store.newest_rows(df, KEEP_COMMITS)  # a few values of each series are all that these pages need
    sections = suite_sections(recent)
    pages = Pages(
        out,
        title=clean(name),
        sections=_sections(store, sections),
        n_standing=len(standing(events)),
        commit_address=repository.address,
        commit_subject=repository.subject,
        commit_day=lambda commit: day(history.commits.get(commit)),
    )
    _write_static(out)
    noise = {machine: machine_noise(store, positions) for machine, positions in store.by_machine.items()}
    covered = coverage(df, store, repository)

    pictures = ChangePictures(out, df, store, figures, helpers)
    left = write_change_pages(pages, out, pictures, store, events, changes, repository, address)
    write_front_page(pages, df, store, events, answer(df, store, events, retired), noise, covered, notes)
    if len(store):
        write_explorer_data(out, df, store, events)
        pages.page("explorer.html", "explorer.html")
        write_benchmark_pages(pages, store, events)
        write_quality_page(pages, store, noise, covered)
        write_suite_pages(pages, out, sections)
    write_data_page(pages, df, store, events, notes, beside_asv=(out.folder / "asv" / "index.html").is_file())
    out.text(feed.JSON_PATH, feed.as_changes_json(events))
    out.data(feed.FEED_PATH, feed.as_feed(events, name, address, history.commits))
    pictures.finish()
    out.finish()
    return Built(
        out.n_files, out.n_written, out.n_bytes, len(events), len(standing(events)), left,
        time.monotonic() - started,
    )  # fmt: skip


def _sections(store: SeriesStore, suites: dict[str, Any]) -> list[tuple[str, str]]:
    """What the navigation lists: only pages that have something to show."""
    found = [("index.html", "Overview"), ("changes.html", "Changes")]
    if len(store):
        found += [("explorer.html", "Explorer"), ("benchmarks.html", "Benchmarks")]
        found += [(f"{slug}.html", section.title) for slug, section in suites.items()]
        found.append(("quality.html", "Noise & coverage"))
    return [*found, ("data.html", "Data")]


def _write_static(out: Output) -> None:
    for file in sorted(resources.files("mlxcache.dashboard").joinpath("static").iterdir(), key=lambda f: f.name):
        if file.is_file():
            out.data(f"static/{file.name}", file.read_bytes())
    library = resources.files("plotly").joinpath("package_data", _CHART_LIBRARY)
    out.data(f"static/{_CHART_LIBRARY}", library.read_bytes())


__all__ = ["FIGURES", "Built", "build_site"]
