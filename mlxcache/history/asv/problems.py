"""What could not be used, and why: a reader never drops a value without saying so."""

from __future__ import annotations

from typing import Any, NamedTuple


class Problem(NamedTuple):
    """One file or row that could not be used, wholly or in part.

    `row` is the benchmark's name in the file, or "" when the problem is the file's. `n_values` counts the
    measured values that are missing from the table because of it (0: nothing is missing, but look at it).
    """

    file: str
    row: str
    reason: str
    n_values: int = 0

    def __str__(self) -> str:
        where = f"{self.file}: {self.row}" if self.row else self.file
        lost = f" [{self.n_values} value{'s' * (self.n_values != 1)} left out]" if self.n_values else ""
        return f"{where}: {self.reason}{lost}"


class Problems(list[Problem]):
    """A list of problems; the copies of a frame that has it in `attrs` share it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Problems:
        # pandas deep-copies attrs on every operation; 100,000 problems would make each of them slow.
        return self

    @property
    def n_values(self) -> int:
        """How many measured values are missing from the table because of these problems."""
        return sum(problem.n_values for problem in self)

    def summary(self) -> str:
        """One line for a command's output, e.g. "3 problems in 2 files, 14 values left out"."""
        if not self:
            return "no problems"
        n_files = len({problem.file for problem in self})
        return (
            f"{len(self)} problem{'s' * (len(self) != 1)} in {n_files} file{'s' * (n_files != 1)}, "
            f"{self.n_values} value{'s' * (self.n_values != 1)} left out"
        )
