"""Asks a system's own commands: whatever one of them does, there is an answer, and its trouble is said."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

# Where systems keep them: the PATH of cron, launchd or a service often lacks /usr/sbin.
_USUAL: Final = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
_PATIENCE_S: Final = 10.0


@dataclass(frozen=True)
class Answer:
    """What a command printed, and `trouble`: "" or why that may not be all of it."""

    text: str
    trouble: str = ""


Ask = Callable[..., Answer]


def ask(*command: str, patience: float = _PATIENCE_S) -> Answer:
    """Run a command in the C locale and take what it prints, also where it fails; at most `patience` seconds.

    sysctl, for one, prints what it knows and then fails for a name that it does not know.
    """
    name = command[0]
    path = os.pathsep.join([os.environ.get("PATH", ""), *_USUAL])
    program = shutil.which(name, path=path)
    if program is None:
        return Answer("", f"{name} is missing")
    try:
        done = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience,
            check=False,
            env={**os.environ, "LC_ALL": "C", "LANG": "C"},
        )
    except subprocess.TimeoutExpired as error:
        return Answer(_text(error.stdout), f"{name} did not answer within {patience:g} s")
    except OSError as error:
        return Answer("", f"{name} cannot be run: {error.strerror or error}")
    said = _text(done.stdout)
    if done.returncode == 0:
        return Answer(said)
    last = [line.strip() for line in _text(done.stderr).splitlines() if line.strip()][-1:]
    return Answer(said, f"{name} ended with status {done.returncode}" + (f": {last[0][:200]}" if last else ""))


def _text(raw: bytes | str | None) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw or ""
