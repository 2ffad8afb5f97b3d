"""Consecutive slots, and the cells of a ring by where they lie: integers only."""

from __future__ import annotations

from typing import NamedTuple


class Run(NamedTuple):
    """Consecutive slots `[start, start + length)`."""

    start: int
    length: int

    @property
    def stop(self) -> int:
        """The slot after the last one."""
        return self.start + self.length


def cyclic(first: int, count: int, size: int) -> list[Run]:
    """`count` consecutive slots of a ring of `size` from slot `first % size` on, as one run or two."""
    if count <= 0:
        return []
    start = first % size
    before = min(count, size - start)
    return [Run(start, before), Run(0, count - before)] if before < count else [Run(start, count)]
