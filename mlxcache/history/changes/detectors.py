"""Where a series may have changed: detectors that can be swapped for one another.

A detector gets logarithms of values in commit order and answers with the first index of every new level. It
only
proposes: `mlxcache.history.changes.segments` weighs each proposal and drops the weak ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from mlxcache.history.statistics.noise import (
    FloatArray,
    autocorrelation,
    clip_outliers,
    inflation,
    residuals,
    short_term_sigma,
)

_OVERLAP: Final = 64


class Detector(Protocol):
    """Anything that proposes change points."""

    def boundaries(self, x: FloatArray) -> list[int]:
        """Indices in increasing order at which a new level begins; 0 and len(x) are never among them."""


@dataclass(frozen=True)
class PeltDetector:
    """Penalised least squares on clipped values (PELT; Killick, Fearnhead and Eckley, JASA 2012).

    A new level has to lower the squared error by `penalty` * sigma**2 * log(n). Sigma is taken from
    neighbouring differences first, then from the residuals of a first pass, because two-mode noise fools the
    differences; the residuals' autocorrelation raises the penalty, because slow wandering looks like many
    small steps.
    """

    min_size: int = 3
    first_penalty: float = 2.0
    penalty: float = 2.0
    clip: float = 3.0
    inflate: bool = True
    piece: int = 256

    def boundaries(self, x: FloatArray, pieces: Collection[int] | None = None) -> list[int]:
        """See `Detector`; a series shorter than two segments has no change.

        `pieces` are the starts of those `pieces` in which the first pass finds anything, where that is known
        (`mlxcache.history.changes.quiet`); the others are not searched.
        """
        n = len(x)
        if n < 2 * self.min_size:
            return []
        sigma = short_term_sigma(x)
        clipped = clip_outliers(x, sigma, self.clip)
        first = self._segment(clipped / sigma, self.first_penalty * math.log(n), pieces)
        if not first:
            return []  # the second pass asks for more
        rest = residuals(clipped, first)
        sigma = max(sigma, math.sqrt(float(rest @ rest) / max(1, n - len(first) - 1)))
        factor = inflation(autocorrelation(rest)) if self.inflate else 1.0
        if self.penalty < self.first_penalty:
            pieces = None  # a piece may hold something for the second pass alone
        return self._segment(clipped / sigma, self.penalty * factor * math.log(n), pieces)

    def _segment(self, scaled: FloatArray, penalty: float, pieces: Collection[int] | None = None) -> list[int]:
        """Boundaries of the whole series, from pieces: PELT takes time with the square of the length.

        Pieces overlap, and each answers for the part that is OVERLAP / 2 away from its inner ends. A level is
        judged against its surroundings later, so what lies beyond a piece is not missed here.
        """
        n = len(scaled)
        if n <= self.piece:
            return self._search(scaled, penalty)
        found: list[int] = []
        for start, stop in self.pieces(n):
            if pieces is not None and start not in pieces:
                continue
            first = start + _OVERLAP // 2 if start else 0
            last = stop - _OVERLAP // 2 if stop < n else n
            found += [start + b for b in self._search(scaled[start:stop], penalty) if first <= start + b < last]
        # Two pieces may place the same step differently, on either side of the seam.
        return [b for k, b in enumerate(found) if k == 0 or b - found[k - 1] >= self.min_size]

    def pieces(self, n: int) -> list[tuple[int, int]]:
        """Where the pieces of `n` values start and stop."""
        if n <= self.piece:
            return [(0, n)]
        step = self.piece - _OVERLAP
        return [(start, min(start + self.piece, n)) for start in range(0, n - _OVERLAP, step)]

    def _search(self, scaled: FloatArray, penalty: float) -> list[int]:
        import ruptures  # with most of scipy: who searches nothing can do without

        # The linear kernel's cost is the squared error, and this class runs PELT in C: 0.5 ms where
        # ruptures.Pelt takes 700 ms for 500 points.
        search = ruptures.KernelCPD(kernel="linear", min_size=self.min_size)
        centred = (scaled - scaled.mean()).reshape(-1, 1)
        return [int(end) for end in search.fit(centred).predict(pen=penalty)[:-1]]


@dataclass(frozen=True)
class AsvDetector:
    """asv's own step detector (an L1 Potts model), as a second opinion; 40 ms for 500 points.

    Only steps of at least `min_change` (relative) between levels that last `min_size` commits or more are
    proposed. asv promises no API for `asv.step_detect`; it has had this one since 2015.
    """

    min_change: float = 0.025
    min_size: int = 2

    def boundaries(self, x: FloatArray) -> list[int]:
        """See `Detector`."""
        from asv.step_detect import detect_steps

        steps = detect_steps([float(value) for value in np.exp(x)])
        found = []
        for before, after in itertools.pairwise(steps):
            long_enough = min(before[1] - before[0], after[1] - after[0]) >= self.min_size
            if long_enough and abs(after[2] / before[2] - 1.0) >= self.min_change:
                found.append(int(after[0]))
        return found


@dataclass(frozen=True)
class ThresholdDetector:
    """The plain rule of many CI jobs.

    A value is `threshold` off the median of the `window` values before it.
    """

    threshold: float = 0.10
    window: int = 5

    def boundaries(self, x: FloatArray) -> list[int]:
        """See `Detector`; after an alarm the window starts anew."""
        found: list[int] = []
        start = 0
        for i in range(1, len(x)):
            if i - start < self.window:
                continue
            recent = float(np.median(x[max(start, i - self.window) : i]))
            if abs(math.expm1(float(x[i]) - recent)) > self.threshold:
                found.append(i)
                start = i
        return found
