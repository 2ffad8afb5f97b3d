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
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import cells as cell_steps
from benchmarks import model as models
from benchmarks.common import DTYPE, HEAD_DIM, HEADS, LAYERS, ROOM, ours, position_tensor, random_tokens
from mlxcache import CacheConfig, LayerConfig, LayerPolicy, MLXCellCache, MLXSequenceCache, host_positions
from mlxcache.layer_caches import CellLayerCache, SequenceLayerCache
from mlxcache.layout import RingGeometry
from mlxcache.pool import Pool

CONTEXT = 1024
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


def _batch(count: int, how: str, layers: int = 4, context: int = 256) -> Arm:
    """Attention included: what is spared or added there is the point."""
    if how == "separate":
        apart = cell_steps._SeparateSteps(count, context, layers, "int32")
        return Arm(apart.build, apart.rewind)
    cache = cell_steps._cells(count * (context + 16), layers)
    for seq in range(count):
        cell_steps._append(cache, [seq] * context)
    step = cell_steps._CellStep(cache, list(range(count)), "int32", attend=True)
    if how == "gathered":
        return Arm(step.build, step.rewind)

    def build() -> list[Any]:
        cache.begin_step(step.seq_ids)
        outputs = []
        for layer, token in enumerate(step.keys):
            spec = cache.update_and_fetch(layer, host_positions(step.position), token, token)
            out = mx.fast.scaled_dot_product_attention(
                token, spec.keys, spec.values, scale=HEAD_DIM**-0.5, mask=spec.mask
            )
            outputs.append(out)
        return outputs

    return Arm(build, step.rewind)


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


def _arms(group: str) -> Iterator[tuple[str, Callable[[], Arm]]]:
    from mlx_lm.models.cache import KVCache

    if group == "decode":
        yield "bare loop", _bare
        for path in ("int32", "int64"):
            yield f"sequence, {path}", lambda path=path: _sequence(path)
            yield f"cell, {path}", lambda path=path: _cells(path)
        yield "mlx-lm KVCache", lambda: _prompt_cache(lambda: [KVCache() for _ in range(LAYERS)])
        yield "adapter, sequence", lambda: _adapted(_config())
        yield "adapter, cell", lambda: _prompt_cache(lambda: CellLayerCache.over(MLXCellCache(_config()), [0]))
    elif group == "ring":
        yield "bare loop, 256", lambda: _bare(512, 256)
        yield "ring 256, int32", lambda: _sequence("int32", 256)
    elif group == "roll":
        yield "roll, rows (used)", lambda: _roll("rows")
        yield "roll, eight bytes", lambda: _roll("eight")
        yield "roll, two bytes", lambda: _roll("two")
    elif group == "batch":
        for count in (4, 8):
            for how in ("separate", "masked", "gathered"):
                yield f"{count} {how}", lambda count=count, how=how: _batch(count, how)
    elif group == "quantised":
        for bits in (None, 8, 4):  # four layers: on a CPU, MLX takes milliseconds to dequantise one
            yield f"{bits or 16} bits", lambda bits=bits: _adapted(_config(4, bits))
    else:
        for name in ("llama", "gemma3_text"):
            for kind in ("mlx-lm", "sequence", "cell"):
                yield f"{name} on {kind}", lambda name=name, kind=kind: _model(name, kind)


def main() -> None:
    """Print one line per arm: total, Python's part, MLX's part, and the total against the first arm."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--group", default="decode", choices=GROUPS)
    parser.add_argument("--rounds", type=int, default=40, help="interleaved rounds of 5 samples (default 40)")
    args = parser.parse_args()
    arms = {name: make() for name, make in _arms(args.group)}
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    for _ in range(args.rounds):
        for name, arm in arms.items():
            for index in range(6):
                arm.prepare()
                start = time.perf_counter()
                outputs = arm.build()
                built = time.perf_counter()
                mx.eval(outputs)
                done = time.perf_counter()
                del outputs
                if index:  # the first one after another arm finds cold caches
                    samples[name].append((built - start, done - built))
    first = None
    print(f"{'us a token':24s}{'total':>9s}{'Python':>9s}{'MLX':>9s}{'ratio':>8s}")
    for name, times in samples.items():
        build, evaluate = (float(np.quantile(part, 0.25)) * 1e6 for part in zip(*times, strict=True))
        total = float(np.quantile(np.sum(times, axis=1), 0.25)) * 1e6
        first = total if first is None else first
        print(f"{name:24s}{total:9.1f}{build:9.1f}{evaluate:9.1f}{total / first:8.3f}")


if __name__ == "__main__":
    main()
