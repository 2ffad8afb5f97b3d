"""What base measured and head did not: no verdict covers it, so nobody may take the verdict for the whole.

A benchmark that breaks, a suite that skips itself and a runner that died all look the same in a table of what
was compared: they are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pandas as pd

from mlxcache.support.names import series_name

_WHAT: Final = ["machine", "benchmark", "params"]


@dataclass(frozen=True)
class Lost:
    """Series by name that base has and head has not; `elsewhere` differ in environment or version only.

    `reasons` are series that the suites themselves tell to be lost, and why: removed, or a file that head cannot
    import. `one_sided` are machines that measured base or head alone, and which.
    """

    gave_nothing: tuple[str, ...]
    elsewhere: tuple[str, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)
    one_sided: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> tuple[str, ...]:
        """All that is lost."""
        return (*self.gave_nothing, *(name for name in self.reasons if name not in self.gave_nothing))

    def notices(self) -> list[str]:
        """What to tell the reader."""
        told = []
        if self.gave_nothing:
            told.append(
                f"{_count(self.gave_nothing)} ran on base and gave no value on head, so nothing is known about "
                f"{'it' if len(self.gave_nothing) == 1 else 'them'}: {_names(self.gave_nothing)}"
            )
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.reasons.items():
            by_reason.setdefault(reason, []).append(name)
        told += [f"lost: {_names(names)}: {reason}" for reason, names in by_reason.items()]
        for machine, side in self.one_sided.items():
            told.append(f"{machine} measured {side} only, so nothing is known of it")
        if self.elsewhere:
            told.append(
                f"{_count(self.elsewhere)} cannot be compared, since the benchmark's own code or its environment "
                f"changed: {_names(self.elsewhere)}"
            )
        return told


def lost_in_rounds(rounds: pd.DataFrame) -> Lost:
    """From rounds in which both commits were measured in turn."""
    return _lost(rounds[rounds["side"] == "base"], rounds[rounds["side"] == "head"])


def lost_in_table(df: pd.DataFrame, base: str, head: str) -> Lost:
    """From stored results of two commits; machines that have measured one of them only are left out."""
    good = df[(df["status"] == "ok") & df["commit"].isin([base, head])]
    on_base, on_head = good[good["commit"] == base], good[good["commit"] == head]
    machines = [set(side["machine"].astype("str")) for side in (on_base, on_head)]
    alone = dict.fromkeys(machines[0] - machines[1], "base") | dict.fromkeys(machines[1] - machines[0], "head")
    both = on_base["machine"].astype("str").isin(machines[1])
    return replace(_lost(on_base[both.to_numpy(bool)], on_head), one_sided=dict(sorted(alone.items())))


def _lost(base: pd.DataFrame, head: pd.DataFrame) -> Lost:
    exact = [*_WHAT, "env", "version"]
    on_head, anywhere = _keys(head, exact), _keys(head, _WHAT)
    missing: dict[str, None] = {}
    elsewhere: dict[str, None] = {}
    for key in sorted(_keys(base, exact) - on_head):
        name = series_name(key[1], key[2])
        (elsewhere if key[:3] in anywhere else missing)[name] = None
    return Lost(tuple(missing), tuple(elsewhere))


def _keys(frame: pd.DataFrame, columns: list[str]) -> set[tuple[Any, ...]]:
    return set(frame[columns].astype("str").itertuples(index=False, name=None))


def _count(names: Sequence[str]) -> str:
    return "1 series" if len(names) == 1 else f"{len(names)} series"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
