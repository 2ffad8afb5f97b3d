"""The sequence cache against the oracle, and every refusal."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mlxcache import CapacityError, MaskKind, MLXSequenceCache, host_positions, make_cache, update_and_attend
from mlxcache.kv.cache import LayerBytes
from mlxcache.kv.masks import band_mask
from mlxcache.kv.step import Gather
from tests.helpers import config, fill, state, tokens
from tests.oracle import OracleCache, attend


def _visible(kind: MaskKind, mask: mx.array | None, count: int, span: int) -> np.ndarray:
    """What a spec lets each query see, as bool [T, S]."""
    if kind is MaskKind.EXPLICIT:
        assert mask is not None
        assert mask.shape == (1, 1, count, span)
        assert mask.dtype == mx.bool_
        return np.array(mask)[0, 0]
    assert mask is None
    if kind is MaskKind.NONE:
        return np.ones((count, span), bool)
    return np.tril(np.ones((count, span), bool), span - count)


class CacheProgram(RuleBasedStateMachine):
    """Random steps, rewinds, clears and refused steps over a random model, compared cell by cell."""

    @initialize(
        windows=st.lists(st.one_of(st.none(), st.integers(1, 6)), min_size=1, max_size=3),
        max_write=st.one_of(st.none(), st.integers(1, 9)),
        initial=st.sampled_from([0, 1, 3, 64]),
        capacity=st.integers(10, 70),
        seed=st.integers(0, 2**16),
    )
    def build(self, windows, max_write, initial, capacity, seed) -> None:
        self.config = config(*windows, max_write=max_write, initial_capacity=initial, capacity=capacity)
        self.cache = MLXSequenceCache(self.config)
        self.oracle = OracleCache(self.config)
        self.rng = np.random.default_rng(seed)

    @rule(back=st.integers(0, 3), count=st.integers(1, 9), wide=st.booleans())
    def step(self, back: int, count: int, wide: bool) -> None:
        start = max(0, self.oracle.length - back)
        dtype = mx.int64 if wide else mx.int32
        position = mx.arange(start, start + count).astype(dtype)
        accepted = self.oracle.accepts(start, count)
        for layer in range(self.config.n_layers):
            q, k, v = tokens(self.rng, count, heads=4), tokens(self.rng, count), tokens(self.rng, count)
            if not accepted:
                before = state(self.cache)
                with pytest.raises(ValueError, match="positions: "):
                    self.cache.update_and_fetch(layer, host_positions(position), k, v)
                assert state(self.cache) == before
                continue
            self.oracle.update(layer, start, np.array(k)[0], np.array(v)[0])
            keys, values = self.oracle.read(layer, start, count)
            sees = self.oracle.sees(layer, start, count)
            spec = self.cache.update_and_fetch(layer, host_positions(position), k, v)
            np.testing.assert_array_equal(np.array(spec.keys)[0], keys)
            np.testing.assert_array_equal(np.array(spec.values)[0], values)
            np.testing.assert_array_equal(_visible(spec.kind, spec.mask, count, keys.shape[1]), sees)
            # The same step again, through attention: a layer served twice gives the same.
            out = update_and_attend(self.cache, layer, q, k, v, position, 0.3)
            expected = attend(np.array(q)[0], keys, values, sees, 0.3)
            np.testing.assert_allclose(np.array(out)[0], expected, atol=2e-5)
        if accepted:
            self.oracle.finish(start + count)
        assert self.cache.length == self.oracle.length

    @rule(count=st.integers(1, 12), between=st.sampled_from(["nothing", "mask", "shape"]))
    def decode(self, count: int, between: str) -> None:
        """As a model does it, up to the capacity: each layer once, what comes between changes nothing."""
        for start in range(self.oracle.length, self.oracle.length + count):
            k = tokens(self.rng, 1)
            if not self.oracle.accepts(start, 1):
                before = state(self.cache)
                with pytest.raises(CapacityError, match="positions: "):
                    self.cache.update_and_fetch(0, [start], k, k)
                assert state(self.cache) == before
                return
            for layer in range(self.config.n_layers):
                before = state(self.cache)
                if between == "shape":
                    with pytest.raises(ValueError, match="v: got shape"):
                        self.cache.update_and_fetch(layer, [start], k, k[:, :1])
                elif between == "mask":
                    with suppress(CapacityError):  # of the next step: at the end there is none
                        self.cache.mask_for(layer, [self.cache.length])
                assert state(self.cache) == before
                self.oracle.update(layer, start, np.array(k)[0], -np.array(k)[0])
                spec = self.cache.update_and_fetch(layer, [start], k, -k)
                keys, values = self.oracle.read(layer, start, 1)
                np.testing.assert_array_equal(np.array(spec.keys)[0], keys)
                np.testing.assert_array_equal(np.array(spec.values)[0], values)
                assert spec.kind is MaskKind.NONE
            self.oracle.finish(start + 1)

    @rule(elsewhere=st.booleans())
    def restore(self, elsewhere: bool) -> None:
        held = _held(self.cache)
        cache = MLXSequenceCache(self.config) if elsewhere else self.cache
        cache.restore(self.cache.written, self.cache.length, held)
        self.cache = cache

    @rule()
    def copy(self) -> None:
        self.cache = deepcopy(self.cache)

    @rule(start=st.integers(-3, 90), count=st.integers(1, 12))
    def any_step_is_accepted_or_refused_alike(self, start: int, count: int) -> None:
        if self.oracle.accepts(start, count):
            return
        before = state(self.cache)
        k = tokens(self.rng, count)
        with pytest.raises(ValueError, match="positions: "):
            self.cache.update_and_fetch(0, range(start, start + count), k, k)
        assert state(self.cache) == before

    @rule(length=st.integers(-1, 72))
    def rewind(self, length: int) -> None:
        assert self.cache.rewind(length) == self.oracle.rewind(length)
        assert self.cache.length == self.oracle.length

    @precondition(lambda self: self.oracle.length > 6)
    @rule()
    def clear(self) -> None:
        self.cache.clear()
        self.oracle.clear()
        assert self.cache.length == 0


CacheProgram.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestCacheProgram = CacheProgram.TestCase


@pytest.mark.parametrize(("window", "max_write"), [(None, None), (4, 1), (4, 3), (4, None), (6, 9)])
def test_every_rewind_gives_what_a_fresh_cache_gives(window: int | None, max_write: int | None) -> None:
    """After each accepted rewind of a wrapped cache, decoding on equals a cache that never went further."""
    cfg = config(window, max_write=max_write)
    accepted = 0
    for target in range(31):
        cache = MLXSequenceCache(cfg)
        fill(cache, 30)
        if not cache.rewind(target):
            continue
        accepted += 1
        fresh = MLXSequenceCache(cfg)
        fill(fresh, target)
        again = fill(cache, 5, seed=1)
        expected = fill(fresh, 5, seed=1)
        for got, want in zip(again, expected, strict=True):
            np.testing.assert_array_equal(np.array(got), np.array(want))
    # 30 and 0 always; a flat layer any; a ring as far back as max_write.
    assert accepted == (31 if window is None else 2 + (max_write or window))


@pytest.mark.parametrize("count", [2, 5, 8, 13])
def test_a_step_larger_than_the_window_leaves_every_query_its_keys(count: int) -> None:
    """Row i of the mask has min(window, position + 1) keys; no row is empty."""
    window = 5
    cache = MLXSequenceCache(config(window, max_write=13))
    fill(cache, 3)
    k = tokens(np.random.default_rng(0), count)
    spec = cache.update_and_fetch(0, range(3, 3 + count), k, k)
    seen = _visible(spec.kind, spec.mask, count, spec.keys.shape[2]).sum(axis=1)
    assert seen.tolist() == [min(window, p + 1) for p in range(3, 3 + count)]


@pytest.mark.parametrize(
    ("window", "count", "span"), [(1, 1, 1), (1, 3, 3), (3, 2, 7), (4, 4, 7), (9, 3, 5), (2, 6, 6)]
)
def test_the_band_is_the_loop(window: int, count: int, span: int) -> None:
    """The strided construction equals the definition, entry by entry."""
    loop = [[span - count - window < j - i <= span - count for j in range(span)] for i in range(count)]
    assert np.array(band_mask(window, count, span))[0, 0].tolist() == loop


def test_one_mask_per_window_and_step() -> None:
    """Layers with one window share a mask object; another window has its own; a later step of one shape too."""
    cache = MLXSequenceCache(config(4, None, 4, 6, 4, max_write=4))
    fill(cache, 12, chunk=4)
    k = tokens(np.random.default_rng(0), 3)
    masks = [cache.update_and_fetch(layer, range(12, 15), k, k).mask for layer in range(5)]
    assert masks[0] is masks[2] is masks[4]
    assert masks[1] is None
    assert masks[3] is not masks[0]
    again = [cache.update_and_fetch(layer, range(15, 18), k, k).mask for layer in range(5)]
    assert again[0] is masks[0]


@pytest.mark.parametrize("window", [None, 4])
def test_one_token_needs_no_mask(window: int | None) -> None:
    """T == 1 is unmasked, on a full ring too."""
    cache = MLXSequenceCache(config(window))
    fill(cache, 9)
    k = tokens(np.random.default_rng(0), 1)
    spec = cache.update_and_fetch(0, [9], k, k)
    assert (spec.kind, spec.mask, spec.keys.shape[2]) == (MaskKind.NONE, None, 10 if window is None else 4)


def test_growth_at_any_offset_keeps_every_cell() -> None:
    """Random step sizes grow the pool off its doubling points; what was stored stays."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        cache = MLXSequenceCache(config(None, capacity=500, initial_capacity=int(rng.integers(0, 5))))
        kept: list[np.ndarray] = []
        while cache.length < 450:
            count = int(rng.integers(1, 40))
            k = tokens(rng, count)
            kept.append(np.array(k))
            spec = cache.update_and_fetch(0, range(cache.length, cache.length + count), k, k)
            np.testing.assert_array_equal(np.array(spec.keys), np.concatenate(kept, axis=2))


RING = {"max_write": 4}


@pytest.mark.parametrize(
    ("layer", "positions", "k", "v", "error", "message"),
    [
        (2, [10], (1, 2, 1, 8), None, IndexError, r"layer: got 2, expected 0 <= layer < 2"),
        (-1, [10], (1, 2, 1, 8), None, IndexError, r"layer: got -1"),
        (0, [], (1, 2, 1, 8), None, ValueError, r"positions: got 0 tokens"),
        (
            0,
            [10, 11],
            (1, 2, 1, 8),
            None,
            ValueError,
            r"k: got shape \(1, 2, 1, 8\), expected \(1, 2, 2, 8\).*2 pos",
        ),
        (0, [10], (1, 2, 2, 8), None, ValueError, r"k: got shape \(1, 2, 2, 8\), expected \(1, 2, 1, 8\)"),
        (0, [10, 12], (1, 2, 2, 8), None, ValueError, r"positions\[1\]: got 12, expected 11"),
        (0, [11, 10], (1, 2, 2, 8), None, ValueError, r"positions\[1\]: got 10, expected 12"),
        (0, [10, 10], (1, 2, 2, 8), None, ValueError, r"positions\[1\]: got 10, expected 11"),
        (0, [-1], (1, 2, 1, 8), None, ValueError, r"positions: got a start of -1"),
        (
            0,
            np.array([2**64 - 2, 2**64 - 1], np.uint64),
            (1, 2, 2, 8),
            None,
            ValueError,
            r"positions: got a start of 18446744073709551614 on a cache of length 10",
        ),
        (0, [12], (1, 2, 1, 8), None, ValueError, r"positions: got a start of 12 on a cache of length 10"),
        (0, [[10]], (1, 2, 1, 8), None, ValueError, r"positions: got shape \(1, 1\), expected 1-D"),
        (0, [10.0], (1, 2, 1, 8), None, ValueError, r"positions: got dtype float64, expected integers"),
        (0, ["a"], (1, 2, 1, 8), None, ValueError, r"positions: got dtype <U1, expected integers"),
        (1, [5], (1, 2, 1, 8), None, ValueError, r"positions: got a start of 5.*a ring layer no longer holds"),
        (
            0,
            range(10, 15),
            (1, 2, 5, 8),
            None,
            CapacityError,
            r"got 5 tokens in one step, expected at most max_write=4",
        ),
        (0, [10], (1, 1, 1, 8), None, ValueError, r"k: got shape \(1, 1, 1, 8\)"),
        (0, [10], (2, 2, 1, 8), None, ValueError, r"k: got shape \(2, 2, 1, 8\)"),
        (0, [10], (1, 2, 1, 1), None, ValueError, r"k: got shape \(1, 2, 1, 1\)"),
        (0, [10], (2, 1, 8), None, ValueError, r"k: got shape \(2, 1, 8\)"),
        (0, [10], (1, 2, 1, 8), (1, 2, 2, 8), ValueError, r"v: got shape \(1, 2, 2, 8\), expected \(1, 2, 1, 8\)"),
        (0, [10], (1, 2, 1, 8), (1, 1, 1, 8), ValueError, r"v: got shape \(1, 1, 1, 8\)"),
        (1, [10, 11], (1, 2, 2, 8), (1, 2, 1, 8), ValueError, r"v: got shape \(1, 2, 1, 8\)"),
    ],
)
@pytest.mark.parametrize("warm", [False, True], ids=["first layer", "later layer"])
def test_a_refused_step_changes_nothing(layer, positions, k, v, error, message, warm: bool) -> None:
    """Each refusal names the argument and leaves bytes, slots and length alone, in any layer."""
    cache = MLXSequenceCache(config(None, 4, **RING))
    fill(cache, 10)
    if warm:  # layer 0 has begun the step at 9 again, so its plan is at hand
        token = tokens(np.random.default_rng(9), 1)
        mx.eval(cache.update_and_fetch(0, [9], token, token).keys)
    before = state(cache)
    with pytest.raises(error, match=message):
        cache.update_and_fetch(layer, positions, mx.ones(k), mx.ones(v or k))
    assert state(cache) == before


@pytest.mark.parametrize("wrong", [[10, 12], [10, 10], (10, 12), np.array([10, 12]), memoryview(b"")])
def test_a_later_layer_cannot_smuggle_in_other_positions(wrong) -> None:
    """A step that starts and counts like the current one is still read entry by entry."""
    if isinstance(wrong, memoryview):
        wrong = host_positions(mx.array([10, 12], dtype=mx.int32))
    cache = MLXSequenceCache(config(None, None))
    fill(cache, 10)
    k = tokens(np.random.default_rng(0), 2)
    mx.eval(cache.update_and_fetch(0, host_positions(mx.array([10, 11])), k, k).keys)
    before = state(cache)
    with pytest.raises(ValueError, match=r"positions\[1\]: got 1\d, expected 11"):
        cache.update_and_fetch(1, wrong, k, k)
    assert state(cache) == before


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.array([[10], [11]], np.int32), r"positions: got shape \(2, 1\), expected 1-D"),
        ([10, [11, 12]], r"positions: got \[10, \[11, 12\]\], expected a 1-D sequence"),
        (np.array([10.0, 11.0]), "positions: got dtype float64, expected integers"),
    ],
)
def test_several_positions_are_integers_for_a_later_layer_too(wrong, message: str) -> None:
    """What the first layer of a step refuses, the others do, with the same words."""
    cache = MLXSequenceCache(config(None, None))
    fill(cache, 10)
    k = tokens(np.random.default_rng(0), 2)
    for layer in (0, 1):
        with pytest.raises(ValueError, match=message):
            cache.update_and_fetch(layer, wrong, k, k)
        cache.update_and_fetch(layer, [10, 11], k, k)


def test_past_the_capacity_is_refused_before_anything_changes() -> None:
    """The last cell can be used; one more token is a CapacityError with the numbers."""
    cache = MLXSequenceCache(config(None, capacity=12))
    fill(cache, 11)
    before = state(cache)
    k = tokens(np.random.default_rng(0), 2)
    with pytest.raises(CapacityError, match=r"2 tokens at 11 end at 13, expected at most capacity=12"):
        cache.update_and_fetch(0, [11, 12], k, k)
    assert state(cache) == before
    fill(cache, 1)
    assert cache.length == 12


@pytest.mark.parametrize("capacity", [10, 25])
def test_a_model_of_rings_alone_ends_at_its_capacity_too(capacity: int) -> None:
    """One token at a time, with a capacity below a ring's slots and above them."""
    cache = MLXSequenceCache(config(6, capacity=capacity))
    fill(cache, capacity)
    before = state(cache)
    k = tokens(np.random.default_rng(0), 1)
    with pytest.raises(CapacityError, match=rf"1 tokens at {capacity} end at {capacity + 1}"):
        cache.update_and_fetch(0, [capacity], k, k)
    assert state(cache) == before


def test_clear_keeps_the_storage() -> None:
    """After clear the length is 0, the pools keep their size, and decoding starts anew."""
    cache = MLXSequenceCache(config(None, 4))
    fill(cache, 30)
    size = cache.nbytes
    cache.clear()
    assert (cache.length, cache.nbytes) == (0, size)
    fresh = MLXSequenceCache(config(None, 4))
    for got, want in zip(fill(cache, 9, seed=3), fill(fresh, 9, seed=3), strict=True):
        np.testing.assert_array_equal(np.array(got), np.array(want))


@pytest.mark.parametrize("gather", [Gather.NEVER, Gather.CHEAPER])
def test_clear_lets_go_of_the_masks(gather: Gather) -> None:
    """A mask outlives its step for the next ones, but not the tokens."""
    cache = MLXSequenceCache(config(256, heads=1, capacity=10_000, max_write=512))
    k = mx.zeros((1, 1, 512, 8))
    mx.eval(k)
    for start in range(0, 2048, 512):
        spec = cache.update_and_fetch(0, range(start, start + 512), k, k, gather)
        assert spec.kind is MaskKind.EXPLICIT
        mx.eval(spec.keys, spec.values)
    masks = 512 * 767
    assert cache._bands or cache._turning_masks
    del spec, k
    held = mx.get_active_memory()
    cache.clear()
    assert held - mx.get_active_memory() >= masks


def _held(cache: MLXSequenceCache) -> list[tuple[int, LayerBytes]]:
    held = [cache.held(layer) for layer in range(cache.config.n_layers)]
    mx.eval([stored.keys + stored.values for _, stored in held])
    return held


def test_a_window_of_one_is_held_and_restored_after_a_rewind() -> None:
    """Where the rewind left it nothing that is still needed, too."""
    cache = MLXSequenceCache(config(1, 4))
    fill(cache, 9)
    assert cache.rewind(7)
    held = _held(cache)
    assert [(oldest, stored.keys[0].shape[2]) for oldest, stored in held] == [(7, 0), (2, 5)]
    other = MLXSequenceCache(config(1, 4))
    other.restore(cache.written, cache.length, held)
    for got, want in zip(fill(other, 5, seed=3), fill(cache, 5, seed=3), strict=True):
        np.testing.assert_array_equal(np.array(got), np.array(want))


def test_what_a_cache_of_another_config_held_is_not_restored() -> None:
    """More cells than a ring keeps, or fewer than a flat layer needs, are refused before anything changes."""
    for mine, theirs in ((None, 4), (4, None)):
        cache, other = MLXSequenceCache(config(mine)), MLXSequenceCache(config(theirs))
        fill(other, 30)
        held = _held(other)
        fill(cache, 3)
        before = state(cache)
        with pytest.raises(ValueError, match=r"layers: got cells from the positions \[\d+\] on, expected \[\d+\]"):
            cache.restore(30, 30, held)
        assert state(cache) == before


@pytest.mark.parametrize("storage", [mx.float16, mx.bfloat16, mx.float32])
@pytest.mark.parametrize("given", [mx.float16, mx.bfloat16, mx.float32])
def test_cells_are_kept_in_the_storage_dtype(storage: mx.Dtype, given: mx.Dtype) -> None:
    """K and V of any float dtype are stored in kv_dtype, with MLX's own rounding."""
    cache = MLXSequenceCache(config(None, kv_dtype=storage))
    k = tokens(np.random.default_rng(0), 3).astype(given)
    spec = cache.update_and_fetch(0, range(3), k, k)
    assert spec.keys.dtype == spec.values.dtype == storage
    assert mx.array_equal(spec.keys, k.astype(storage))


def test_a_layer_that_missed_steps_keeps_its_own_place() -> None:
    """A ring layer served less often than another does not inherit the other's rolls."""
    cache = MLXSequenceCache(config(4, 4, max_write=4))
    fill(cache, 8)
    rng = np.random.default_rng(5)
    for start in range(8, 30):  # layer 0 alone, over several laps
        k = tokens(rng, 1)
        cache.update_and_fetch(0, [start], k, k)
    newest = [tokens(rng, 1) for _ in range(4)]
    for start, k in zip(range(26, 30), newest, strict=True):
        spec = cache.update_and_fetch(1, [start], k, k)
    np.testing.assert_array_equal(np.array(spec.keys), np.concatenate([np.array(k) for k in newest], axis=2))


@pytest.mark.parametrize(
    "positions", [[3], (3,), range(3, 4), np.array([3]), np.array([3], np.int64), memoryview(b"")]
)
def test_any_integer_sequence_is_a_position(positions) -> None:
    """Lists, tuples, ranges, NumPy arrays and host buffers mean the same step."""
    if isinstance(positions, memoryview):
        positions = host_positions(mx.array([3], dtype=mx.int64))
    cache = MLXSequenceCache(config(None))
    fill(cache, 3)
    k = tokens(np.random.default_rng(0), 1)
    assert cache.update_and_fetch(0, positions, k, k).keys.shape == (1, 2, 4, 8)


def test_the_registry_builds_by_kind() -> None:
    """make_cache knows "sequence" and names what it knows when asked for something else."""
    assert isinstance(make_cache("sequence", config(None)), MLXSequenceCache)
    with pytest.raises(ValueError, match=r"kind: got 'seq', expected one of .*sequence"):
        make_cache("seq", config(None))


def test_clear_drops_the_masks() -> None:
    """A band of a long chunk would otherwise stay for as long as the cache."""
    cache = MLXSequenceCache(config(4))
    fill(cache, 8, chunk=4)
    assert cache._bands
    cache.clear()
    assert not cache._bands
