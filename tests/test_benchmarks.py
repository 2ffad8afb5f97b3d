"""The suite itself: what asv finds, that it waits for the work, that peers do the same, that old commits skip."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

import benchmarks
from benchmarks import (
    attend,
    common,
    contenders,
    control,
    growth,
    model,
    pool,
    positions,
    quantised,
    ratios,
    ring,
)
from benchmarks import cells as cell_steps

ROOT = Path(__file__).parent.parent
MODULES = [importlib.import_module(f"benchmarks.{m.name}") for m in pkgutil.iter_modules(benchmarks.__path__)]
BENCHMARK = re.compile(r"(time|timeraw|track|peakmem|mem)_")


def _classes(module: Any) -> list[type]:
    return [
        value
        for name, value in vars(module).items()
        if inspect.isclass(value) and not name.startswith("_") and any(BENCHMARK.match(n) for n in dir(value))
    ]


CLASSES = [(module.__name__, cls) for module in MODULES for cls in _classes(module)]


def _benchmarks(cls: type) -> list[str]:
    return [name for name in dir(cls) if BENCHMARK.match(name)]


def test_shared_modules_offer_asv_nothing() -> None:
    """common and contenders hold no name that asv would take for a benchmark, and no topic imports one."""
    for module in (common, contenders):
        assert [name for name in vars(module) if BENCHMARK.match(name)] == []
    assert [(name, cls.__name__) for name, cls in CLASSES if cls.__module__ != name] == []


@pytest.mark.parametrize(("module", "cls"), CLASSES, ids=lambda x: x if isinstance(x, str) else x.__name__)
def test_every_benchmark_has_a_version_and_names_for_its_parameters(module: str, cls: type) -> None:
    """A version that a refactoring keeps, a name for each parameter, plain values, and a unit where it tracks."""
    for name in _benchmarks(cls):
        function = getattr(cls, name)
        assert getattr(function, "version", getattr(cls, "version", None)), name
        params = getattr(function, "params", getattr(cls, "params", []))
        names = getattr(function, "param_names", getattr(cls, "param_names", ()))
        lists = params if params and isinstance(params[0], (list, tuple)) else [params] if params else []
        assert len(names) == len(lists), name
        assert all(isinstance(value, (str, int, float)) for values in lists for value in values), name
        if name.startswith("track_"):
            assert getattr(function, "unit", getattr(cls, "unit", "")), name


def test_stateful_benchmarks_are_sampled_one_step_at_a_time() -> None:
    """number 1 and no warm-up of asv's own: a step changes the cache, and only setup goes back."""
    for module, cls in CLASSES:
        if any(name.startswith("time_") for name in _benchmarks(cls)):
            assert (getattr(cls, "number", 0), getattr(cls, "warmup_time", -1)) == (1, 0), (
                f"{module}.{cls.__name__}"
            )


class _Spy:
    """mx with an eval that remembers what it was asked to evaluate, and counts synchronisations."""

    def __init__(self) -> None:
        self.evaluated: list[mx.array] = []
        self.evals = self.waits = 0

    def eval(self, *arrays: Any) -> None:
        self.evals += 1
        self.evaluated += list(_flat(arrays))
        mx.eval(*arrays)

    def synchronize(self) -> None:
        self.waits += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(mx, name)


def _flat(tree: Any) -> Any:
    if isinstance(tree, (list, tuple)):
        for item in tree:
            yield from _flat(item)
    else:
        yield tree


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_step_waits_for_all_its_work(monkeypatch: pytest.MonkeyPatch, on_gpu: bool) -> None:
    """One evaluation takes in every layer's keys and values, whole, and on a GPU the device is waited for."""
    step = common.Step("int32", context=16, layers=3, head_dim=8)
    spy = _Spy()
    monkeypatch.setattr(common, "mx", spy)
    monkeypatch.setattr(common, "ON_GPU", on_gpu)
    step()
    assert spy.evals == 1
    assert [array.shape for array in spy.evaluated] == [(1, common.HEADS, 17, 8)] * 6
    assert spy.waits == int(on_gpu)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_contenders_and_controls_wait_too(monkeypatch: pytest.MonkeyPatch, on_gpu: bool) -> None:
    """The peers' steps and the bare control evaluate what they produce, once, and wait on a GPU."""
    names = [*contenders.FLAT, *contenders.BARE_READING.values()]
    steps = [(contenders.Contender(name, 16, 1, 2, 8, None).step, 4) for name in names]
    steps.append((control.BareSteps(), 64))
    for step, arrays in steps:
        spy = _Spy()
        with monkeypatch.context() as patch:
            patch.setattr(common, "mx", spy)
            patch.setattr(common, "ON_GPU", on_gpu)
            step()
        assert (spy.evals, len(spy.evaluated), spy.waits) == (1, arrays, int(on_gpu))


def _set_up(bench: Any, *params: Any) -> Any:
    bench.setup(*params)
    (name,) = (name for name in _benchmarks(type(bench)) if name.startswith("time_"))
    return lambda: getattr(bench, name)(*params)


# Steps of the suite that do not end in `common.Step`, and how many arrays each waits for: K and V of its layers, a
# pool a write, or what attention gave.
OTHER_STEPS: dict[str, tuple[Any, int]] = {
    "attend": (lambda: _set_up(attend.Attend(), "int32", 1, 8), 1),
    "cells": (lambda: cell_steps._CellStep(_appended(16, 3), [0], "int64"), 4),
    "cells, attending": (lambda: cell_steps._CellStep(_appended(16, 3), [0], "int64", attend=True), 2),
    "separate caches": (lambda: cell_steps._SeparateSteps(2, 16, 3, "int32"), 6),
    "a copied fork": (lambda: _set_up(cell_steps.Fork(), "copy", 64), 64),
    "a pool that grows": (lambda: _set_up(growth.Growth(), 512), 1),
    "a cache that grows": (lambda: _set_up(growth.GrowingCache(), "ours", 1024), 16),
    "mlx-lm's, growing": (lambda: _set_up(growth.GrowingCache(), "mlx-lm", 1024), 16),
    "pool writes": (lambda: pool.pool_writes(1), 32),
    "bare writes": (lambda: pool._bare_writes(1), 32),
    "quantised": (lambda: _set_up(quantised.Quantised(), "int32", 8, 256), 4),
    "a lap of a ring": (lambda: _set_up(ring.Lap(), 16), 2 * 17),
    "a model's token": (lambda: _model_token(), 1),
    "cast on the device": (lambda: lambda: positions._device_cast(mx.array([1, 2], mx.int64)), 1),
}


def _model_token() -> Any:
    bench = model.Generate()
    bench.setup("llama", "sequence", "host")
    return lambda: bench.decode(1)


@pytest.mark.parametrize("name", OTHER_STEPS)
def test_every_other_step_waits_for_all_it_made(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What is not evaluated inside of the timed call would cost nothing: only Python would be measured."""
    make, arrays = OTHER_STEPS[name]
    step = make()
    evaluated: list[Any] = []
    plain = mx.eval
    monkeypatch.setattr(mx, "eval", lambda *given: [evaluated.extend(_flat(given)), plain(*given)])
    step()
    assert len(evaluated) == arrays
    assert len({id(array) for array in evaluated}) == arrays


def test_a_ratio_divides_the_low_quantiles() -> None:
    """One in twenty lies below; a disturbed half of the samples changes nothing."""
    assert common.low([float(value) for value in range(101)]) == 5.0
    mine = iter([2.0, 20.0] * 1000)
    other = iter([1.0, 1.0, 30.0] * 1000)
    assert common.ratio(lambda: next(mine), lambda: next(other), rounds=100) == 2.0


@pytest.mark.skipif(mx.metal.is_available(), reason="counts the CPU's buffers")
def test_mlx_lms_cache_neither_grows_nor_copies_in_a_timed_step() -> None:
    """It has room ahead, as ours has, and nobody holds its arrays, so that a step writes in place."""
    peer = contenders.Contender("KVCache", 4096, 1, 1, 64, None)
    pool = 2 * 4096 * contenders.HEADS * 64 * 2
    peer.step()
    peer.reset()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    peer.step()
    assert mx.get_peak_memory() - before < pool / 4


@pytest.mark.parametrize("name", [*contenders.FLAT, *contenders.BARE_READING.values()])
def test_peers_do_the_same_work(name: str) -> None:
    """Each contender returns what ours returns, cell by cell, again after a reset."""
    made = contenders.Contender(name, 16, 2, 2, 8, None)
    contenders.check_same_work(made)
    contenders.check_same_work(made)


@pytest.mark.parametrize("name", contenders.RING)
def test_rings_hold_the_same_cells(name: str) -> None:
    """Ours and mlx-lm's full ring hold the same newest cells, in whatever order."""
    contenders.check_same_work(contenders.Contender(name, 9, 1, 2, 8, 4))


def test_a_peer_that_does_less_is_refused() -> None:
    """Storing nothing, or reading less, is found before anything is timed."""
    idle = contenders.Contender("bare", 16, 1, 2, 8, None)
    right = idle.update
    idle.update = lambda layer, k, v: right(layer, mx.zeros_like(k), v)
    with pytest.raises(RuntimeError, match="bare: array 0 holds other cells"):
        contenders.check_same_work(idle)
    short = contenders.Contender("bare", 16, 1, 2, 8, None)
    full = short.update
    short.update = lambda layer, k, v: tuple(x[:, :, 1:] for x in full(layer, k, v))  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match=r"bare: array 0 is \(1, 8, 16, 8\)"):
        contenders.check_same_work(short)


def test_a_step_that_goes_on_visits_each_position_and_starts_again() -> None:
    """One token further each time, back to the context where the room ends; cells and the reading loop alike."""
    step = common.Step("int64", 16, head_dim=8, layers=2, room=3)
    cells = cell_steps._CellStep(_appended(16, 3), [0], "int64")
    bare = contenders.Contender("bare reading int64", 16, 1, 2, 8, None)
    visited: list[tuple[int, int, int]] = []
    for _ in range(5):
        for one in (step, cells, bare):
            one.go_on()
        cells()
        step()
        visited.append((step.position.item(), cells.position.item(), bare.fetch()[0].shape[2] - 1))
    assert visited == [(16, 16, 17), (17, 17, 18), (18, 18, 19), (16, 16, 20), (17, 17, 21)]
    for _ in range(common.ROOM):
        bare.go_on()
    assert bare.fetch()[0].shape[2] - 1 < 16 + common.ROOM


def _appended(tokens: int, room: int) -> Any:
    cells = cell_steps._cells(tokens + room, 2)
    cell_steps._append(cells, [0] * tokens)
    return cells


def test_a_models_token_is_only_timed_beside_one_that_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache under which the model gives other tokens is refused before anything is timed."""
    model.ModelFloor().setup("llama", "sequence", "host")
    right = model._BareLayer.update_and_fetch

    def short(self: Any, keys: mx.array, values: mx.array) -> tuple[mx.array, ...]:
        return tuple(x[:, :, -1:] for x in right(self, keys, values))

    monkeypatch.setattr(model._BareLayer, "update_and_fetch", short)
    with pytest.raises(RuntimeError, match="llama: sequence and bare give other tokens"):
        model.ModelFloor().setup("llama", "sequence", "host")


@pytest.mark.parametrize("option", list(positions.OPTIONS))
@pytest.mark.parametrize("path", common.PATHS)
def test_the_four_options_read_the_same_positions(option: str, path: str) -> None:
    """Whatever the option, it reads the tensor's positions; `first` reads one of them."""
    bench = positions.Positions()
    bench.setup(option, path, 16)
    read = bench.read(common.position_tensor(3, 4, path))
    assert ([read] if option == "first" else list(read)) == [3, 4, 5, 6][: 1 if option == "first" else 4]


def test_a_machine_too_small_skips_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """asv shows the reason: what is needed and what is there."""
    monkeypatch.setattr(common, "available_memory", lambda: 2 * 10**9)
    with pytest.raises(NotImplementedError, match=r"needs about 1\.9 GB, 2\.0 available"):
        common.need_memory(19 * 10**8)
    monkeypatch.setattr(common, "available_memory", lambda: 10**12)
    with pytest.raises(NotImplementedError, match=r"needs about 9\.0 GB.*limit 2\.5 GB"):
        common.need_memory(9 * 10**9)


@pytest.mark.parametrize("old", [False, True])
def test_metal_budgets_by_its_working_set(old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of a Mac's memory is not the GPU's, and MLX before 0.30 is asked under its old name."""

    def device_info() -> dict[str, int | str]:
        return {"memory_size": 24 * 10**9, "max_recommended_working_set_size": 17 * 10**9}

    monkeypatch.setattr(common, "ON_GPU", True)
    monkeypatch.setattr(common.mx, "get_active_memory", lambda: 10**9)
    monkeypatch.setattr(common.mx, "device_info", device_info)
    if old:
        monkeypatch.setattr(common.mx.metal, "device_info", device_info, raising=False)
        monkeypatch.delattr(common.mx, "device_info")
    assert common.available_memory() == 16 * 10**9


@pytest.mark.parametrize(
    ("device", "system", "told", "chosen"),
    [
        ("default", "Darwin", {"device_name": "Apple Paravirtual device"}, "cpu"),
        ("default", "Darwin", {"device_name": "Apple M2 Pro"}, None),
        ("default", "Darwin", RuntimeError("[metal::load_device] No Metal device available"), "cpu"),
        ("default", "Linux", RuntimeError("Cannot get device info without metal backend"), None),
        ("cpu", "Darwin", AssertionError("asked about a GPU, which ends MLX 0.30 without Metal"), "cpu"),
        ("gpu", "Darwin", {"device_name": "Apple Paravirtual device"}, "gpu"),
    ],
)
def test_the_device_that_is_measured(
    device: str, system: str, told: Any, chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the old name of MLX's question: a virtual GPU and a Mac without Metal leave the CPU."""

    def device_info() -> Any:
        if isinstance(told, Exception):
            raise told
        return told

    set_to: list[Any] = []
    monkeypatch.setattr(common, "DEVICE", device)
    monkeypatch.setattr(common.platform, "system", lambda: system)
    monkeypatch.delattr(common.mx, "device_info", raising=False)
    monkeypatch.setattr(common.mx.metal, "device_info", device_info, raising=False)
    monkeypatch.setattr(common.mx, "set_default_device", set_to.append)
    common._choose_device()
    assert set_to == ([] if chosen is None else [mx.Device(getattr(mx.DeviceType, chosen))])


def test_an_unknown_device_is_an_error_not_a_default() -> None:
    """MLXCACHE_DEVICE takes default, cpu or gpu; anything else ends the import with what was got."""
    done = subprocess.run(
        [sys.executable, "-c", "import benchmarks.common"],
        env={"MLXCACHE_DEVICE": "tpu", "PATH": ""},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "MLXCACHE_DEVICE: got 'tpu'" in done.stderr


def test_the_suite_imports_and_skips_on_a_commit_without_the_cache() -> None:
    """Every module imports where mlxcache does not, and setup skips with the reason."""
    script = """
        import importlib, pkgutil, sys
        sys.modules["mlxcache"] = None
        import benchmarks
        for m in pkgutil.iter_modules(benchmarks.__path__):
            importlib.import_module("benchmarks." + m.name)
        from benchmarks.decode import Decode
        try:
            Decode().setup("int32", 64, 128)
        except NotImplementedError as reason:
            print(reason)
    """
    done = subprocess.run(
        [sys.executable, "-c", inspect.cleandoc(script)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "this commit of mlxcache has no host_positions", done.stderr


def test_interleaving_takes_turns() -> None:
    """A B, B A, ...: each contender leads as often as the other."""
    calls: list[str] = []

    def call(name: str) -> float:
        calls.append(name)
        return 1.0

    seconds = common.interleaved([lambda: call("a"), lambda: call("b")], 4)
    assert "".join(calls) == "abbaabba"
    assert seconds == [[1.0] * 4] * 2
    assert ratios.ratio(lambda: 3.0, lambda: 2.0, 4) == 1.5


def test_a_quick_run_takes_few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten at most, and fewer of what takes long."""
    monkeypatch.setattr(common, "QUICK", True)
    assert [len(s) for s in common.interleaved([lambda: 1.0], 400)] == [10]
    assert [len(s) for s in common.interleaved([lambda: time.sleep(0.25) or 1.0], 400)] == [4]


def test_seeds_give_other_tokens_everywhere() -> None:
    """Two layers' arrays share no value at any place, so that what lands in the wrong one is seen."""
    one, other = (common.random_tokens(4, 8, seed) for seed in (0, 1))
    assert not mx.any(one == other).item()
    assert mx.array_equal(one, common.random_tokens(4, 8, 0)).item()


def test_mlx_lm_is_entered_without_its_heavy_start() -> None:
    """The caches import without transformers; whoever wants a name of the package itself still gets it."""
    script = """
        import sys
        from benchmarks import contenders
        print(contenders.mlx_lm_cache is not None, "transformers" in sys.modules)
        from mlx_lm import stream_generate
        print(callable(stream_generate), sys.modules["mlx_lm"].models.cache is contenders.mlx_lm_cache)
    """
    done = subprocess.run(
        [sys.executable, "-c", inspect.cleandoc(script)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True", "False", "True", "True"], done.stderr


def test_what_is_missing_skips_a_tracked_value_too() -> None:
    """asv counts a plain NotImplementedError within a measurement as a failure; ours is its own skip."""
    from asv_runner.benchmarks.mark import SkipNotImplemented

    with pytest.raises(SkipNotImplemented, match="this commit of mlxcache has no Nothing"):
        common.require("Nothing")
