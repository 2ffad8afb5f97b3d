"""How every command that judges ends, so that a script can tell what it heard.

| status | what it says |
|---|---|
| 0 | nothing is slower |
| 1 | something is slower |
| 2 | it could not be done |
| 3 | cannot tell: too much noise, or too few values |
| 4 | broken or lost: what gave a value before gives none now |

An exception that nobody expected is 2 and never 1.
"""

from __future__ import annotations

import enum


class ExitStatus(enum.IntEnum):
    """The exit statuses of `compare`, `verdict`, `regressions` and whatever else judges."""

    NOTHING_SLOWER = 0
    SLOWER = 1
    NOT_DONE = 2
    CANNOT_TELL = 3
    BROKEN = 4
