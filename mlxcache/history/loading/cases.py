"""What a results file measures: cases, each a benchmark in one version with one set of parameter values.

A file lists thousands of them and nearly every file lists the same. So a file's list is turned into numbers
once, and what a case means is looked up by its number. What a name means is said by the benchmarks.json beside the
file: two projects in one tree may use one name for two things.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mlxcache.history.asv.facts import Benchmark, default_unit, stable_params

Codes = npt.NDArray[np.signedinteger[Any]]  # as small as the number of categories allows
Places = npt.NDArray[np.intp]  # what indexes arrays fastest

_QUOTED: Final = re.compile(r"u?(['\"])([^\\]*)\1", re.DOTALL)
_CLASS: Final = re.compile(r"<class '([^']+)'>")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


def readable_param(text: str) -> str:
    """A parameter's value as people write it: 'a' without its quotes, <class 'x'> as x, all else as it is."""
    match = _QUOTED.fullmatch(text)
    if match and match[1] not in match[2]:
        return match[2]
    match = _CLASS.fullmatch(text)
    return match[1] if match else text


@dataclass(frozen=True, slots=True)
class Meanings:
    """What the benchmarks of some files mean; `number` tells one such set from the others."""

    number: int
    benchmarks: Mapping[str, Benchmark]


class Cases:
    """Numbers cases as files name them. After `freeze` the attributes below say what each number means.

    `benchmark`, `version`, `params` and `unit` hold, by case, an index into `benchmark_names` and so on;
    `rank` is its place when cases are sorted by benchmark;
    `param_codes[name]` an index into `param_names[name]`, -1 where the benchmark has no such parameter;
    `param_numbers[name]` are the same values as numbers, for parameters of which every value is one.
    """

    def __init__(self, wanted: re.Pattern[str] | None = None) -> None:
        self._wanted = wanted
        self._by_layout: dict[tuple[int, bytes], Places] = {}
        self._layouts: dict[bytes, bytes] = {}
        self._lengths: dict[bytes, list[int]] = {}
        self._by_row: dict[int, dict[bytes, Places]] = {}
        self._meaning: dict[tuple[str, str, tuple[str, ...]], int] = {}
        self._number: dict[tuple[str, str, tuple[str, ...], int], int] = {}
        self._unnamed: list[str] = []  # benchmarks and versions whose parameters nothing names

    def codes(self, layout: bytes, meanings: Meanings) -> Places:
        """The case of each value of a file, -1 where its benchmark is not wanted."""
        known = self._by_layout.get((meanings.number, layout))
        if known is not None:
            return known
        lines = layout.split(b"\n") if layout else []
        # Two layouts differ in a few lines out of hundreds.
        seen = map(self._by_row.setdefault(meanings.number, {}).get, lines)
        rows = [self._row(line, meanings) if row is None else row for line, row in zip(lines, seen, strict=True)]
        codes = np.concatenate(rows) if rows else np.empty(0, np.intp)
        self._by_layout[meanings.number, layout] = codes
        self._lengths[layout] = [len(row) for row in rows]
        return codes

    def shared(self, layout: bytes) -> bytes:
        """The same layout, as the one object that all files share."""
        return self._layouts.setdefault(layout, layout)

    def all_wanted(self, codes: Places) -> bool:
        """Whether the benchmark of each of a file's values is wanted, whose cases these are."""
        return self._wanted is None or bool((codes >= 0).all())

    def row_of_value(self, layout: bytes) -> npt.NDArray[np.int64]:
        """Which row of the file each of its values belongs to."""
        lengths = self._lengths[layout]
        return np.repeat(np.arange(len(lengths)), lengths)

    def _row(self, line: bytes, meanings: Meanings) -> Places:
        by_row = self._by_row[meanings.number]
        known = by_row.get(line)
        if known is not None:
            return known
        name, version, params = json.loads(line)
        benchmark = meanings.benchmarks.get(name)
        if version is None:
            # asv takes a result of unknown version for the current one
            version = benchmark.version if benchmark else ""
        if self._wanted is not None and not self._wanted.search(name):
            codes = np.full(math.prod(map(len, params)), -1, np.intp)
        else:
            number = self._number
            unit = (benchmark.unit if benchmark else "") or default_unit(name)
            names = self._param_names(benchmark, version, params)
            meaning = self._meaning.setdefault((name, unit, tuple(names)), len(self._meaning))
            combinations = itertools.product(*stable_params(params))
            codes = np.array(
                [number.setdefault((name, version, c, meaning), len(number)) for c in combinations], np.intp
            )
        by_row[line] = codes
        return codes

    def freeze(self) -> None:
        """Work out what every case means; no more layouts after this."""
        cases = list(self._number)
        meanings = list(self._meaning)
        rank = {name: code for code, name in enumerate(sorted({name for name, _, _, _ in cases}))}
        self.benchmark_names = list(rank)
        self.benchmark = _codes((rank[name] for name, _, _, _ in cases), len(cases), len(rank))
        self.version, self.version_names = _in_order_seen([version for _, version, _, _ in cases])
        self.params, self.params_names = _in_order_seen([", ".join(values) for _, _, values, _ in cases])
        self.unit, self.unit_names = _in_order_seen([meanings[meaning][1] for _, _, _, meaning in cases])

        by_benchmark = np.argsort(self.benchmark, kind="stable")
        self.rank = np.empty(len(cases), np.int32)
        self.rank[by_benchmark] = np.arange(len(cases), dtype=np.int32)
        found: dict[str, dict[int, str]] = {}
        texts: set[str] = set()  # parameters with a value that is no number: '1' in quotes is none either
        for case, (_, _, values, meaning) in enumerate(cases):
            for name, value in zip(meanings[meaning][2], values, strict=True):
                found.setdefault(name, {})[case] = readable_param(value)
                if not _NUMBER.fullmatch(value):
                    texts.add(name)
        self.param_codes: dict[str, Codes] = {}
        self.param_names: dict[str, list[str]] = {}
        self.param_numbers: dict[str, npt.NDArray[Any]] = {}
        for name, by_case in found.items():
            labels = _natural_order(list(dict.fromkeys(by_case.values())))
            code = {label: index for index, label in enumerate(labels)}
            codes = np.full(len(cases), -1, code_type(len(labels)))
            codes[list(by_case)] = [code[label] for label in by_case.values()]
            self.param_codes[name] = codes
            self.param_names[name] = labels
            if name not in texts:
                self.param_numbers[name] = _as_numbers(labels)

    def _param_names(self, benchmark: Benchmark | None, version: str, params: list[list[str]]) -> list[str]:
        if benchmark and (version == benchmark.version or _same_places(benchmark.params, params)):
            names = list(benchmark.param_names)
        else:
            names = []
        if len(names) != len(params):  # as asv names those that have no name
            names = [f"param{index}" for index in range(1, len(params) + 1)]
            if benchmark and benchmark.param_names:
                self._unnamed.append(f"{benchmark.name} version {version[:8] or 'unknown'}")
        for index, name in enumerate(names):
            if name in names[:index]:
                names[index] = f"{name}_{index + 1}"
        return names

    def choose_param_columns(
        self, wanted: bool | Sequence[str] | None, n_rows: int, limit_bytes: int
    ) -> tuple[list[str], list[str]]:
        """Which parameters become columns, and what to tell the user about it.

        Raises:
            ValueError: a parameter that is asked for does not exist.
        """
        every = list(self.param_codes)
        told = []
        if self._unnamed:
            few = ", ".join(self._unnamed[:3]) + ", ..." * (len(self._unnamed) > 3)
            told.append(
                f"{few}: measured with other parameters, or in another order, than benchmarks.json names; "
                "they are called param1, param2, ... here, since their names are not known"
            )
        if wanted is True:
            return every, told
        if wanted is False:
            return [], []
        if wanted is not None:
            names = [wanted] if isinstance(wanted, str) else list(wanted)
            for name in names:
                if name not in self.param_codes:
                    known = ", ".join(sorted(every)[:20]) or "none"
                    raise ValueError(f"param_columns: no benchmark has a parameter {name!r}; there are: {known}")
            return names, told
        numbers = self.param_numbers
        size = n_rows * sum(
            numbers[name].itemsize + 1 if name in numbers else codes.itemsize
            for name, codes in self.param_codes.items()
        )
        if size <= limit_bytes:
            return every, told
        notice = (
            f"{len(every)} param_ columns would take {size / 2**20:,.0f} MB and are left out: "
            "name those you need in param_columns, or use the column params"
        )
        return [], [*told, notice]


def _same_places(named: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> bool:
    """Whether an older version has its values where the present one has them: not if they changed places."""
    if not named:
        return True
    own, seen = ([set(values) for values in sides] for sides in (named, found))
    if len(own) != len(seen):
        return False
    return all(
        bool(mine & its) or not (any(mine & other for other in own) or _numeric(mine) != _numeric(its))
        for mine, its in zip(seen, own, strict=True)
    )


def _numeric(values: set[str]) -> bool:
    return all(map(_NUMBER.fullmatch, values))


def _natural_order(labels: list[str]) -> list[str]:
    """Numbers by size, anything else as it was."""
    try:
        return sorted(labels, key=float)
    except ValueError:
        return labels


def _as_numbers(labels: Sequence[str]) -> npt.NDArray[Any]:
    """Integers of the smallest size that holds all, or floating-point numbers."""
    if all(_WHOLE.fullmatch(label) for label in labels):
        whole = np.array([int(label) for label in labels], np.int64)
        limit = int(np.abs(whole).max()) if len(whole) else 0
        return whole.astype(np.int16 if limit < 2**15 else np.int32 if limit < 2**31 else np.int64)
    return np.array([float(label) for label in labels], np.float64)


def _in_order_seen(labels: list[str]) -> tuple[Codes, list[str]]:
    code: dict[str, int] = {}
    numbers = [code.setdefault(label, len(code)) for label in labels]
    return _codes(numbers, len(numbers), len(code)), list(code)


def _codes(numbers: Any, n: int, n_categories: int) -> Codes:
    return np.fromiter(numbers, code_type(n_categories), n)


def code_type(n_categories: int) -> type[np.signedinteger[Any]]:
    """The smallest integer type that numbers so many categories."""
    return np.int8 if n_categories <= 127 else np.int16 if n_categories <= 32_767 else np.int32
