"""Runs a program that counts, in a folder of its own, and gives what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .counter import Counter, CountError

HERE = Path(__file__).resolve().parent
LAUNCH, ASV_CHILD, CALL_CHILD = (str(HERE / name) for name in ("launch.py", "asv_child.py", "call_child.py"))


def count_call(
    counter: Counter, module: str, qualified: str, arguments: list[Any], timeout: float = 600.0
) -> dict[str, Any]:
    """Samples of `module`'s `qualified` called with `arguments`, as `sampling.sample` gives them.

    Raises CountError with what the process said if it dies, takes over `timeout` seconds, or leaves nothing.
    """
    with tempfile.TemporaryDirectory(prefix="mlxcache-count-") as folder:
        result = Path(folder) / "result.json"
        given = [json.dumps(sys.path), module, qualified, json.dumps(arguments)]
        command = [sys.executable, LAUNCH, counter.name, folder, CALL_CHILD, counter.name, folder, str(result)]
        try:
            done = subprocess.run(
                [*command, *given],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout,
                env=dict(os.environ),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CountError(f"{module}.{qualified}: not counted within {timeout:.0f} s") from error
        said = "\n".join(part for part in (done.stdout.strip(), what_was_said(Path(folder))) if part)
        if done.returncode or not result.exists():
            raise CountError(f"{module}.{qualified}: counting ended with status {done.returncode}\n{said}")
        samples: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return samples


def what_was_said(folder: Path) -> str:
    """What the counter itself wrote of what went wrong, such as an instruction that valgrind does not know."""
    lines = []
    for path in sorted(folder.glob("said.*")):
        try:
            lines += path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
    return "\n".join(line for line in lines if _matters(line))


_USUAL = (
    "Callgrind",
    "Copyright",
    "Using Valgrind",
    "Using source line",
    "Command:",
    "Parent PID",
    "For interactive",
    "Events",
    "Collected",
    "I   refs",
    "brk segment",
    "(see section Limitations",
    "NOTE: further instances",
)


def _matters(line: str) -> bool:
    text = line.partition("== ")[2].strip() or line.strip()
    return bool(text) and not text.startswith(("==", *_USUAL))
