"""What the benchmarks share: device, sizes, synchronisation, memory limits, ready-made steps.

Nothing here carries a name that asv would take for a benchmark. Modules must import on any commit of mlxcache:
what an old commit lacks is None here, and `require` turns that into a skip with its reason.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

try:
    # A skip from within a measurement too; a plain NotImplementedError would be a failure there.
    from asv_runner.benchmarks.mark import SkipNotImplemented as Skip
except ImportError:
    Skip = NotImplementedError
try:
    import mlxcache
except ImportError:  # a commit before the cache
    mlxcache = None  # type: ignore[assignment]

# asv hands this over from its matrix, so that results of two devices never share a series; see asv.conf.json.
DEVICE = os.environ.get("MLXCACHE_DEVICE", "default")
# `mlxcache bench --quick` sets it: asv's own --quick knows nothing of how long a tracked value takes.
QUICK = os.environ.get("MLXCACHE_QUICK") == "1"


def gpu_facts() -> dict[str, Any]:
    """What MLX says of its device; empty where there is none or it does not tell."""
    # Up to 0.30 it was under mx.metal only.
    ask = getattr(mx, "device_info", None) or getattr(getattr(mx, "metal", None), "device_info", None)
    try:
        return dict(ask()) if ask is not None else {}
    except RuntimeError:  # no Metal device in this Mac
        return {}


def _choose_device() -> None:
    if DEVICE not in ("default", "cpu", "gpu"):
        raise ValueError(f"MLXCACHE_DEVICE: got {DEVICE!r}, expected 'default', 'cpu' or 'gpu'")
    if DEVICE == "gpu":
        mx.set_default_device(mx.Device(mx.DeviceType.gpu))
    # Who asks for the CPU is not asked about a GPU: MLX before 0.31 ends the process on a Mac without Metal.
    elif DEVICE == "cpu" or _gpu_is_useless():
        mx.set_default_device(mx.Device(mx.DeviceType.cpu))


def _gpu_is_useless() -> bool:
    """A virtual machine's GPU, whose times mean nothing, or a Mac in which MLX finds none."""
    facts = gpu_facts()
    if not facts:
        return platform.system() == "Darwin"
    return "paravirtual" in str(facts.get("device_name", "")).lower()


_choose_device()
ON_GPU = mx.default_device().type == mx.DeviceType.gpu

try:
    from mlxcache.kv.spec import Order  # noqa: F401  -- since when a ring asks who reads it
    from mlxcache.kv.step import Gather

    # What attention says of itself, as `update_and_attend` and the adapter for mlx-lm do.
    ATTENDS: dict[str, Any] = {"gather": Gather.CHEAPER}
except ImportError:  # a commit whose rings come oldest first to everybody
    ATTENDS = {}

# Single tokens, or steps of few, after which a ring has settled for how a model decodes on it.
SETTLING = 32

# Llama 3 8B: 32 layers of 8 KV heads of 128, stored as float16. One token through all of them with one
# evaluation is what a model does, and what a decode step means here.
LAYERS = 32
HEADS = 8
HEAD_DIM = 128
DTYPE = mx.float16
ITEMSIZE = 2

PATHS = ["int32", "int64"]


# Tokens that a step which goes on may decode before it starts again at its context.
ROOM = 250


class Timed:
    """asv's settings for a stateful step.

    `setup` rewinds the step before every sample, so a sample is one call (number 1) and asv must not warm up:
    `Step` objects warm themselves. Several rounds of short samples, since a shared machine changes its speed
    every few seconds: asv interleaves the rounds of all benchmarks.
    """

    number = 1
    warmup_time = 0
    rounds = 3
    repeat = (12, 30, 0.15)
    min_run_count = 1
    timeout = 120
    version = "1"


_made: dict[Hashable, Any] = {}


def once(key: Hashable, make: Callable[[], Any]) -> Any:
    """What `make` returned for `key` in this process: asv calls setup before every sample."""
    if key not in _made:
        _made[key] = make()
    return _made[key]


def synchronise(arrays: Iterable[Any]) -> None:
    """Evaluate and wait: on a GPU, Python returns long before the work is done."""
    mx.eval(arrays)
    if ON_GPU:
        mx.synchronize()


def require(name: str) -> Any:
    """`mlxcache.<name>`; skips the benchmark on a commit that lacks it."""
    found = getattr(mlxcache, name, None) if mlxcache is not None else None
    if found is None:
        raise Skip(f"this commit of mlxcache has no {name}")
    return found


def available_memory() -> int:
    """Bytes that a benchmark may allocate on the device now; 0 where nobody can tell."""
    if ON_GPU:
        info = gpu_facts()
        # CUDA says "total_memory", Metal "memory_size": all that the Mac has, of which it recommends some 70 %.
        total = int(info.get("total_memory") or info.get("memory_size") or 0)
        total = min(total, int(info.get("max_recommended_working_set_size") or total))
        return max(0, total - int(mx.get_active_memory())) if total else 0
    if platform.system() == "Linux":
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if platform.system() == "Darwin":  # half of what is installed: other processes hold the rest
        return int(subprocess.run(["sysctl", "-n", "hw.memsize"], capture_output=True, check=True).stdout) // 2
    return 0


# On a CPU, filling more than this takes longer than all measuring of it: 1 GB/s on the machine tried.
MOST_ON_CPU = 25 * 10**8


def need_memory(needed: int) -> None:
    """Skip a parameter set that the machine is too small for, with the numbers."""
    there = available_memory()
    if not ON_GPU and needed > MOST_ON_CPU:
        raise Skip(
            f"needs about {needed / 1e9:.1f} GB, which a CPU fills too slowly: limit {MOST_ON_CPU / 1e9:.1f} GB"
        )
    if there and needed > 0.8 * there:
        raise Skip(f"needs about {needed / 1e9:.1f} GB, {there / 1e9:.1f} available")


def random_tokens(count: int, head_dim: int = HEAD_DIM, seed: int = 0, heads: int = HEADS) -> mx.array:
    """Evaluated random `[1, heads, count, head_dim]` in the storage dtype; a seed changes every value."""
    shape = (1, heads, count, head_dim)
    # Each seed has the same values one further on: a prompt's 64 arrays took 2.6 s to draw.
    drawn = once(("drawn", shape), lambda: np.random.default_rng(0).standard_normal(shape).astype(np.float16))
    array = mx.array(np.roll(drawn, seed)).astype(DTYPE)
    mx.eval(array)
    return array


def position_tensor(start: int, count: int, path: str) -> mx.array:
    """Positions of a step, of the dtype that `path` names.

    From the host: evaluating an arange just before a step added 20 to 100 us to the evaluation of the step.
    """
    return mx.array(np.arange(start, start + count, dtype=np.dtype(path)))


def kv_bytes(tokens: int, head_dim: int = HEAD_DIM, layers: int = LAYERS) -> int:
    """Bytes of K and V of `tokens` tokens in all layers."""
    return 2 * layers * HEADS * tokens * head_dim * ITEMSIZE


def attending(cache: Any, window: int | None) -> Callable[..., Any]:
    """The cache's `update_and_fetch` as a caller has it that attends to a ring; a flat layer's is the same."""
    update: Callable[..., Any] = cache.update_and_fetch
    return update if window is None or not ATTENDS else partial(update, **ATTENDS)


def ours(
    context: int,
    head_dim: int = HEAD_DIM,
    layers: int = LAYERS,
    window: int | None = None,
    slack: int = 64,
    count: int = 1,
    **options: int,
) -> Any:
    """A sequence cache that holds `context` tokens and has room for `slack` more without growing.

    The last of a ring's come as a model decodes them, `count` at a time. `options` are fields of the config that
    every commit under test knows.
    """
    policy_type = require("LayerPolicy")
    policy = policy_type.flat() if window is None else policy_type.ring(window)
    config = require("CacheConfig")(
        capacity=max(1, context) + max(slack, 1 << 20 if window else 0),
        n_layers=layers,
        layers=[require("LayerConfig")(policy, HEADS, head_dim)],
        kv_dtype=DTYPE,
        initial_capacity=context + slack,
        **options,
    )
    cache = require("MLXSequenceCache")(config)
    update = attending(cache, window)
    settling = 0 if window is None else max(0, context - SETTLING * count)
    # Random where it is cheap; a long context is filled with one token, since only its length costs.
    start, longest = 0, window or 4096
    random = random_tokens(min(context, longest), head_dim)
    while start < context:
        if window is None:
            size = context - start
        else:
            size = min(settling - start, longest) if start < settling else min(count, context - start)
        tokens = (
            random[:, :, :size]
            if size <= longest
            else mx.broadcast_to(random[:, :, :1], (1, HEADS, size, head_dim))
        )
        for layer in range(layers):
            spec = update(layer, range(start, start + size), tokens, tokens)
            mx.eval(spec.keys, spec.values)
            del spec
        start += size
    return cache


class Step:
    """`count` tokens at `context` through all layers of a sequence cache, as a model's step does it.

    Each layer reads the position tensor (`host_positions`), stores and fetches; one evaluation at the end waits
    for all keys and values, and with them for the pools that they are slices of. No spec outlives the call: a
    slice that is alive would make MLX copy the pool.
    """

    def __init__(
        self,
        path: str,
        context: int,
        count: int = 1,
        head_dim: int = HEAD_DIM,
        layers: int = LAYERS,
        window: int | None = None,
        room: int = 64,
    ) -> None:
        slots = context + count + room if window is None else 2 * window
        need_memory(kv_bytes(slots + 4 * count, head_dim, layers))
        self.host_positions = require("host_positions")
        self.cache = ours(context, head_dim, layers, window, slack=count + room, count=count)
        self.update = attending(self.cache, window)
        self.context = context
        self.end = context + room
        self.path = path
        self.layers = layers
        self.keys = [random_tokens(count, head_dim, seed) for seed in range(layers)]
        self.values = [random_tokens(count, head_dim, seed + layers) for seed in range(layers)]
        self.position = position_tensor(context, count, path)
        for _ in range(3):
            self()
            self.rewind()

    def rewind(self) -> None:
        """Back to `context`, so that every sample measures the same step."""
        self.cache.rewind(self.context)

    def go_on(self) -> None:
        """On to the next position, as decoding does; back to `context` where the room ends."""
        if self.cache.length >= self.end:
            self.rewind()
        position = self.cache.length
        self.position = position_tensor(position, self.position.size, self.path)

    def __call__(self) -> None:
        """One step, evaluated."""
        update, positions, position = self.update, self.host_positions, self.position
        outputs = []
        for layer in range(self.layers):
            spec = update(layer, positions(position), self.keys[layer], self.values[layer])
            outputs.append(spec.keys)
            outputs.append(spec.values)
        synchronise(outputs)


def low(seconds: list[float]) -> float:
    """The 5 % quantile: disturbance only adds time, and hundreds of samples leave twenty below it.

    On two cores with a load of 6, ratios of these repeated within 2 to 3 %; of quartiles within 4 to 10, of
    medians within 12 to 17.
    """
    return float(np.quantile(seconds, 0.05))


def interleaved(contenders: list[Callable[[], float]], rounds: int, longest: float = 3.0) -> list[list[float]]:
    """Each contender's seconds, taken in turn (A B B A ...) so that a slow minute slows all of them alike.

    Stops after `rounds`, or after `longest` seconds once there are 10. A quick run takes 10 at most, and 0.2 s.
    """
    least = 10
    if QUICK:
        least, rounds, longest = 3, min(rounds, 10), 0.2
    seconds: list[list[float]] = [[] for _ in contenders]
    began = time.perf_counter()
    for turn in range(rounds):
        order = range(len(contenders))
        for index in order if turn % 2 == 0 else reversed(order):
            seconds[index].append(contenders[index]())
        if turn >= least and time.perf_counter() - began > longest:
            break
    return seconds


def timed(step: Callable[[], object], reset: Callable[[], object] | None = None) -> Callable[[], float]:
    """A call that resets, then times one step."""

    def call() -> float:
        if reset is not None:
            reset()
        began = time.perf_counter()
        step()
        return time.perf_counter() - began

    return call


def ratio(mine: Callable[[], float], other: Callable[[], float], rounds: int = 1000) -> float:
    """What `mine` takes over what `other` takes, interleaved in one process.

    How well that repeats, by the number of pairs and with other estimators: `tools/estimators.py`.
    """
    a, b = interleaved([mine, other], rounds)
    return low(a) / low(b)
