"""All detectors by name: a new one is a module with a class like these, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mlxcache.history.changes.asv_detector import AsvDetector
from mlxcache.history.changes.detectors import Detector, KernelDetector

#: What `mlxcache regressions --detector` knows; the first one is used unless another is named.
DETECTORS: Final[Mapping[str, Callable[[], Detector]]] = {"kernel": KernelDetector, "asv": AsvDetector}
