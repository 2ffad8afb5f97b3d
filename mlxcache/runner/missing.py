"""Which commits a machine has no results of, the most telling one first."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any


def in_order(line: Sequence[str], measured: Collection[str]) -> list[str]:
    """The commits of `line` that are not measured: its ends first, then the middle of the longest gap, and so on.

    So a run that is stopped leaves commits spread over the whole line, and the next one goes on.
    """
    done = {place for place, commit in enumerate(line) if commit in measured}
    left = set(range(len(line))) - done
    order = [place for place in (len(line) - 1, 0) if place in left]
    order = list(dict.fromkeys(order))
    done |= set(order)
    left -= set(order)
    while left:
        place = max(left, key=lambda p: (min(abs(p - other) for other in done), p))
        order.append(place)
        done.add(place)
        left.remove(place)
    return [line[place] for place in order]


def with_results(folder: Path, counter: str) -> set[str]:
    """Commits of which a machine's folder has results, counted by `counter` (a series' name; "": not counted)."""
    found = set()
    for path in folder.glob("*.json"):
        try:
            document: Any = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue  # what cannot be read has to be measured again; `mlxcache doctor` names it
        if isinstance(document, dict) and isinstance(document.get("results"), dict) and document["results"]:
            variables = document.get("env_vars")
            has = variables.get("MLXCACHE_COUNTER", "") if isinstance(variables, dict) else ""
            if has == counter:
                found.add(str(document.get("commit_hash")))
    return found
