"""A line on the terminal for whatever takes more than a second; silent when nobody watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

_PATIENCE_S = 1.0
_INTERVAL_S = 0.1


def progress(
    items: Iterable[T], label: str, total: int | None = None, *, enabled: bool | None = None
) -> Iterator[T]:
    """Yield the items; after a second, say on stderr how many are done.

    `enabled` None: only where stderr is a terminal.
    """
    if enabled is None:
        enabled = sys.stderr is not None and sys.stderr.isatty()
    if not enabled:
        yield from items
        return
    if total is None and isinstance(items, Sequence):
        total = len(items)
    due = time.monotonic() + _PATIENCE_S
    shown = 0
    try:
        for done, item in enumerate(items):
            if time.monotonic() >= due:
                text = f"{label}: {done:,}" + (f" of {total:,}" if total is not None else "")
                print(f"\r{text.ljust(shown)}", end="", file=sys.stderr, flush=True)
                shown = len(text)
                due = time.monotonic() + _INTERVAL_S
            yield item
    finally:
        if shown:
            print(f"\r{' ' * shown}\r", end="", file=sys.stderr, flush=True)
