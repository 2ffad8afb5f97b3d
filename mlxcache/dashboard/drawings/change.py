"""The drawing of one change: values with their intervals, both levels, the range, and what is sure about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from mlxcache.dashboard.drawings.chart import Area, Chart, Level, Point, Trace, draw
from mlxcache.dashboard.drawings.numbers import spaced, value_text
from mlxcache.history.loading.series_store import Series
from mlxcache.history.repository.commits import Commit
from mlxcache.reports.plain_text import cut
from mlxcache.reports.units import format_change

AROUND: Final = 60  # values on either side
_FEW: Final = 20  # where the drawing must be small
_MOST_TICKS: Final = 9


def point_words(value: float, low: float, high: float, unit: str, commit: Commit, day: str) -> str:
    """What a pointer on a value reads: value, interval, commit, date, subject."""
    text = value_text(value, unit)
    if np.isfinite(low) and np.isfinite(high):
        text += f" ({value_text(low, unit)} to {value_text(high, unit)})"
    return f"{text}, {commit.name[:10]} {day} {cut(commit.subject, 60)}".strip()


def change_drawing(
    series: Series,
    row: Mapping[str, Any],
    commits: Sequence[Commit],
    days: Sequence[str],
    title: str,
    *,
    small: bool = False,
) -> Markup:
    """A change in its series' history, spaced evenly over the commits that the series has.

    A `small` one has fewer values, and no words on each.
    """
    middle = int(np.searchsorted(series.commits, row["after_index"]))
    around = _FEW if small else AROUND
    part = slice(max(0, middle - around), middle + around)
    own, values, low, high = series.commits[part], series.values[part], series.low[part], series.high[part]
    unit = series.key.unit
    points = [
        Point(i, v, a, b, point_words(v, a, b, unit, commits[c], days[c]))
        for i, (c, v, a, b) in enumerate(
            zip(own.tolist(), values.tolist(), low.tolist(), high.tolist(), strict=True)
        )
    ]
    before = int(np.searchsorted(own, row["before_index"]))
    after = int(np.searchsorted(own, row["after_index"]))
    names = {commit.name: commit.index for commit in commits}
    start = int(np.searchsorted(own, names.get(str(row["segment_start"]), 0)))
    end = int(np.searchsorted(own, names.get(str(row["segment_end"]), int(own[-1])), side="right")) - 1
    old, new = float(row["value_before"]), float(row["value_after"])
    kind = "worse" if row["direction"] == "regression" else "better"
    end = max(after, end)
    levels = [
        Level(start, before, old, value_text(old, unit)),
        Level(after, end, new, value_text(new, unit), f"level {kind}"),
    ]
    areas = [Area(before, after, kind=f"range {kind}", words="the change lies between these two commits")]
    ends = [float(row["ci95_low"]), float(row["ci95_high"])]
    if all(map(np.isfinite, ends)) and old and not row.get("control"):
        sure = sorted(old * (1.0 + e) for e in ends)
        words = f"95 % interval of the change: {format_change(ends[0])} to {format_change(ends[1])}"
        areas.append(Area(after, end, sure[0], sure[1], f"sure {kind}", words))
    picks = spaced(len(own), _MOST_TICKS)
    return draw(
        Chart(
            title=title,
            unit=unit,
            traces=[Trace(points, line=False)],
            x_ticks=[(i, commits[int(own[i])].name[:7]) for i in picks],
            x_title="commits with results, oldest first",
            levels=levels,
            areas=areas,
            plain=small,
        )
    )
