"""The columns that one results file becomes, and the builder that checks every value on its way into them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from mlxcache.history.asv.json_text import Fault, Json, is_clean, is_number, readable, show

Floats = npt.NDArray[np.float64]

OK: Final = 0
FAILED: Final = 1
SKIPPED: Final = 2
UNUSABLE: Final = 3
STATUS_NAMES: Final = ("ok", "failed", "skipped")

# A row of nulls is as long as its parameters say, so a damaged file could ask for any amount of memory.
MAX_COMBINATIONS: Final = 1_000_000

_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode
_NUMERIC: Final = frozenset({float, int, bool, type(None)})


@dataclass(slots=True)
class Head:
    """What a results file says about itself besides values."""

    commit: str = ""
    env: str = ""
    machine: str = ""
    date_ms: int | None = None  # the commit's author date, milliseconds since 1970 UTC, as asv stores it
    python: str = ""
    api_version: int = 0
    params: dict[str, Json] = field(default_factory=dict)  # machine facts (cpu, ram, os, ...) and the matrix
    requirements: dict[str, Json] = field(default_factory=dict)
    env_vars: dict[str, Json] = field(default_factory=dict)
    durations: dict[str, Json] = field(default_factory=dict)  # seconds; "<build>", "<setup_cache ...>"


@dataclass(slots=True)
class Spread:
    """The parts of a results file that are read on request only; aligned with `ParsedFile.values`."""

    q_25: Floats
    q_75: Floats
    samples: Floats  # all samples end to end
    offsets: npt.NDArray[np.int64]  # value i has samples[offsets[i]:offsets[i + 1]]


@dataclass(slots=True)
class ParsedFile:
    """One results file as columns; `layout` says which value belongs to which benchmark and parameters.

    `layout` is a line of JSON a row, [benchmark, version or null, [[parameter values], ...]], in the order of
    the values. Files of one suite share it byte for byte, so it is also the key to what it means.
    """

    head: Head
    layout: bytes
    values: Floats
    status: npt.NDArray[np.int8]  # OK, FAILED, SKIPPED or UNUSABLE (which has its own fault)
    ci_low: Floats
    ci_high: Floats
    n_samples: npt.NDArray[np.int32]  # 0 where asv recorded none
    row_started_ms: Floats  # one a row of the layout; NaN where unknown
    row_duration_s: Floats
    faults: list[Fault]
    spread: Spread | None = None


class Builder:
    """Collects rows; conversion to arrays is done once a file, which is what makes large files quick."""

    def __init__(self, spread: bool) -> None:
        self.faults: list[Fault] = []
        self._spread = spread
        self._layout: list[tuple[str, str | None, list[list[str]]]] = []
        self._counts: list[int] = []
        self._values: list[Json] = []
        self._columns: tuple[list[Json], ...] = tuple([] for _ in range(5 if spread else 3))
        self._started: list[Json] = []
        self._durations: list[Json] = []
        self._samples: list[float] = []
        self._sample_counts: list[int] = []

    def fault(self, row: str, reason: str, n_values: int = 0) -> None:
        """Note what could not be used; `row` is "" for the file."""
        self.faults.append(Fault(row, reason, n_values))

    def add(
        self,
        name: str,
        result: Json,
        params: Json,
        version: Json,
        started: Json = None,
        duration: Json = None,
        ci_low: Json = None,
        ci_high: Json = None,
        n_samples: Json = None,
        q_25: Json = None,
        q_75: Json = None,
        samples: Json = None,
    ) -> None:
        """Add one benchmark's values if their place is certain, else say why not."""
        if params is None:
            params = []
        if not are_params(params):
            reason = f'"params" is {show(params)}, expected a list of lists of strings'
            self.fault(name, reason, count_values(result, None))
            return
        n = 1
        for choices in params:
            n *= len(choices)
        if result is None or (n > 1 and type(result) is list and len(result) == 1 and result[0] is None):
            # A single null for all of them: as early versions of asv wrote a benchmark that failed as a whole.
            if n > MAX_COMBINATIONS:
                self.fault(name, f"null for {n:,} parameter combinations: taken for damage", n)
                return
            self._values += [None] * n
        elif type(result) is not list:
            if n != 1:
                self.fault(name, f"one value {show(result)}, expected a list of {n}", 1)
                return
            self._values.append(result)
        elif len(result) == n:
            self._values += result
        else:
            shape = " x ".join(str(len(choices)) for choices in params) or "no parameters"
            self.fault(name, f"{len(result)} values, expected {n} ({shape}): cannot tell whose", len(result))
            return
        if n_samples is None and type(samples) is list and len(samples) == n:
            n_samples = [len(entry) if type(entry) is list else None for entry in samples]
        found = (ci_low, ci_high, n_samples, q_25, q_75)
        for column, title, cell in zip(self._columns, _COLUMN_TITLES, found, strict=False):
            if type(cell) is list and len(cell) == n:
                column += cell
            else:
                column += [None] * n
                if cell is not None:
                    self.fault(name, f'"{title}" is {show(cell)}, expected a list of {n}: ignored')
        if self._spread:
            self._add_samples(name, samples, n)
        if version is not None and type(version) is not str:
            if type(version) in (int, float, bool):
                version = str(version)
            else:
                self.fault(name, f'"version" is {show(version)}, expected a string: taken as unknown')
                version = None
        self._layout.append((name, version, params))
        self._counts.append(n)
        self._started.append(started)
        self._durations.append(duration)

    def _add_samples(self, name: str, samples: Json, n: int) -> None:
        if type(samples) is not list or len(samples) != n:
            if samples is not None:
                self.fault(name, f'"samples" is {show(samples)}, expected a list of {n} lists: ignored')
            self._sample_counts += [0] * n
            return
        for entry in samples:
            numbers: list[float] = []
            if type(entry) is list:
                if all(is_number(x) for x in entry):
                    numbers = entry
                else:
                    self.fault(name, f'"samples" holds {show(entry)}, expected a list of numbers: ignored')
            elif entry is not None:
                self.fault(name, f'"samples" holds {show(entry)}, expected a list of numbers: ignored')
            self._samples += numbers
            self._sample_counts.append(len(numbers))

    def drop_damaged_text(self) -> None:
        """Give up rows whose names are not valid Unicode: they would start series of their own."""
        start = 0
        for index, (row, n) in enumerate(zip(self._layout, self._counts, strict=True)):
            name, version, params = row
            texts = [name, version or "", *(value for choices in params for value in choices)]
            if not all(map(is_clean, texts)):
                self._values[start : start + n] = [_DAMAGED] * n
                clean = [[readable(value) for value in choices] for choices in params]
                self._layout[index] = (readable(name), version and readable(version), clean)
                self.fault(readable(name), "its name, version or parameters are damaged text", n)
            start += n

    def discard(self, reason: str) -> None:
        """Give up every row: the file's values have no place."""
        lost = len(self._values)
        kept = [*self.faults, Fault("", reason, lost)]
        self.__init__(self._spread)  # type: ignore[misc]
        self.faults = kept

    def finish(self, head: Head) -> ParsedFile:
        """The columns of all rows added."""
        values, status = self._convert_values()
        ci_low, ci_high, n_samples, *quartiles = (
            self._convert(column, title) for column, title in zip(self._columns, _COLUMN_TITLES, strict=False)
        )
        spread = None
        if self._spread:
            offsets = np.zeros(len(self._sample_counts) + 1, np.int64)
            np.cumsum(self._sample_counts, out=offsets[1:])
            spread = Spread(quartiles[0], quartiles[1], np.array(self._samples, np.float64), offsets)
        counted = np.clip(np.nan_to_num(n_samples, nan=0.0), 0, np.iinfo(np.int32).max)
        return ParsedFile(
            head=head,
            layout="\n".join(map(_ENCODE, self._layout)).encode(),
            values=values,
            status=status,
            ci_low=ci_low,
            ci_high=ci_high,
            n_samples=counted.astype(np.int32),
            row_started_ms=_numbers(self._started)[0],
            row_duration_s=_numbers(self._durations)[0],
            faults=[Fault(readable(f.row), readable(f.reason), f.n_values) for f in self.faults],
            spread=spread,
        )

    def _convert_values(self) -> tuple[Floats, npt.NDArray[np.int8]]:
        items = self._values
        values, wrong = _numbers(items)
        missing = np.isnan(values)
        status = np.where(missing, SKIPPED, OK).astype(np.int8)
        if missing.any():
            for index in np.flatnonzero(missing).tolist():
                if items[index] is None:
                    status[index] = FAILED
        infinite = np.flatnonzero(np.isinf(values)).tolist()
        if wrong or infinite:
            owner = self._owners()
            for index in sorted({*wrong, *infinite}):
                status[index] = UNUSABLE
                if items[index] is not _DAMAGED:  # reported with its row
                    self.fault(owner(index), f"value {show(items[index])}, expected a finite number", 1)
            values[status == UNUSABLE] = np.nan
        return values, status

    def _convert(self, items: list[Json], title: str) -> Floats:
        numbers, wrong = _numbers(items)
        if wrong:
            owner = self._owners()
            for row in dict.fromkeys(owner(index) for index in wrong):
                self.fault(row, f'"{title}" holds something else than numbers: ignored there')
        return numbers

    def _owners(self) -> Callable[[int], str]:
        """A function from a value's position to its benchmark's name."""
        ends = np.cumsum(self._counts)
        return lambda index: self._layout[int(np.searchsorted(ends, index, side="right"))][0]


_COLUMN_TITLES: Final = ("stats_ci_99_a", "stats_ci_99_b", "stats_repeat", "stats_q_25", "stats_q_75")
_DAMAGED: Final = object()


def _numbers(items: Sequence[Json]) -> tuple[Floats, list[int]]:
    """The items as float64, NaN where there is none; also the positions of what is no number."""
    if set(map(type, items)) <= _NUMERIC:
        try:
            return np.array(items, np.float64), []  # None becomes NaN
        except OverflowError:
            pass
    numbers = np.full(len(items), np.nan)
    wrong = []
    for index, item in enumerate(items):
        if is_number(item):
            try:
                numbers[index] = item
            except OverflowError:
                wrong.append(index)
        elif item is not None and not (isinstance(item, float) and math.isnan(item)):
            wrong.append(index)
    return numbers, wrong


def are_params(params: Json) -> bool:
    """Whether it is a list of lists of strings, as asv stores parameters."""
    if type(params) is not list:
        return False
    for choices in params:
        if type(choices) is not list:
            return False
        for value in choices:
            if type(value) is not str:
                return False
    return True


def count_values(result: Json, params: Json) -> int:
    """How many values a row that cannot be used holds."""
    if type(result) is list:
        return len(result)
    if result is None and are_params(params):
        return math.prod(len(choices) for choices in params)
    return 1
