"""Which benchmark suite belongs to a commit: its own, taken out of the repository as it was committed.

A suite in the working tree may be edited while it is measured, and base's own suite is nowhere but in the
repository. So the whole tree of a commit is written to a folder of ours, since benchmarks read files beside them.
Nothing is registered in the user's repository.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mlxcache.support.git import run_git


class SuiteError(Exception):
    """A commit's suite could not be written to disk; the message says why."""


@dataclass(frozen=True)
class Suite:
    """A folder of benchmarks on disk.

    `folder` is what asv calls benchmark_dir. `commit` is where it comes from, "" for the working tree; `tree`
    git's name of its content, "" where nobody knows.
    """

    folder: Path
    commit: str
    tree: str

    @property
    def name(self) -> str:
        """How a reader should think of it."""
        return f"{self.folder.name} of {self.commit[:10]}" if self.commit else f"the folder {self.folder}"


@dataclass(frozen=True)
class SuiteSource:
    """Where suites come from: `place` below the top of the repository at `top`; `here` is the working tree's."""

    here: Path
    top: Path | None
    place: str

    @classmethod
    def of(cls, config: Path, benchmark_dir: str) -> SuiteSource:
        """For a configuration and its benchmark_dir; `top` is None where no repository holds them."""
        here = Path(os.path.normpath(config.parent / benchmark_dir))
        asked = run_git(config.parent, "rev-parse", "--show-toplevel")
        if not asked.ok:
            return cls(here, None, "")
        top = Path(asked.text.strip("\n"))
        try:
            place = os.path.realpath(here.parent) + os.sep + here.name
            return cls(here, top, Path(place).relative_to(os.path.realpath(top)).as_posix())
        except ValueError:
            return cls(here, None, "")

    def tree_of(self, commit: str) -> str:
        """Git's name of the suite's content at a commit; "" where the commit has none, or is none of these."""
        if self.top is None:
            return ""
        asked = run_git(self.top, "rev-parse", "--verify", "--quiet", f"{commit}:{self.place}")
        name = asked.text.strip()
        # A submodule or a file there is no folder of benchmarks.
        return name if asked.ok and run_git(self.top, "cat-file", "-t", name).text.strip() == "tree" else ""

    def working(self) -> Suite:
        """The suite as it lies in the working tree."""
        return Suite(self.here, "", "")

    def write(self, commit: str, folder: Path) -> Suite | None:
        """The suite of a commit, with all of the commit's other files, in `folder`; None where it has none.

        Raises:
            SuiteError: git could not write it, such as to a full disk.
        """
        tree = self.tree_of(commit)
        if not tree or self.top is None:
            return None
        folder.mkdir(parents=True, exist_ok=True)
        index = {"GIT_INDEX_FILE": str(folder.parent / f"{folder.name}.index")}
        work = f"--work-tree={folder}"
        for arguments in (("read-tree", commit), ("checkout-index", "--all", "--force", "--quiet")):
            # In the repository's own folder git would take its files for the work tree.
            done = run_git(self.top, work, *arguments, environment=index)
            if not done.ok:
                raise SuiteError(f"the suite of {commit[:10]} cannot be written to {folder}: {done.reason}")
        return Suite(folder / self.place, commit, tree)

    def uncommitted(self, besides: tuple[str, ...] = ()) -> list[str]:
        """Files of the working tree that differ from HEAD; `besides` are folders that do not count."""
        if self.top is None:
            return []
        away = [f":(exclude){place}" for place in besides if not os.path.relpath(place, self.top).startswith("..")]
        told = run_git(self.top, "status", "--porcelain", "-z", "--untracked-files=normal", "--", ".", *away)
        found, entries = [], iter(told.text.split("\0"))
        for entry in entries:
            if not entry:
                continue
            if entry[0] in "RC":
                next(entries, None)  # what it was called before
            # A file that git does not know counts only where asv would have taken it for a benchmark.
            if not entry.startswith("??") or entry[3:].startswith((self.place + "/", self.place)):
                found.append(entry[3:])
        return found
