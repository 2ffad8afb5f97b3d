"""Says what is wrong with a run that measured nothing: asv's own status is 0 or 1 for most of that.

A gate that measured nothing must not be green, and no reader may take it for a regression.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pandas as pd

from mlxcache.history import load
from mlxcache.history.statistics.control import is_control
from mlxcache.runner.shards import Shard

# What asv says when it gives up, and what to do about it.
_ADVICE: Final = (
    (
        re.compile(r"No environments selected"),
        'no environment could be made: install an interpreter that asv.conf.json names in "pythons", or name one '
        "that is there with -E (`asv check` shows what asv finds)",
    ),
    (
        re.compile(r"No benchmarks selected"),
        'no benchmark ran: nothing matches --bench, or "benchmark_dir" in asv.conf.json holds no benchmarks',
    ),
    (
        re.compile(r"No commit hashes selected"),
        "no commit was selected: the range is empty; `git log RANGE` shows what is in it",
    ),
    (
        re.compile(r"Failed to build the project"),
        "the project could not be built, so no benchmark ran: asv's log above has the build's error",
    ),
    (re.compile(r"Unknown commit|Unknown branch|unknown revision"), "give a commit that the repository has"),
)


@dataclass(frozen=True)
class Outcome:
    """What to tell: `problems` make the run one that could not be done, `notes` do not."""

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()


def nothing_written(said: Sequence[str], shard: Shard | None = None) -> Outcome:
    """A run that left no result, from what asv said in its last words."""
    if shard is not None and any("No benchmarks selected" in line for line in said):
        return Outcome(
            (
                f"shard {shard.index}/{shard.count} has no benchmark: nothing matches --bench, or there are more "
                "shards than benchmarks",
            )
        )
    for pattern, advice in _ADVICE:
        for line in said:
            if pattern.search(line):
                return Outcome((advice, *_last_words(said)))
    return Outcome(
        ("asv wrote no result, so nothing was measured; its messages above say why", *_last_words(said))
    )


def _last_words(said: Sequence[str]) -> list[str]:
    return [f"asv said: {line}" for line in said[-3:]]


def judge_run(results: Path, files: Sequence[Path], since_ms: float) -> Outcome:
    """A run that wrote `files` below `results`, of which it measured what started after `since_ms` (Unix time)."""
    rows = rows_of_run(results, files, since_ms)
    if rows.empty:
        return Outcome(("asv wrote files but no value of this run is in them: nothing was measured",))
    suite = rows[[not is_control(str(name)) for name in rows["benchmark"]]]
    if suite.empty:
        return Outcome(())  # somebody asked for the controls alone
    empty: dict[str, str] = {}
    good = 0
    for commit, group in suite.groupby("commit", observed=True):
        counts = Counter(group["status"].astype("str"))
        good += counts["ok"]
        if not counts["ok"]:
            empty[str(commit)] = _why(counts)
    told = tuple(f"commit {commit[:10]} gave no value: {why}" for commit, why in empty.items())
    if not good:
        return Outcome(told)
    return Outcome((), told)


def _why(counts: Mapping[str, int]) -> str:
    failed, skipped = counts.get("failed", 0), counts.get("skipped", 0)
    if not failed:
        return (
            f"all {skipped} benchmarks skipped themselves (NotImplementedError in setup), so nothing is known; "
            "`--show-stderr` shows their reasons"
        )
    if not skipped:
        return (
            f"all {failed} benchmarks failed, as they do when it cannot be built or imported: asv's log above has "
            "the error, `--show-stderr` shows more"
        )
    return f"{failed} benchmarks failed and {skipped} skipped themselves; `--show-stderr` shows why"


def rows_of_run(results: Path, files: Sequence[Path], since_ms: float) -> pd.DataFrame:
    """The table's rows that these files gained since then."""
    wanted = {path.resolve() for path in files}
    folders = sorted({path.parent for path in files})
    table = load(folders, timing=True, param_columns=False, cache=False, show_progress=False)
    table = table[[Path(str(name)).resolve() in wanted for name in table["file"]]]
    started = pd.to_datetime(table["started_at"], utc=True)
    # asv keeps whole milliseconds
    recent: pd.DataFrame = table[(started >= pd.Timestamp(since_ms - 1.0, unit="ms", tz="UTC")).fillna(False)]
    return recent
