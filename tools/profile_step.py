"""Where a step's time goes: building the graph in Python, or evaluating it in MLX.

    taskset -c 1 python -m tools.profile_step --rounds 60
    taskset -c 1 python -m tools.profile_step --group model

Every arm does one token (one for each sequence of a batch) per sample and is timed in two parts: until the calls
return (Python: checks, plans, index objects, graph nodes) and until the results are there (MLX). Arms are
interleaved in rounds of a few samples, and the lower quartile is shown: on a machine whose speed changes by the
second it is what repeats. docs/profiles.md discusses what it shows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import cells as cell_steps
from benchmarks import model as models
from benchmarks.common import (
    DTYPE,
    HEAD_DIM,
    HEADS,
    LAYERS,
    ours,
    position_tensor,
    random_tokens,
    synchronise,
)
from mlxcache import CacheConfig, LayerConfig, LayerPolicy, MLXCellCache, MLXSequenceCache, host_positions
from mlxcache.kv.attend import _as_batch
from mlxcache.kv.step import Gather
from mlxcache.kv.storage.layout import RingGeometry
from mlxcache.kv.storage.pool import Pool
from mlxcache.kv.storage.quantized_pool import _by_element
from mlxcache.mlx_lm.layer_caches import CellLayerCache, SequenceLayerCache

CONTEXT = 1024
SAMPLES = 6  # of an arm in a round; the first is left out
ROUNDS = 180  # at most
ROOM = SAMPLES * ROUNDS  # tokens that an arm goes on for
GROUPS = ("decode", "ring", "roll", "batch", "quantised", "model")


class Arm(NamedTuple):
    """A step in two parts: `build` returns what is to be evaluated, `prepare` comes before it, untimed."""

    build: Callable[[], list[Any]]
    prepare: Callable[[], object]


def _bare(context: int = CONTEXT, span: int | None = None) -> Arm:
    """Slice assignments and reads where the next token goes, known beforehand."""
    shape = (1, HEADS, context + ROOM, HEAD_DIM)
    pools = [(mx.zeros(shape, DTYPE), mx.zeros(shape, DTYPE)) for _ in range(LAYERS)]
    token = random_tokens(1)
    mx.eval(pools)
    full = slice(None)
    state = {"at": context}

    def build() -> list[Any]:
        at, outputs = state["at"], []
        write = (full, full, slice(at, at + 1))
        read = (full, full, slice(0 if span is None else at + 1 - span, at + 1))
        for keys, values in pools:
            keys[write] = token
            values[write] = token
            outputs.append(keys[read])
            outputs.append(values[read])
        return outputs

    def go_on() -> None:
        state["at"] += 1

    return Arm(build, go_on)


def _sequence(path: str, window: int | None = None) -> Arm:
    """A step that goes on from token to token, as decoding does."""
    context = CONTEXT if window is None else 2 * window + window // 4
    cache = ours(context, window=window, slack=ROOM)
    keys = [random_tokens(1, seed=layer) for layer in range(LAYERS)]
    state = {"position": position_tensor(context, 1, path)}

    def build() -> list[Any]:
        outputs, position = [], state["position"]
        for layer in range(LAYERS):
            spec = cache.update_and_fetch(layer, host_positions(position), keys[layer], keys[layer])
            outputs.append(spec.keys)
            outputs.append(spec.values)
        return outputs

    def go_on() -> None:
        state["position"] = position_tensor(cache.length, 1, path)

    return Arm(build, go_on)


def _cells(path: str) -> Arm:
    step = cell_steps.OneSequence.made(path, "cell", CONTEXT, ROOM)
    return Arm(step.build, step.go_on)


def _batch(count: int, context: int, how: str, layers: int = 4) -> Arm:
    """Attention included: what is spared or added there is the point."""
    if how == "separate":
        apart = cell_steps._SeparateSteps(count, context, layers, "int32")
        return Arm(apart.build, apart.rewind)
    cache = cell_steps._cells(count * (context + 16), layers)
    for seq in range(count):
        cell_steps._append(cache, [seq] * context)
    step = cell_steps._CellStep(cache, list(range(count)), "int32", attend=True)
    if how == "used":
        return Arm(step.build, step.rewind)
    gather = Gather.BATCH if how == "as a batch" else Gather.NEVER

    def build() -> list[Any]:
        cache.begin_step(step.seq_ids)
        outputs = []
        for layer, token in enumerate(step.keys):
            spec = cache.update_and_fetch(layer, host_positions(step.position), token, token, gather)
            outputs.append(_as_batch(token, spec, HEAD_DIM**-0.5))
        return outputs

    return Arm(build, step.rewind)


def _dequantise(how: str, dtype: mx.Dtype, bits: int) -> Arm:
    """Reading 1024 cells of 8 heads of 128."""
    values = mx.random.normal((1, HEADS, CONTEXT, HEAD_DIM)).astype(dtype)
    parts = mx.quantize(values, group_size=64, bits=bits)
    mx.eval(parts)
    if how == "mx.dequantize":
        return Arm(lambda: [mx.dequantize(*parts, group_size=64, bits=bits)], lambda: None)
    return Arm(lambda: [_by_element(*parts, bits)], lambda: None)


def _prompt_cache(make: Callable[[], list[Any]]) -> Arm:
    layers = make()
    filled, token = random_tokens(CONTEXT), random_tokens(1)
    for layer in layers:
        mx.eval(layer.update_and_fetch(filled, filled))

    def build() -> list[Any]:
        outputs: list[Any] = []
        for layer in layers:
            outputs += layer.update_and_fetch(token, token)
        return outputs

    return Arm(build, lambda: None)


def _model(name: str, kind: str) -> Arm:
    bench = models.Generate()
    bench.setup(name, kind, "host")
    state = {"token": bench.token}

    def build() -> list[Any]:
        logits = bench.model(state["token"], cache=bench.cache)
        return [mx.argmax(logits[:, -1:], axis=-1)]

    return Arm(build, lambda: None)


def _config(layers: int = LAYERS, bits: int | None = None) -> CacheConfig:
    layer = LayerConfig(LayerPolicy.flat(), HEADS, HEAD_DIM)
    slots = CONTEXT + ROOM
    return CacheConfig(slots, layers, [layer], DTYPE, initial_capacity=slots, kv_bits=bits)


def _adapted(config: CacheConfig) -> Arm:
    return _prompt_cache(lambda: SequenceLayerCache.over(MLXSequenceCache(config)))


def _roll(how: str) -> Arm:
    """K or V of one ring of window 256, rolled: by the pool, or as one copy of pieces of so many bytes."""
    ring = RingGeometry.of(LayerPolicy.ring(256), None)
    shift = ring.slots // ring.unit // 2 * ring.unit
    pool = Pool(ring.slots, ring.slots, HEADS, HEAD_DIM, DTYPE)

    def build() -> list[Any]:
        if how == "rows":
            pool.roll(shift)
            return [pool.array]
        cells = pool.array.view(mx.uint64) if how == "eight" else pool.array
        return [mx.concatenate([cells[:, :, shift:], cells[:, :, :shift]], axis=2)]

    return Arm(build, lambda: None)


Arms = dict[str, Callable[[], Arm]]


def _tables(group: str, contexts: list[int]) -> Iterator[Arms]:
    """The arms that are interleaved and shown beside each other."""
    if group == "decode":
        yield _decode()
    elif group == "ring":
        yield {"bare loop, 256": lambda: _bare(512, 256), "ring 256, int32": lambda: _sequence("int32", 256)}
    elif group == "roll":
        yield {
            "roll, rows (used)": lambda: _roll("rows"),
            "roll, eight bytes": lambda: _roll("eight"),
            "roll, two bytes": lambda: _roll("two"),
        }
    elif group == "batch":
        for count, context in product((4, 8, 32), contexts):
            yield {
                f"{count} x {context} {how}": partial(_batch, count, context, how)
                for how in ("separate", "masked", "as a batch", "used")
            }
    elif group == "quantised":  # four layers: on a CPU, one takes milliseconds
        yield {f"{bits or 16} bits": lambda bits=bits: _adapted(_config(4, bits)) for bits in (None, 8, 4)}
        for dtype, bits in product((mx.float16, mx.bfloat16, mx.float32), (8, 4)):
            yield {
                f"{how}, {str(dtype).rpartition('.')[2]}, {bits}": partial(_dequantise, how, dtype, bits)
                for how in ("mx.dequantize", "by element")
            }
    else:
        for name in ("llama", "gemma3_text"):
            yield {
                f"{name} on {kind}": lambda name=name, kind=kind: _model(name, kind)
                for kind in ("mlx-lm", "bare", "sequence", "cell")
            }


def _decode() -> Arms:
    from mlx_lm.models.cache import KVCache

    arms: Arms = {"bare loop": _bare}
    for path in ("int32", "int64"):
        arms[f"sequence, {path}"] = partial(_sequence, path)
        arms[f"cell, {path}"] = partial(_cells, path)
    return arms | {
        "mlx-lm KVCache": lambda: _prompt_cache(lambda: [KVCache() for _ in range(LAYERS)]),
        "adapter, sequence": lambda: _adapted(_config()),
        "adapter, cell": lambda: _prompt_cache(lambda: CellLayerCache.over(MLXCellCache(_config()), [0])),
    }


def _measure(arms: dict[str, Arm], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds of each sample of each arm until it is built, and from then on."""
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    for _ in range(rounds):
        for name, arm in arms.items():
            for index in range(SAMPLES):
                arm.prepare()
                start = time.perf_counter()
                outputs = arm.build()
                built = time.perf_counter()
                synchronise(outputs)
                done = time.perf_counter()
                del outputs
                if index:  # the first one after another arm finds cold caches
                    samples[name].append((built - start, done - built))
    return samples


class _Timed:
    """A layer's cache that notes how long each call of a model takes."""

    def __init__(self, layer: Any, seconds: list[float]) -> None:
        self._layer, self._seconds = layer, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> Any:
        start = time.perf_counter()
        found = self._layer.update_and_fetch(keys, values)
        self._seconds.append(time.perf_counter() - start)
        return found

    def make_mask(self, *args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        found = self._layer.make_mask(*args, **options)
        self._seconds.append(time.perf_counter() - start)
        return found


def _inside(name: str, rounds: int) -> None:
    """Print what a model's calls to its caches take within a token."""
    seconds: list[float] = []
    arms = {}
    for kind in ("mlx-lm", "bare", "sequence", "cell"):
        bench = models.Generate()
        bench.setup(name, kind, "host")
        bench.cache = [_Timed(layer, seconds) for layer in bench.cache]
        arms[kind] = bench
    calls: dict[str, list[list[float]]] = {kind: [] for kind in arms}
    for _ in range(rounds):
        for kind, bench in arms.items():
            for index in range(6):
                seconds.clear()
                bench.decode(1)
                if index:
                    calls[kind].append(sorted(seconds, reverse=True))
    print(f"{'us inside a token':24s}{'all calls':>11s}{'longest':>9s}{'median':>9s}")
    for kind, tokens in calls.items():
        table = np.array(tokens)
        each = [table.sum(axis=1), table[:, 0], np.median(table, axis=1)]
        print(
            f"{name + ' on ' + kind:24s}" + "{:11.1f}{:9.1f}{:9.1f}".format(*np.quantile(each, 0.25, axis=1) * 1e6)
        )


def main() -> None:
    """Print one line per arm: total, Python's part, MLX's part, and the total against the table's first arm."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--group", default="decode", choices=GROUPS)
    parser.add_argument("--rounds", type=int, default=40, help="interleaved rounds of 5 samples (default 40)")
    parser.add_argument("--context", type=int, nargs="+", default=[256], help="tokens of each sequence of a batch")
    args = parser.parse_args()
    if not 1 <= args.rounds <= ROUNDS:
        parser.error(f"--rounds: got {args.rounds}, expected 1 to {ROUNDS}")
    for table in _tables(args.group, args.context):
        samples = _measure({name: make() for name, make in table.items()}, args.rounds)
        first = None
        print(f"{'us a token':32s}{'total':>9s}{'Python':>9s}{'MLX':>9s}{'ratio':>8s}")
        for name, times in samples.items():
            build, evaluate = (float(np.quantile(part, 0.25)) * 1e6 for part in zip(*times, strict=True))
            total = float(np.quantile(np.sum(times, axis=1), 0.25)) * 1e6
            first = total if first is None else first
            print(f"{name:32s}{total:9.1f}{build:9.1f}{evaluate:9.1f}{total / first:8.3f}", flush=True)
    if args.group == "model":
        for name in ("llama", "gemma3_text"):
            _inside(name, args.rounds)


if __name__ == "__main__":
    main()
