"""Releases of a package against each other, at one commit: geometric mean, heat map, lines of each benchmark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from mlxcache.dashboard.data.facts import SiteFacts
from mlxcache.dashboard.data.releases import Mean, Releases, compare_releases
from mlxcache.dashboard.drawings.chart import Chart, Level, Point, Trace, draw
from mlxcache.dashboard.drawings.numbers import value_text
from mlxcache.dashboard.writing.page import Page, Site
from mlxcache.dashboard.writing.tables import Cell, Table, number

_STEPS: Final = (0.02, 0.05, 0.1, 0.2, 0.4)
_MOST_ROWS: Final = 120


def _find(facts: SiteFacts) -> list[Releases] | None:
    return compare_releases(facts) or None


def release_drawing(found: Releases, place: str) -> Markup:
    """The geometric mean of all benchmarks over the releases, each benchmark as a quiet line behind it."""
    quiet = [
        Trace([Point(i, m.ratio, words=f"{name} {version} {value_text(m.ratio, 'ratio')}")
               for i, (m, version) in enumerate(zip(means, found.versions, strict=True)) if m is not None])
        for name, means in found.rows
    ]  # fmt: skip
    points = [
        Point(i, m.ratio, m.low, m.high, f"{found.package} {version}: {_words(m)}")
        for i, (m, version) in enumerate(zip(found.overall, found.versions, strict=True))
    ]
    said = ", ".join(f"{v} {m.ratio:.3g}" for v, m in zip(found.versions, found.overall, strict=True))
    return draw(
        Chart(
            title=f"Geometric mean by release of {found.package} on {place}: {said}",
            unit="ratio",
            traces=[*quiet, Trace(points, "geometric mean", 0)],
            x_ticks=[(i, version) for i, version in enumerate(found.versions)],
            x_title=f"release of {found.package}",
            levels=[Level(0, len(found.versions) - 1, 1.0, kind="reference")],
            include=(1.0,),
            height=330,
        )
    )


def _words(mean: Mean) -> str:
    known = math.isfinite(mean.low)
    between = f" ({mean.low:.3g} to {mean.high:.3g})" if known else ""
    return f"{value_text(mean.ratio, 'ratio')}{between}, {mean.n} values"


def _heat(mean: Mean) -> str:
    if not math.isfinite(mean.low) or mean.low <= 1.0 <= mean.high:
        return "heat-0"
    step = sum(abs(math.log(mean.ratio)) > edge for edge in _STEPS)
    return f"heat-{'up' if mean.ratio > 1 else 'down'}-{step}" if step else "heat-0"


def _others(found: Releases) -> list[str]:
    """What differs besides the package itself, and with which of its releases."""
    told = []
    for name, versions in found.others.items():
        users: dict[str, list[str]] = {}
        for release, version in zip(found.versions, versions, strict=True):
            users.setdefault(version, []).append(release)
        parts = [f"{version} with {', '.join(releases)}" for version, releases in users.items()]
        told.append(f"{name} differs as well: {'; '.join(parts)}.")
    return told


def _write(site: Site, content: Sequence[Releases]) -> None:
    facts = site.facts
    rows = []
    entries = []
    for found in content:
        place = facts.names.machine(found.machine)
        commit = facts.commits[found.commit]
        for name, means in [*found.rows, ("geometric mean of all", found.overall)]:
            for version, mean in zip(found.versions, means, strict=True):
                if mean is not None:
                    ends = (
                        number("", mean.ratio),
                        number("", mean.low),
                        number("", mean.high),
                        number("", mean.n),
                    )
                    texts = (found.package, version, found.versions[0], found.machine, commit.name, name)
                    rows.append([*map(Cell, texts), *ends])
        entries.append((found, commit, release_drawing(found, place)))
    names = (
        "package",
        "version",
        "base_version",
        "machine",
        "commit",
        "benchmark",
        "ratio",
        "low",
        "high",
        "n_values",
    )
    table = site.pages.table(Table("csv/releases.csv", "Releases", names, rows))
    site.pages.page(
        PAGE.path,
        "releases.html",
        others=_others,
        entries=entries,
        table=table,
        heat=_heat,
        words=_words,
        most=_MOST_ROWS,
    )


PAGE: Final = Page("releases.html", "Releases", _find, _write)
