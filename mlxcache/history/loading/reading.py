"""Reads machine folders into what the table is made of, and settles which of the same values count."""

from __future__ import annotations

import gc
import re
from collections import ChainMap, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlxcache.history.asv.columns import OK, UNUSABLE, ParsedFile
from mlxcache.history.asv.facts import Benchmark, read_benchmarks, read_machine
from mlxcache.history.asv.json_text import Fault, readable
from mlxcache.history.asv.machines import Rule, kind_of
from mlxcache.history.asv.problems import Problem
from mlxcache.history.asv.tree import MachineFolder
from mlxcache.history.loading.cases import Cases, Meanings, Places
from mlxcache.history.loading.parse_cache import Fetched, ParseCache
from mlxcache.support.progress import progress

# what a results file repeats of its machine.json
_MACHINE_FIELDS: Final = frozenset({"os", "arch", "cpu", "num_cpu", "ram"})

# How many files are read before they are needed, and by how many threads.
_AHEAD: Final = 8
_READERS: Final = 2


@dataclass(slots=True)
class ResultFile:
    """One file that has its place: whose machine, which cases, and which of its values are used."""

    path: str
    host: str  # the machine's own name
    kind: str  # what it counts as
    parsed: ParsedFile
    cases: Places  # of each value, -1 where its benchmark is not wanted
    keep: npt.NDArray[np.bool_] | None = None  # None: all values

    def __len__(self) -> int:
        return len(self.cases) if self.keep is None else int(np.count_nonzero(self.keep))


class Reader:
    """Reads machine folders one after the other; the attributes hold what was found."""

    def __init__(
        self, rules: Sequence[Rule], wanted: re.Pattern[str] | None, cache: Path | None, *, spread: bool
    ) -> None:
        self._rules = rules
        self._cache = cache
        self._spread = spread
        self._meanings: dict[Path, Meanings] = {}
        self._distinct: list[tuple[dict[str, Benchmark], Meanings]] = []
        self._said_in: dict[str, Path] = {}  # the file that an entry of `benchmarks` is from
        self.files: list[ResultFile] = []
        self.problems: list[Problem] = []
        self.machines: dict[str, dict[str, Any]] = {}
        self.benchmarks: dict[str, Benchmark] = {}
        self.cases = Cases(wanted)

    def read(self, folders: Sequence[MachineFolder], show_progress: bool | None = None) -> None:
        """Read every file of the folders; what cannot be used ends in `problems`."""
        for folder in folders:
            self._read_benchmarks(folder.benchmarks_file)
        n_files = sum(len(folder.files) for folder in folders)
        fetched = progress(self._fetch_ahead(folders), "reading results", n_files, enabled=show_progress)
        current: MachineFolder | None = None
        facts: dict[str, Any] = {}
        with _no_garbage_collection():
            for folder, path, cache, future in fetched:
                if folder is not current:
                    current = folder
                    facts, faults = read_machine(folder.machine_file)
                    self._report(folder.machine_file, faults)
                try:
                    content = future.result()
                except OSError as error:
                    self._report(path, [Fault("", f"cannot be read: {error.strerror or error}")])
                    continue
                self._add(path, cache.parse(content), folder, facts)

    def _fetch_ahead(
        self, folders: Sequence[MachineFolder]
    ) -> Iterator[tuple[MachineFolder, Path, ParseCache, Future[Fetched]]]:
        """Every file with its content, which threads read and hash while others are parsed."""
        with ThreadPoolExecutor(_READERS) as pool:
            for folder in folders:
                cache = ParseCache(self._cache, folder.path, spread=self._spread)
                waiting: deque[tuple[Path, Future[Fetched]]] = deque()
                for path in [*folder.files, *[None] * _AHEAD]:
                    if path is not None:
                        waiting.append((path, pool.submit(cache.fetch, path)))
                    if waiting and (path is None or len(waiting) > _AHEAD):
                        yield folder, waiting[0][0], cache, waiting.popleft()[1]
                # Every file of the folder is done before what is left of its entries goes.
                cache.prune()

    def _read_benchmarks(self, path: Path) -> None:
        if path in self._meanings:
            return
        found, faults = read_benchmarks(path)
        self._report(path, faults)
        # Files that say the same share their cases; what a folder does not say, another one may.
        meanings = next((known for said, known in self._distinct if said == found), None)
        if meanings is None:
            meanings = Meanings(len(self._distinct), ChainMap(found, self.benchmarks))
            self._distinct.append((found, meanings))
        self._meanings[path] = meanings
        differ: dict[Path, list[str]] = {}
        for name, benchmark in found.items():
            first = self.benchmarks.setdefault(name, benchmark)
            where = self._said_in.setdefault(name, path)
            if (first.unit, first.param_names) != (benchmark.unit, benchmark.param_names):
                differ.setdefault(where, []).append(name)
        for where, names in differ.items():
            few = ", ".join(map(readable, names[:3])) + ", ..." * (len(names) > 3)
            why = (
                f"{len(names)} of its benchmarks ({few}) have another unit or other parameters in "
                f"{readable(str(where))}: each folder is read by its own"
            )
            self._report(path, [Fault("", why)])

    def _report(self, path: Path, faults: Iterable[Fault]) -> None:
        self.problems += [
            Problem(readable(str(path)), fault.row, fault.reason, fault.n_values) for fault in faults
        ]

    def _add(self, path: Path, parsed: ParsedFile, folder: MachineFolder, facts: dict[str, Any]) -> None:
        self._report(path, parsed.faults)
        if not parsed.head.commit or not parsed.head.env:
            return
        stated = facts.get("machine")
        stated = stated if isinstance(stated, str) else ""
        host = parsed.head.machine or stated or readable(folder.path.name)
        if stated and host != stated:
            why = f"it is of machine {host!r}, but the folder's machine.json says {stated!r}: kept as {host!r}"
            self.problems.append(Problem(readable(str(path)), "", why))
            facts = {}
        known = {key: value for key, value in parsed.head.params.items() if key in _MACHINE_FIELDS}
        known.update(facts)
        kind = kind_of(host, known, self._rules)
        machine = self.machines.setdefault(kind, {"hosts": []})
        if host not in machine["hosts"]:
            machine["hosts"].append(host)
        for key, value in known.items():
            if key not in ("machine", "version"):
                machine.setdefault(key, value)
        parsed.layout = self.cases.shared(parsed.layout)
        cases = self.cases.codes(parsed.layout, self._meanings[folder.benchmarks_file])
        keep = None
        if not self.cases.all_wanted(cases) or parsed.status.max(initial=OK) == UNUSABLE:
            keep = (parsed.status != UNUSABLE) & (cases >= 0)
        self.files.append(ResultFile(readable(str(path)), host, kind, parsed, cases, keep))

    def recorded_dates(self) -> dict[str, int | None]:
        """Each commit's date as the results record it, in seconds; the earliest where files differ."""
        recorded: dict[str, int | None] = {}
        for file in self.files:
            head = file.parsed.head
            date = head.date_ms // 1000 if head.date_ms is not None else None
            known = recorded.get(head.commit)
            recorded[head.commit] = date if known is None else known if date is None else min(date, known)
        return recorded


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Millions of numbers in lists would make the collector search them over and over for cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def settle_duplicates(files: Iterable[ResultFile], full_name: Callable[[str], str]) -> list[Problem]:
    """Where files share host, commit and environment, count equal values once and keep different ones.

    `full_name` tells when two names are the same commit.
    """
    groups: dict[tuple[str, str, str], list[ResultFile]] = defaultdict(list)
    for file in files:
        head = file.parsed.head
        groups[file.host, full_name(head.commit), head.env].append(file)
    problems: list[Problem] = []
    for group in groups.values():
        for position, later in enumerate(group):
            for earlier in group[:position]:
                problems += _compare(earlier, later)
    return problems


def _compare(earlier: ResultFile, later: ResultFile) -> list[Problem]:
    used = np.ones(len(later.cases), np.bool_) if later.keep is None else later.keep
    order = np.argsort(earlier.cases, kind="stable")
    if not len(order):
        return []
    # the place in the earlier file of each case of the later one, or some other place
    found = np.searchsorted(earlier.cases, later.cases, sorter=order)
    places = order[np.minimum(found, len(order) - 1)]
    both = (earlier.cases[places] == later.cases) & used
    if earlier.keep is not None:
        both &= earlier.keep[places]
    a, b = earlier.parsed, later.parsed
    same = both & (a.status[places] == b.status) & ((a.values[places] == b.values) | (b.status != OK))
    n_same, n_other = int(same.sum()), int((both & ~same).sum())
    problems = []
    if n_same:
        later.keep = used & ~same
        why = f"{n_same} of its values are in {earlier.path} as well: counted once"
        problems.append(Problem(later.path, "", why, n_same))
    if n_other:
        why = f"{n_other} of its values are in {earlier.path} as well, but differ: both are kept"
        problems.append(Problem(later.path, "", why))
    return problems
