"""A series of counts in, its changes out, in the form in which `segments` gives those of seconds."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlxcache.history.changes.confidence import WINDOW, Evidence
from mlxcache.history.changes.segments import Change
from mlxcache.history.statistics.counted import SMALLEST, count_levels, standard_error, two_sided_p
from mlxcache.history.statistics.effect import Shift
from mlxcache.history.statistics.noise import FloatArray

_Z_95: Final = 1.96


def count_changes(x: FloatArray, smallest: float = SMALLEST) -> list[Change]:
    """All changes in the log values `x` of a count, in order; one commit is a level."""
    edges = [0, *count_levels(x, smallest), len(x)]
    return [_change(x, edges[k - 1], edges[k], edges[k + 1]) for k in range(1, len(edges) - 1)]


def _change(x: FloatArray, start: int, index: int, stop: int) -> Change:
    before, after = x[max(start, index - WINDOW) : index], x[index : min(stop, index + WINDOW)]
    shift = float(np.median(after)) - float(np.median(before))
    error = standard_error(len(before), len(after))
    p_value = two_sided_p(shift, error)
    z = shift / error
    margin = _Z_95 * error
    smaller = min(len(before), len(after))
    evidence = Evidence(
        slope=z,
        overlap=1.0,
        elsewhere=0.0,
        smaller_side=smaller,
        at_end=stop == len(x),
        told=z * z / 2.0,
        placed=1.0,
    )
    effect = Shift(shift, shift - margin, shift + margin)
    # A change of this size is as good as certain; the last commit alone has nobody to bear it out.
    sure = min(0.99, 1.0 - math.sqrt(p_value))
    return Change(start, index, stop, effect, math.expm1(abs(shift)), sure, p_value, evidence)
