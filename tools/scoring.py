"""Counts what a detector got right on labelled series: hits, misses, false alarms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tools.labelled import LabelledSeries
from tools.planted import Planted

# A detection is a hit if it lies within so many commits of a true step of the same sign.
HIT_WITHIN = 2
# Detections and steps below it are counted for nobody and against nobody.
LEAST = 0.025


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


def score_planted(series: Planted, detections: Sequence[Detection]) -> Score:
    """One planted series' counts: as `score_series`, but what is too small and what is open is left out."""
    found = [d for d in detections if abs(math.expm1(d.shift)) >= LEAST - 1e-12]
    asked = [step for step in series.steps if abs(step.size) >= LEAST]
    pairs = sorted(
        (abs(d.index - step.index), j, k)
        for j, step in enumerate(asked)
        for k, d in enumerate(found)
        if abs(d.index - step.index) <= HIT_WITHIN and (d.shift > 0) == (step.size > 0)
    )
    hit: dict[int, int] = {}
    for _, j, k in pairs:
        if j not in hit and k not in hit.values():
            hit[j] = k
    excused = [
        *((step.index, step.size > 0, HIT_WITHIN) for step in series.steps if step not in asked),
        *((place.index, place.sign > 0, place.reach) for place in series.open),
    ]
    false = [
        d
        for k, d in enumerate(found)
        if k not in hit.values()
        and not any(abs(d.index - i) <= reach and (d.shift > 0) == up for i, up, reach in excused)
    ]
    score = Score(len(hit), len(asked) - len(hit), len(false))
    score.by_size[series.size] += len(asked)
    score.found_by_size[series.size] += len(hit)
    if not series.steps:
        score.quiet_alarms, score.quiet_points = len(false), len(series)
    return score


def is_hit(series: Planted, index: int, shift: float) -> bool:
    """Whether a step of that sign is near."""
    return any(abs(step.index - index) <= HIT_WITHIN and (step.size > 0) == (shift > 0) for step in series.steps)


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
