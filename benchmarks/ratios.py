"""What the cache promises, as ratios of two things measured in turn in one process.

Seconds move with the machine; a ratio of interleaved samples hardly does. docs/measuring.md states the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from .common import (
    ATTENDS,
    HEADS,
    LAYERS,
    PATHS,
    QUICK,
    ROOM,
    Skip,
    Step,
    attending,
    interleaved,
    kv_bytes,
    low,
    need_memory,
    ours,
    position_tensor,
    random_tokens,
    ratio,
    require,
    synchronise,
    timed,
)
from .contenders import WITHOUT_MLX_LM, beside, contender
from .contenders import mlx_lm_cache as lm_cache


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

    `mean` holds whatever moves cells: a roll once a lap, or what is copied aside for a rewind.
    """

    params = ([256, 4096], [1, 4], ["median", "p99", "mean"])
    param_names = ("window", "tokens", "statistic")

    def track_over_flat(self, window: int, tokens: int, statistic: str) -> float:
        return _laps(window, tokens, statistic)


class RingOfOneWindow(Ratio):
    """`Ring` where nothing can be taken back, so that no cell is copied: one token, and four."""

    params = ([256, 4096], [1, 4], ["median", "p99", "mean"])
    param_names = ("window", "tokens", "statistic")

    def setup(self, window: int, tokens: int, statistic: str) -> None:
        if not ATTENDS:
            raise Skip("this commit has no max_rewind")

    def track_over_flat(self, window: int, tokens: int, statistic: str) -> float:
        return _laps(window, tokens, statistic, max_rewind=0)


class RingPrefill(Ratio):
    """Chunks of a prompt through one full ring over the same through a flat layer: the mean of a window's."""

    params = ([256, 4096], [128, 512, 2048])
    param_names = ("window", "tokens")

    def setup(self, window: int, tokens: int) -> None:
        if not ATTENDS:
            raise Skip("this commit has no max_rewind")

    def track_over_flat(self, window: int, tokens: int) -> float:
        return _laps(window, tokens, "mean", most=60, max_write=max(window, tokens), max_rewind=min(window, 256))


class Rotating(Ratio):
    """One token through 32 full rings over the same on mlx-lm's RotatingKVCache, which takes nothing back.

    `cache` stores and reads; with `attention` 32 query heads attend. Ours reads its positions from a tensor.
    """

    params = ([256, 1024, 4096], ["cache", "attention"], ["0", "window"])
    param_names = ("window", "with", "max_rewind")

    def setup(self, window: int, what: str, max_rewind: str) -> None:
        if not ATTENDS:
            raise Skip("this commit has no max_rewind")
        if lm_cache is None:
            raise Skip(WITHOUT_MLX_LM)
        need_memory(kv_bytes(4 * window))

    def track_over_rotating(self, window: int, what: str, max_rewind: str) -> float:
        back = 0 if max_rewind == "0" else window
        cache = ours(2 * window, window=window, max_rewind=back)
        update, positions = attending(cache, window), require("host_positions")
        others = [lm_cache.RotatingKVCache(window) for _ in range(LAYERS)]
        past, keys, values, queries = (
            random_tokens(window, seed=1),
            random_tokens(1, seed=2),
            random_tokens(1, seed=3),
            random_tokens(1, heads=4 * HEADS),
        )
        for other in others:
            mx.eval(other.update_and_fetch(past, past))

        def read(found: Sequence[mx.array]) -> list[mx.array]:
            if what == "cache":
                return [found[0], found[1]]
            return [mx.fast.scaled_dot_product_attention(queries, found[0], found[1], scale=0.1)]

        position = position_tensor(cache.length, 1, "int32")

        def advance() -> None:
            nonlocal position
            position = position_tensor(cache.length, 1, "int32")

        def ring() -> None:
            outputs = []
            for layer in range(LAYERS):
                outputs += read(update(layer, positions(position), keys, values))
            synchronise(outputs)

        def rotating() -> None:
            outputs = []
            for other in others:
                outputs += read(other.update_and_fetch(keys, values))
            synchronise(outputs)

        for _ in range(3):
            advance()
            ring()
            rotating()
        return ratio(timed(ring, advance), timed(rotating))


def _laps(window: int, tokens: int, statistic: str, most: int = 6000, **options: int) -> float:
    """A statistic of a lap's steps on a full ring over the same of a flat lap: low quantiles of many laps."""
    steps = -(-(window + 1) // tokens)
    laps = 2 if QUICK else max(5, min(6000 // steps, most))
    ring = _Lap(window, tokens, steps, ring=True, **options)
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

    def __init__(self, window: int, tokens: int, steps: int, ring: bool, **options: int) -> None:
        self.host_positions = require("host_positions")
        self.flat_start = None if ring else 2 * window
        kept = window if ring else None
        self.cache = ours(2 * window, layers=1, window=kept, slack=steps * tokens + 64, count=tokens, **options)
        self.update = attending(self.cache, kept)
        self.token, self.tokens, self.steps = random_tokens(tokens), tokens, steps

    def __call__(self, before: Callable[[int], object] = lambda number: None) -> list[float]:
        """Seconds of each step; `before` is called before each, untimed, with its number."""
        if self.flat_start is not None:
            self.cache.rewind(self.flat_start)
        start = self.cache.length
        positions = [position_tensor(start + i * self.tokens, self.tokens, "int32") for i in range(self.steps)]

        def step(position: object) -> None:
            spec = self.update(0, self.host_positions(position), self.token, self.token)
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
