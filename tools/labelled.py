"""Series whose changes are known, so that a detector can be measured instead of believed.

Every series is drawn from one of eight noise models seen on shared machines, with steps of known place and
size (or none). A series also knows how to draw *more* of its noise, so that a rerun of two commits can be
simulated without looking at the answer.

Two splits exist, and they differ in the seed of every single draw. Constants, thresholds and the calibration
of the confidence are chosen on `Split.TUNE`; the numbers in docs/detector.md come from `Split.HELD_OUT`,
which no tuning tool may read (`tools/tune_detector.py` reads `TUNE` alone).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LENGTHS = (50, 100, 200, 500)
STEP_SIZES = (0.03, 0.05, 0.10, 0.20)
# A step has at least this many commits on both sides: what happened at the very edge has no answer yet.
MARGIN = 8


class Split(enum.Enum):
    """Which seeds a corpus is drawn from."""

    TUNE = 20_240_111
    HELD_OUT = 77_310_905


def _gaussian(sigma: float) -> Callable[[np.random.Generator, int], FloatArray]:
    def draw(rng: np.random.Generator, n: int) -> FloatArray:
        return rng.normal(0.0, sigma, n)

    return draw


def _heavy_tail(rng: np.random.Generator, n: int) -> FloatArray:
    """Student's t with 3 degrees of freedom: most runs agree within 2 %, some are far off."""
    return 0.015 * rng.standard_t(3.0, n)


def _skewed(rng: np.random.Generator, n: int) -> FloatArray:
    """A floor that cannot be beaten and delays on top of it."""
    return rng.normal(0.0, 0.005, n) + rng.gamma(1.5, 0.02, n)


def _two_modes(rng: np.random.Generator, n: int) -> FloatArray:
    """A fast and a slow way to be scheduled, 6 % apart, chosen anew by each run."""
    return rng.normal(0.0, 0.01, n) + 0.06 * (rng.random(n) < 0.3)


def _drift(rng: np.random.Generator, n: int) -> FloatArray:
    """Slow wandering of the machine (3 % over the whole history) under 2 % noise."""
    phase = rng.uniform(0.0, 2 * np.pi)
    turns = rng.uniform(0.5, 1.5)
    slow = 0.015 * np.sin(phase + 2 * np.pi * turns * np.arange(n) / n)
    return slow + rng.normal(0.0, 0.02, n)


def _autocorrelated(rng: np.random.Generator, n: int) -> FloatArray:
    """AR(1), rho = 0.4, 3 %: one bad hour spoils the neighbours too."""
    rho, sigma = 0.4, 0.03
    shocks = rng.normal(0.0, sigma * np.sqrt(1 - rho**2), n)
    level = rng.normal(0.0, sigma)
    out = np.empty(n)
    for i in range(n):
        level = rho * level + shocks[i]
        out[i] = level
    return out


NOISE_MODELS: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "gaussian 1 %": _gaussian(0.01),
    "gaussian 3 %": _gaussian(0.03),
    "gaussian 5 %": _gaussian(0.05),
    "heavy tail": _heavy_tail,
    "skewed": _skewed,
    "two modes": _two_modes,
    "drift": _drift,
    "autocorrelated": _autocorrelated,
}
# Components that last longer than one run: rounds of one commit share them.
_SHARED_BY_ROUNDS = frozenset({"drift", "autocorrelated"})


@dataclass(frozen=True)
class Step:
    """A true change.

    `index` is the first commit with the new level, `size` the relative change (0.05: +5 %).
    """

    index: int
    size: float


@dataclass(frozen=True)
class LabelledSeries:
    """One benchmark's history with the answer attached.

    `values` are seconds, one a commit (the median of `rounds` runs); `control` are the seconds of a control
    benchmark that ran beside each of them, or None. `size` is the design's step size (0 for a quiet series).
    """

    values: FloatArray
    steps: tuple[Step, ...]
    noise: str
    size: float
    level: FloatArray = field(repr=False)
    seed: tuple[int, ...] = field(repr=False)
    control: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.values)

    def rerun(self, before: int, after: int, pairs: int) -> tuple[FloatArray, FloatArray]:
        """Measure commits `before` and `after` again, interleaved ABBA: two arrays of `pairs` seconds.

        All 2 * `pairs` runs come out of one draw of the series' own noise model in the order in which they
        would have run, so slow components hit both commits as they would on the machine.
        """
        rng = np.random.default_rng([*self.seed, 1_000_003, before, after])
        noise = NOISE_MODELS[self.noise](rng, 2 * pairs)
        head_first = np.arange(pairs) % 2 == 1
        first, second = noise[0::2], noise[1::2]
        base_noise = np.where(head_first, second, first)
        head_noise = np.where(head_first, first, second)
        return self.level[before] * np.exp(base_noise), self.level[after] * np.exp(head_noise)


def draw_series(
    seed: tuple[int, ...],
    *,
    noise: str,
    n: int,
    steps: tuple[Step, ...] = (),
    size: float = 0.0,
    rounds: int = 1,
    pool: tuple[float, ...] = (),
) -> LabelledSeries:
    """Draw one series of `n` commits.

    `pool` lists relative speeds of a pool of runners, one of which each commit meets; the control benchmark
    then sees the same runner with 1 % noise of its own.
    """
    rng = np.random.default_rng(list(seed))
    level = np.full(n, 10.0 ** rng.uniform(-6, 0))
    for step in steps:
        level[step.index :] *= 1.0 + step.size
    model = NOISE_MODELS[noise]
    if rounds == 1:
        log_noise = model(rng, n)
    elif noise in _SHARED_BY_ROUNDS:
        shared = model(rng, n)
        log_noise = shared + np.median(rng.normal(0.0, 0.01, (rounds, n)), axis=0)
    else:
        log_noise = np.median(np.stack([model(rng, n) for _ in range(rounds)]), axis=0)
    values = level * np.exp(log_noise)
    control = None
    if pool:
        speed = rng.choice(np.asarray(pool), n)
        values = values * speed
        control = 1e-3 * speed * np.exp(rng.normal(0.0, 0.01, n))
    return LabelledSeries(values, steps, noise, size, level, seed, control)


def _place(rng: np.random.Generator, n: int, how_many: int, apart: int) -> list[int]:
    """Indices in order, `apart` commits from each other and MARGIN from both ends."""
    slack = n - 2 * MARGIN - (how_many - 1) * apart
    free = np.sort(rng.integers(0, slack + 1, how_many))
    return [int(MARGIN + offset + k * apart) for k, offset in enumerate(free)]


def _sign(rng: np.random.Generator) -> float:
    # Three of four changes are regressions, the rest improvements.
    return 1.0 if rng.random() < 0.75 else -1.0


def one_step(split: Split, *, repeats: int = 10, rounds: int = 1) -> Iterator[LabelledSeries]:
    """8 noise models x 4 step sizes x 4 lengths x `repeats` series with one lasting slowdown each (1,280)."""
    for a, noise in enumerate(NOISE_MODELS):
        for b, size in enumerate(STEP_SIZES):
            for c, n in enumerate(LENGTHS):
                for r in range(repeats):
                    seed = (split.value, 1, a, b, c, r, rounds)
                    rng = np.random.default_rng([*seed, 7])
                    (index,) = _place(rng, n, 1, 0)
                    steps = (Step(index, size),)
                    yield draw_series(seed, noise=noise, n=n, steps=steps, size=size, rounds=rounds)


def quiet(split: Split, *, repeats: int = 20, rounds: int = 1) -> Iterator[LabelledSeries]:
    """8 noise models x 4 lengths x `repeats` series in which nothing happens (640 by default)."""
    for a, noise in enumerate(NOISE_MODELS):
        for c, n in enumerate(LENGTHS):
            for r in range(repeats):
                yield draw_series((split.value, 2, a, c, r, rounds), noise=noise, n=n, rounds=rounds)


def recovered(split: Split, *, repeats: int = 3) -> Iterator[LabelledSeries]:
    """A step that is undone again after 10 to 30 commits: both edges are changes."""
    for a, noise in enumerate(NOISE_MODELS):
        for b, size in enumerate(STEP_SIZES):
            for c, n in enumerate(LENGTHS[1:]):
                for r in range(repeats):
                    seed = (split.value, 3, a, b, c, r)
                    rng = np.random.default_rng([*seed, 7])
                    first, second = _place(rng, n, 2, int(rng.integers(10, 31)))
                    second = min(second, first + 30)
                    steps = (Step(first, size), Step(second, 1.0 / (1.0 + size) - 1.0))
                    yield draw_series(seed, noise=noise, n=n, steps=steps, size=size)


def several(split: Split, *, repeats: int = 3) -> Iterator[LabelledSeries]:
    """Two to four steps of mixed sizes and signs, at least 12 commits apart."""
    for a, noise in enumerate(NOISE_MODELS):
        for c, n in enumerate(LENGTHS[1:]):
            for r in range(4 * repeats):
                seed = (split.value, 4, a, c, r)
                rng = np.random.default_rng([*seed, 7])
                places = _place(rng, n, int(rng.integers(2, 5)), 12)
                steps = tuple(Step(i, _sign(rng) * float(rng.choice(STEP_SIZES))) for i in places)
                yield draw_series(seed, noise=noise, n=n, steps=steps)


def pool_of_runners(split: Split, *, repeats: int = 2) -> Iterator[LabelledSeries]:
    """One slowdown on a pool of runners (speeds 1, 1.25 and 1.6), with a control beside every value."""
    for a, noise in enumerate(NOISE_MODELS):
        for b, size in enumerate(STEP_SIZES):
            for c, n in enumerate(LENGTHS):
                for r in range(repeats):
                    seed = (split.value, 5, a, b, c, r)
                    rng = np.random.default_rng([*seed, 7])
                    (index,) = _place(rng, n, 1, 0)
                    steps = (Step(index, size),)
                    yield draw_series(seed, noise=noise, n=n, steps=steps, size=size, pool=(1.0, 1.25, 1.6))
