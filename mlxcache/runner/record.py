"""The state of the machine, kept beside the results that were taken in it.

One JSON object a line in `results/<machine>/runs.jsonl`: asv reads only `.json` files there, and lines can be
appended, and merged, without rewriting what is there.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlxcache.history.merging.records import RUNS
from mlxcache.runner.facts import Machine, State
from mlxcache.support.folder_lock import FolderBusyError, folder_lock

# A merge into the same tree takes no longer.
_WAIT_S = 60.0


def run_record(
    machine: Machine,
    before: State,
    after: State,
    thermal: str | None,
    arguments: list[str],
    status: int,
    files: list[str],
) -> dict[str, Any]:
    """What one run leaves on record: when, on what, in which state, how it was called, what it wrote.

    `thermal` is the worst thermal pressure during the run, None where nobody tells.
    """
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.as_dict(),
        "before": asdict(before),
        "after": asdict(after),
        "thermal": thermal,
        "asv": arguments,
        "status": status,
        "files": files,
    }


def append_record(folder: Path, record: dict[str, Any]) -> None:
    """Add a line to the folder's runs; one write of a whole line, so that two runs at once both keep theirs.

    A merge replaces the file, so it is waited for, unless it takes longer than a minute.
    """
    folder.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record, sort_keys=True) + "\n"
    with ExitStack() as stack:
        with suppress(FolderBusyError):
            stack.enter_context(folder_lock(folder.parent, _WAIT_S))
        _append(folder / RUNS, line)


def _append(path: Path, line: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), "w") as stream:
        stream.write(line)
