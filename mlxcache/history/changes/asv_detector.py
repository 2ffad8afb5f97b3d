"""asv's own step detector, as a second opinion."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from mlxcache.history.statistics.noise import FloatArray


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
