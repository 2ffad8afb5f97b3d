"""One number from many samples of a benchmark, on a machine that others use too.

Disturbance only ever adds time, and a shared machine is disturbed in modes (another tenant, another way of waking
a thread) that last for seconds. A low quantile over short rounds spread over minutes sits in the undisturbed mode
as long as a quarter of the samples do; the median needs half of them. The minimum is lower still but rests on a
single sample. See docs/measuring.md for what was measured.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

LOW: Final = 0.25


def low_quantile(samples: npt.ArrayLike, quantile: float = LOW) -> float:
    """The lower quartile of the finite samples, in their unit; NaN if there are none.

    Raises ValueError for a quantile outside 0 to 1.
    """
    if not 0 <= quantile <= 1:
        raise ValueError(f"quantile: got {quantile}, expected 0 <= quantile <= 1")
    values = np.asarray(samples, dtype=np.float64)
    values = values[np.isfinite(values)]
    return float(np.quantile(values, quantile)) if values.size else float("nan")


def disturbance(samples: npt.ArrayLike) -> float:
    """How far the median lies above the low quantile, as a share of it: 0 on a machine of one's own."""
    values = np.asarray(samples, dtype=np.float64)
    values = values[np.isfinite(values)]
    return float(np.median(values) / low_quantile(values) - 1) if values.size else float("nan")
