"""Finds the series that need a closer look; imports little, so that a helper which does it starts at once."""

from __future__ import annotations

from collections.abc import Sequence

from mlxcache.history.changes.certificate_store import CertificateStore, Used
from mlxcache.history.changes.detectors import PeltDetector
from mlxcache.history.changes.quiet import loud
from mlxcache.history.changes.segments import log_values
from mlxcache.history.statistics.control import Control, divide_best
from mlxcache.history.statistics.noise import FloatArray


def screen(
    series: Sequence[tuple[FloatArray, Sequence[Control]]],
    detector: PeltDetector,
    certificates: CertificateStore | None,
) -> tuple[dict[int, frozenset[int]], Used]:
    """What `quiet.loud` says of series of values and what ran beside them; also the certificates of use."""
    xs = [divide_best(log_values(values)[0], controls)[0] for values, controls in series]
    found = loud(xs, detector, certificates if certificates is not None else {})
    return found, certificates.take_used() if certificates is not None else Used([], {})
