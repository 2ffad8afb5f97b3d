"""Labelled series of real noise: known changes planted into quiet stretches of public histories.

`tools/noise/` holds the stretches and where each is from. Modes, spells and speeds are drawn; all other noise is
of machines that people use. Projects are held back, not draws: see `FOLDS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tools.labelled import Step

FloatArray = NDArray[np.float64]

FOLDER = Path(__file__).resolve().parent / "noise"
# What is said of a project comes from weights fitted without it; the smallest ones are held back together.
FOLDS = (("scipy",), ("numpy",), ("django",), ("empymod",), ("pybamm", "mjwarp", "sunpy", "uxarray", "conda"))
# Families whose labels nobody would dispute; F1 is over these.
CORE = (
    "quiet",
    "single",
    "recovery",
    "several",
    "outliers",
    "burst of 2",
    "noise",
    "two modes",
    "two modes, step",
)
SIZES = (0.03, 0.05, 0.10, 0.20, 0.50)
_EDGE = 8


@dataclass(frozen=True)
class Stretch:
    """Quiet values of one benchmark, and the project they are from.

    `by_eye`: picked by looking, where rank tests had not been sure.
    """

    tree: str
    values: FloatArray
    by_eye: bool


@dataclass(frozen=True)
class Open:
    """A place at which a change of that sign is neither asked for nor held against anybody."""

    index: int
    sign: int
    reach: int = 2


@dataclass(frozen=True)
class Planted:
    """One series with its answer: `values` in the unit of the benchmark, `level` what was multiplied in."""

    family: str
    tree: str
    values: FloatArray
    clean: FloatArray = field(repr=False)
    level: FloatArray = field(repr=False)
    seed: tuple[int, ...] = field(repr=False)
    steps: tuple[Step, ...] = ()
    open: tuple[Open, ...] = ()
    size: float = 0.0

    def __len__(self) -> int:
        return len(self.values)

    def rerun(self, before: int, after: int, pairs: int) -> tuple[FloatArray, FloatArray]:
        """Measure positions `before` and `after` again, interleaved ABBA: two arrays of `pairs` values.

        The noise of the runs is a part of the quiet stretch, in its order.
        """
        rng = np.random.default_rng([*self.seed, 1_000_003, before, after])
        noise = np.roll(self.clean, int(rng.integers(len(self.clean))))
        noise = np.resize(noise, 2 * pairs)
        head_first = np.arange(pairs) % 2 == 1
        first, second = noise[0::2], noise[1::2]
        base, head = np.where(head_first, second, first), np.where(head_first, first, second)
        return self.level[before] * base, self.level[after] * head


@cache
def stretches() -> tuple[Stretch, ...]:
    """All quiet stretches."""
    data = np.load(FOLDER / "stretches.npz")
    facts = json.loads((FOLDER / "stretches.json").read_text(encoding="utf-8"))
    pieces = np.split(data["values"], data["offsets"][1:-1])
    return tuple(
        Stretch(fact["tree"], piece, fact["tier"] == "eye") for fact, piece in zip(facts, pieces, strict=True)
    )


Plant = Callable[[np.random.Generator, FloatArray], tuple[FloatArray, Sequence[tuple[int, float]], Sequence[Open]]]


def _steps(n: int, steps: Sequence[tuple[int, float]]) -> FloatArray:
    level = np.ones(n)
    for index, size in steps:
        level[index:] *= 1.0 + size
    return level


def single(size: float) -> Plant:
    """One step, at least eight values from both ends."""

    def plant(
        rng: np.random.Generator, clean: FloatArray
    ) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
        steps = [(int(rng.integers(_EDGE, len(clean) - _EDGE + 1)), size)]
        return _steps(len(clean), steps), steps, []

    return plant


def recovery(size: float) -> Plant:
    """A step that is taken back after 5 to 40 values."""

    def plant(
        rng: np.random.Generator, clean: FloatArray
    ) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
        n = len(clean)
        gap = int(rng.integers(5, min(41, n - 20)))
        first = int(rng.integers(_EDGE, n - gap - _EDGE + 1))
        steps = [(first, size), (first + gap, 1.0 / (1.0 + size) - 1.0)]
        return _steps(n, steps), steps, []

    return plant


def several(rng: np.random.Generator, clean: FloatArray) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
    """Two to four steps, ten values or more apart."""
    n, many = len(clean), int(rng.integers(2, 5))
    free = np.sort(rng.integers(0, n - 2 * _EDGE - 10 * (many - 1), many)) + _EDGE + 10 * np.arange(many)
    steps = [(int(i), float(rng.choice([-1, 1]) * rng.choice(SIZES))) for i in free]
    return _steps(n, steps), steps, []


def newest(behind: int, size: float) -> Plant:
    """A step that only the last `behind` values know."""

    def plant(
        rng: np.random.Generator, clean: FloatArray
    ) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
        steps = [(len(clean) - behind, size)]
        return _steps(len(clean), steps), steps, []

    return plant


def drift(total: float, length: int) -> Plant:
    """A ramp over `length` values, or over all (0): no commit is to blame."""

    def plant(
        rng: np.random.Generator, clean: FloatArray
    ) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
        n = len(clean)
        long = min(length or n, n)
        start = int(rng.integers(0, n - long + 1))
        part = np.clip((np.arange(n) - start) / long, 0.0, 1.0)
        return np.exp(part * np.log1p(float(rng.choice([-1, 1])) * total)), [], []

    return plant


def outliers(
    rng: np.random.Generator, clean: FloatArray
) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
    """One to four wild values, anywhere."""
    level = np.ones(len(clean))
    for _ in range(int(rng.integers(1, 5))):
        up = rng.random() < 0.8
        level[int(rng.integers(len(clean)))] = 1.0 + (rng.uniform(0.2, 3.0) if up else -rng.uniform(0.15, 0.5))
    return level, [], []


def burst(*lengths: int) -> Plant:
    """So many slow values in a row; three and more may be called a change, or not."""

    def plant(
        rng: np.random.Generator, clean: FloatArray
    ) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
        n, long = len(clean), int(rng.choice(lengths))
        start = int(rng.integers(_EDGE, n - long - _EDGE + 1))
        level = np.ones(n)
        level[start : start + long] += float(rng.choice([0.1, 0.2, 0.5, 1.0]))
        return level, [], [Open(start, 1), Open(start + long, -1)] if long > 2 else []

    return plant


def noisier(factor: float) -> Plant:
    """One side becomes noisier by `factor`; the median stays."""

    def plant(
        rng: np.random.Generator, clean: FloatArray
    ) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
        x, n = np.log(clean), len(clean)
        split = int(rng.integers(12, n - 11))
        part = slice(split, None) if rng.random() < 0.5 else slice(0, split)
        off = np.zeros(n)
        off[part] = (factor - 1.0) * (x[part] - np.median(x))
        return np.exp(off), [], []

    return plant


def two_modes(*, step: bool) -> Plant:
    """Each value may be slow by itself; with or without a step besides."""

    def plant(
        rng: np.random.Generator, clean: FloatArray
    ) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
        n = len(clean)
        slow = float(rng.choice([0.05, 0.1, 0.2, 0.4])) * (rng.random(n) < float(rng.choice([0.1, 0.3, 0.5])))
        if not step:
            return 1.0 + slow, [], []
        size = float(rng.choice([-1, 1]) * rng.choice([0.05, 0.1, 0.2]))
        steps = [(int(rng.integers(10, n - 9)), size)]
        return (1.0 + slow) * _steps(n, steps), steps, []

    return plant


def slow_spells(*, step: bool) -> Plant:
    """Two modes again, but a slow spell lasts for some values."""

    def plant(
        rng: np.random.Generator, clean: FloatArray
    ) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
        n, share, lasts = len(clean), float(rng.choice([0.1, 0.3, 0.5])), float(rng.choice([1.5, 2.0, 3.0]))
        # Which spell each value belongs to, and whether that one is slow.
        spell = np.cumsum(rng.random(n) < 1.0 / lasts)
        slow = float(rng.choice([0.05, 0.1, 0.2, 0.4])) * (rng.random(n + 1) < share)[spell]
        steps = [(int(rng.integers(10, n - 9)), float(rng.choice([-1, 1]) * rng.choice([0.05, 0.1, 0.2])))]
        return (1.0 + slow) * _steps(n, steps if step else []), steps if step else [], []

    return plant


def growing(rng: np.random.Generator, clean: FloatArray) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
    """Noise that grows, value by value, to two to eight times of what it was."""
    x, n = np.log(clean), len(clean)
    part = np.clip((np.arange(n) - rng.integers(10, n // 2)) / (n / 2), 0.0, 1.0)
    return np.exp((float(rng.choice([2, 4, 8])) - 1.0) * part * (x - np.median(x))), [], []


def three_speeds(
    rng: np.random.Generator, clean: FloatArray
) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
    """From some value on runners of three speeds take turns."""
    n, start = len(clean), int(rng.integers(len(clean) // 2))
    speeds = np.exp(rng.normal(0.0, 0.15, 3))
    level = np.ones(n)
    level[start:] = (speeds / np.median(speeds))[rng.integers(3, size=n - start)]
    return level, [], []


def wild_ends(
    rng: np.random.Generator, clean: FloatArray
) -> tuple[FloatArray, list[tuple[int, float]], list[Open]]:
    """A step, and the oldest or newest value, or both, far off."""
    n = len(clean)
    steps = [(int(rng.integers(10, n - 9)), float(rng.choice([-1, 1]) * rng.choice([0.05, 0.1, 0.2])))]
    level = _steps(n, steps)
    level[[[0], [n - 1], [0, n - 1]][int(rng.integers(3))]] *= float(rng.choice([0.5, 1.5, 2.0, 10.0]))
    return level, steps, []


def _design() -> Iterator[tuple[str, float, int, int, Plant]]:
    """Family, size, number of series, least length, and what is planted."""
    for size in (0.02, *SIZES):
        for sign in (1, -1):
            yield "single", size, 60, 30, single(sign * size)
    for size in SIZES:
        for sign in (1, -1):
            yield "recovery", size, 30, 50, recovery(sign * size)
    yield "several", 0.0, 200, 80, several
    for behind in (1, 2, 3, 4, 5):
        for size in SIZES[1:]:
            for sign in (1, -1):
                yield f"newest {behind}", size, 10, 30, newest(behind, sign * size)
    for total in (0.05, 0.10, 0.20):
        for length in (40, 80, 0):
            yield "drift", total, 14, 80, drift(total, length)
    yield "outliers", 0.0, 200, 30, outliers
    yield "burst of 2", 0.0, 100, 50, burst(2)
    yield "burst of 3 or 4", 0.0, 100, 50, burst(3, 4)
    for factor in (2.0, 3.0, 5.0):
        yield "noise", 0.0, 50, 50, noisier(factor)
    yield "two modes", 0.0, 150, 50, two_modes(step=False)
    yield "two modes, step", 0.0, 150, 50, two_modes(step=True)
    yield "slow spells", 0.0, 50, 60, slow_spells(step=False)
    yield "slow spells, step", 0.0, 50, 60, slow_spells(step=True)
    yield "growing noise", 0.0, 50, 60, growing
    yield "three speeds", 0.0, 50, 60, three_speeds
    yield "wild ends, step", 0.0, 50, 60, wild_ends


def corpus(seed: int, trees: Callable[[str], bool] = lambda tree: True) -> list[Planted]:
    """All series of one seed whose project `trees` takes; another seed plants the same kinds elsewhere."""
    every = stretches()
    strict = [stretch for stretch in every if not stretch.by_eye]
    made = [
        Planted(
            "quiet, by eye" if s.by_eye else "quiet", s.tree, s.values, s.values, np.ones(len(s.values)), (seed, k)
        )
        for k, s in enumerate(every)
    ]
    for kind, (family, size, many, least, plant) in enumerate(_design()):
        pool = [stretch for stretch in strict if len(stretch.values) >= least]
        for number in range(many):
            key = (seed, 1_000 + kind, number)
            rng = np.random.default_rng(list(key))
            base = pool[int(rng.integers(len(pool)))]
            level, steps, places = plant(rng, base.values)
            known = tuple(Step(index, by) for index, by in steps)
            values = base.values * level
            made.append(Planted(family, base.tree, values, base.values, level, key, known, tuple(places), size))
    return [series for series in made if trees(series.tree)]
