"""Where a series may have changed: detectors that can be swapped for one another.

A detector gets logarithms of values in commit order and answers with the first index of every new level. It only
proposes: `mlxcache.history.changes.segments` weighs each proposal and drops the weak ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from mlxcache.history.statistics.noise import FloatArray, clip_outliers, median, width

_OVERLAP: Final = 64
# Lengths of the stretches before and after a place that are compared to see whether it is worth a search.
_LENGTHS: Final = (3, 5, 8, 13, 21, 40)
_STRETCHES: Final = (
    *((n, n) for n in _LENGTHS),
    *((n, _LENGTHS[-1]) for n in _LENGTHS[:-1]),
    *((_LENGTHS[-1], n) for n in _LENGTHS[:-1]),
)


class Detector(Protocol):
    """Anything that proposes change points."""

    def boundaries(self, x: FloatArray) -> list[int]:
        """Indices in increasing order at which a new level begins; 0 and len(x) are never among them."""


@dataclass(frozen=True)
class KernelDetector:
    """Penalised kernel segmentation (PELT; Killick, Fearnhead and Eckley, JASA 2012) with a bell-shaped kernel.

    How alike two values are falls with their distance, measured in `width` standard deviations of the noise of
    that piece of the series, and beyond a few of those they are merely different: a wild value counts like any
    other. A new level has to explain `penalty` values more. That is little: most of what is proposed here is
    dropped later. Each piece is searched by itself, so what is proposed there does not change while the series
    grows elsewhere.
    """

    min_size: int = 3
    penalty: float = 1.5
    width: float = 1.0
    piece: int = 256
    contrast: float = 4.0

    def boundaries(self, x: FloatArray) -> list[int]:
        """See `Detector`; a series shorter than two segments has no change."""
        n = len(x)
        found: list[int] = []
        for start, stop in self._pieces(n):
            first = start + _OVERLAP // 2 if start else 0
            last = stop - _OVERLAP // 2 if stop < n else n
            # What lies beyond a piece is not missed here: a level is judged against its surroundings later.
            found += [start + b for b in self._search(x[start:stop]) if first <= start + b < last]
        # Two pieces may place the same step differently, on either side of the seam.
        return [b for k, b in enumerate(found) if k == 0 or b - found[k - 1] >= self.min_size]

    def _pieces(self, n: int) -> list[tuple[int, int]]:
        """Where the pieces of `n` values start and stop: PELT takes time with the square of the length."""
        step = self.piece - _OVERLAP
        return [(start, min(start + self.piece, n)) for start in range(0, max(1, n - _OVERLAP), step)]

    def _search(self, x: FloatArray) -> list[int]:
        if len(x) < 2 * self.min_size:
            return []
        scaled = (x - median(x)) / width(x)
        if largest_contrast(scaled, self.min_size) < self.contrast:
            return []
        import ruptures  # with much of scipy: who searches nothing can do without

        kernel = {"gamma": 0.5 / self.width**2}
        search = ruptures.KernelCPD(kernel="rbf", min_size=self.min_size, params=kernel)
        return [int(end) for end in search.fit(scaled.reshape(-1, 1)).predict(pen=self.penalty)[:-1]]


def largest_contrast(scaled: FloatArray, least: int = 3) -> float:
    """The largest difference between the means of neighbouring stretches of values, in standard errors.

    `scaled` are values in standard deviations; wild ones count three at most. Stretches are `least` values long
    and longer, up to 40 on one side, and as long as that or shorter on the other. A step whose contrast is small
    everywhere is none that anybody would be sure of, and asking takes a hundredth of what the search for it takes.
    """
    sums = np.concatenate([[0.0], np.cumsum(clip_outliers(scaled, 1.0))])
    means = {n: (sums[n:] - sums[:-n]) / n for n in _LENGTHS if least <= n < len(sums)}
    largest = 0.0
    for left, right in _STRETCHES:
        if left in means and right in means and left + right <= len(scaled):
            # The mean from a place on stands at the place.
            contrast = means[right][left:] - means[left][:-right]
            highest = max(float(contrast.max()), -float(contrast.min()))
            largest = max(largest, highest / math.sqrt(1.0 / left + 1.0 / right))
    return largest
