"""The order of releases: 0.9 comes before 0.30."""

from __future__ import annotations

import re


def release_key(version: str) -> list[tuple[int, int, str]]:
    """Numbers in a version compare as numbers, everything else as text."""
    parts = re.findall(r"\d+|[^\d.]+", version)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts]
