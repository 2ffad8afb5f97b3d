"""Counts what a detector got right on labelled series: hits, misses, false alarms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tools.labelled import LabelledSeries

# A detection is a hit if it lies within so many commits of a true step of the same sign.
HIT_WITHIN = 2


@dataclass(frozen=True)
class Detection:
    """What a detector says: the first index on the new level, and a shift whose sign is the direction."""

    index: int
    shift: float


@dataclass
class Score:
    """Sums over series.

    `by_size` and `found_by_size` count true steps by the size that the series was drawn with.
    """

    hits: int = 0
    misses: int = 0
    false_alarms: int = 0
    quiet_alarms: int = 0
    quiet_points: int = 0
    by_size: Counter[float] = field(default_factory=Counter)
    found_by_size: Counter[float] = field(default_factory=Counter)

    @property
    def precision(self) -> float:
        """Share of detections that are hits; 1 if there are none."""
        detections = self.hits + self.false_alarms
        return self.hits / detections if detections else 1.0

    @property
    def recall(self) -> float:
        """Share of true steps that were hit; 1 if there are none."""
        steps = self.hits + self.misses
        return self.hits / steps if steps else 1.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2.0 * self.hits / max(1, 2 * self.hits + self.false_alarms + self.misses)

    @property
    def false_per_1000(self) -> float:
        """False alarms per 1,000 commits of series in which nothing happened."""
        return 1000.0 * self.quiet_alarms / self.quiet_points if self.quiet_points else 0.0

    def recall_at(self, size: float) -> float:
        """Recall among steps of one size."""
        return self.found_by_size[size] / self.by_size[size] if self.by_size[size] else float("nan")


def score_series(series: LabelledSeries, detections: Sequence[Detection]) -> Score:
    """One series' counts.

    Each step takes the nearest detection that is still free; the others are false alarms.
    """
    free = list(detections)
    score = Score()
    for step in series.steps:
        fits = [d for d in free if abs(d.index - step.index) <= HIT_WITHIN and (d.shift > 0) == (step.size > 0)]
        score.by_size[series.size] += 1
        if fits:
            free.remove(min(fits, key=lambda d: abs(d.index - step.index)))
            score.hits += 1
            score.found_by_size[series.size] += 1
        else:
            score.misses += 1
    score.false_alarms = len(free)
    if not series.steps:
        score.quiet_alarms = len(free)
        score.quiet_points = len(series)
    return score


def add_scores(a: Score, b: Score) -> Score:
    """The sum of two scores."""
    return Score(
        a.hits + b.hits,
        a.misses + b.misses,
        a.false_alarms + b.false_alarms,
        a.quiet_alarms + b.quiet_alarms,
        a.quiet_points + b.quiet_points,
        a.by_size + b.by_size,
        a.found_by_size + b.found_by_size,
    )
