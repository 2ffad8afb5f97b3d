"""What the cache promises, as ratios of two things measured in turn in one process.

Seconds move with the machine; a ratio of interleaved samples hardly does. docs/measuring.md states the bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .common import (
    LAYERS,
    PATHS,
    QUICK,
    ROOM,
    Step,
    interleaved,
    low,
    ours,
    position_tensor,
    random_tokens,
    ratio,
    require,
    synchronise,
    timed,
)
from .contenders import beside, contender


class Ratio:
    """asv's settings for a tracked ratio: below 1 the first is faster."""

    unit = "ratio"
    timeout = 180
    version = "1"


def _step(path: str, context: int, **options: int) -> Callable[[], float]:
    step = Step(path, context, **options)
    return timed(step, step.rewind)


class Paths(Ratio):
    """A step of 32 layers with int64 positions over one with int32 positions: what narrowing costs a model."""

    params = [1, 128]
    param_names = ("tokens",)

    def track_int64_over_int32(self, tokens: int) -> float:
        return ratio(_step("int64", 1024, count=tokens), _step("int32", 1024, count=tokens))


class Peers(Ratio):
    """One token through 32 layers from context 1024 on over the same step elsewhere.

    The bare loop knows where to write; the one that reads asks the position tensor in each layer, as ours does.
    Ours and that one go on from token to token, as decoding does; the others do the same step again.
    """

    params = (PATHS, ["KVCache", "bare", "bare reading"])
    param_names = ("path", "over")
    version = "2"  # 1 went back to 1024 before every step

    def track_decode(self, path: str, over: str) -> float:
        other = beside(path, over)
        step = Step(path, 1024, room=ROOM)
        return ratio(timed(step, step.go_on), timed(other.step, other.go_on))


class Prefill(Ratio):
    """A chunk through 32 layers over bare slice assignments and reads of the same arrays."""

    params = [128, 512, 2048]
    param_names = ("tokens",)

    def track_over_bare(self, tokens: int) -> float:
        other = contender("bare", 1024, tokens)
        return ratio(
            _step("int32", 1024, count=tokens), timed(other.step, other.reset), rounds=max(40, 20_000 // tokens)
        )


class Context(Ratio):
    """One token through 8 layers at a long context over the same at 1024: in place means 1."""

    params = [4096, 32768]
    param_names = ("context",)

    def track_over_1024(self, context: int) -> float:
        return ratio(_step("int32", context, layers=8), _step("int32", 1024, layers=8))


class Ring(Ratio):
    """Steps of one layer over a lap of a full ring over the same steps on a flat cache, each evaluated.

    `mean` holds the roll that comes once a lap; the 99th percentile of a lap of fewer than 100 steps is that roll.
    """

    params = ([256, 4096], [1, 4], ["median", "p99", "mean"])
    param_names = ("window", "tokens", "statistic")

    def track_over_flat(self, window: int, tokens: int, statistic: str) -> float:
        steps = -(-(window + 1) // tokens)
        laps = 2 if QUICK else max(5, 6000 // steps)
        ring = _Lap(window, tokens, steps, ring=True)
        flat = _Lap(window, tokens, steps, ring=False)
        of = {"median": np.median, "p99": lambda x: np.percentile(x, 99), "mean": np.mean}[statistic]
        pairs = [(of(ring()), of(flat())) for _ in range(laps)]
        return low([a for a, _ in pairs]) / low([b for _, b in pairs])


class AfterCopy(Ratio):
    """The 99th percentile of a flat lap with one untimed copy as large as a roll in it, over a lap without.

    The step after such a copy finds the processor's caches cold. No ring that moves its window once a lap of
    this length can do better at `Ring`'s p99.
    """

    params = [256]
    param_names = ("window",)

    def track_p99(self, window: int) -> float:
        steps = window + 1
        lap = _Lap(window, 1, steps, ring=False)
        roll = np.zeros(2 * window * lap.token.nbytes * 2, np.uint8)
        pairs = []
        for _ in range(2 if QUICK else max(5, 6000 // steps)):
            evicted = lap(lambda number: roll.copy() if number == steps // 2 else None)
            pairs.append((np.percentile(evicted, 99), np.percentile(lap(), 99)))
        return low([a for a, _ in pairs]) / low([b for _, b in pairs])


class _Lap:
    """Seconds of each step of a lap of one layer."""

    def __init__(self, window: int, tokens: int, steps: int, ring: bool) -> None:
        self.host_positions = require("host_positions")
        self.flat_start = None if ring else 2 * window
        self.cache = ours(2 * window, layers=1, window=window if ring else None, slack=steps * tokens + 64)
        self.token, self.tokens, self.steps = random_tokens(tokens), tokens, steps

    def __call__(self, before: Callable[[int], object] = lambda number: None) -> list[float]:
        """Seconds of each step; `before` is called before each, untimed, with its number."""
        if self.flat_start is not None:
            self.cache.rewind(self.flat_start)
        start = self.cache.length
        positions = [position_tensor(start + i * self.tokens, self.tokens, "int32") for i in range(self.steps)]

        def step(position: object) -> None:
            spec = self.cache.update_and_fetch(0, self.host_positions(position), self.token, self.token)
            synchronise([spec.keys, spec.values])

        seconds = []
        for number, position in enumerate(positions):
            before(number)
            seconds.append(timed(lambda p=position: step(p))())  # type: ignore[misc]
        return seconds


class Layers(Ratio):
    """32 layers over four times 8: what is planned once a step must not grow with the layers."""

    def track_32_over_4_times_8(self) -> float:
        many, few = interleaved([_step("int32", 1024, layers=LAYERS), _step("int32", 1024, layers=8)], 400)
        return low(many) / (4 * low(few))
