"""A ring as callers who attend get it, beside one that is read oldest first."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from mlxcache import CacheConfig, MaskKind, MLXSequenceCache, update_and_attend
from mlxcache.kv.spec import AttendSpec, Order
from mlxcache.kv.step import Gather
from mlxcache.kv.storage import ring
from mlxcache.kv.storage.layout import RingGeometry
from mlxcache.kv.storage.ring import SETTLED
from tests.helpers import config, tokens

SAVED = Path(__file__).parent / "saved"


@pytest.fixture(autouse=True)
def turning_wherever_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings turn as soon as there is room to, not only where it is worth it, so that small ones do."""
    monkeypatch.setattr(ring, "RARE", 1)
    monkeypatch.setattr(ring, "FEW", 1)
    monkeypatch.setattr(ring, "SETTLED", 3)  # steps of more tokens are chunks


def attended(q: mx.array, spec: AttendSpec) -> np.ndarray:
    """Attention to a spec."""
    mask = {MaskKind.NONE: None, MaskKind.CAUSAL: "causal", MaskKind.EXPLICIT: spec.mask}[spec.kind]
    return np.array(mx.fast.scaled_dot_product_attention(q, spec.keys, spec.values, scale=0.3, mask=mask))


def stale_to_nan(cache: MLXSequenceCache) -> None:
    """Fill every cell that no promise covers with NaN, in the pools and in what lies aside."""
    cache._settle()
    for layer in range(cache.config.n_layers):
        oldest, pieces = cache._layout.held(layer)
        for pool in (cache._key_pools[layer], cache._value_pools[layer]):
            for plane in pool.planes:
                if plane.dtype == mx.uint32:  # codes: their scales are NaN
                    continue
                kept = np.zeros(plane.slots, bool)
                for run, aside, _ in pieces:
                    if not aside:
                        kept[run.start : run.stop] = True
                plane.array = _poisoned(plane.array, kept)
                plane.aside = [
                    (first, _poisoned(cells, np.arange(first, first + cells.shape[2]) >= oldest))
                    for first, cells in plane.aside
                ]


def _poisoned(cells: mx.array, kept: np.ndarray) -> mx.array:
    poisoned = mx.where(mx.array(kept)[None, None, :, None], cells, float("nan"))
    mx.eval(poisoned)
    return poisoned


class TwoFaces:
    """Two caches that take the same steps: one for who attends, one for who reads keys oldest first."""

    def __init__(self, cfg: CacheConfig, seed: int = 0) -> None:
        self.config = cfg
        self.attending, self.reading = MLXSequenceCache(cfg), MLXSequenceCache(cfg)
        self.rng = np.random.default_rng(seed)
        self.orders: set[tuple[Order, int]] = set()

    def step(self, count: int, start: int | None = None, masked: bool = True) -> bool:
        """One step of all layers on both; whether it was accepted. They must agree in everything."""
        start = self.reading.length if start is None else start
        positions = range(start, start + count)
        mask = None
        if masked and count > 1:
            try:
                mask = self.attending.mask_for(0, positions, Gather.CHEAPER)
            except ValueError:
                mask = None
        for layer in range(self.config.n_layers):
            dim = self.config.layer(layer).head_dim
            q, k, v = (tokens(self.rng, count, heads, dim) for heads in (4, 2, 2))
            if not self._accepted(layer, positions, k, v):
                return False
            first = self.attending.update_and_fetch(layer, positions, k, v, Gather.CHEAPER)
            second = self.reading.update_and_fetch(layer, positions, k, v)
            self.orders.add((first.order, count))
            assert second.order is Order.OLDEST_FIRST
            if mask is not None and first.kind is MaskKind.EXPLICIT and layer in self.like_first():
                # What a model asks the first layer for must fit the others of its window.
                assert mask.span == first.keys.shape[2]
                np.testing.assert_array_equal(np.array(mask.mask), np.array(first.mask))
            out, expected = attended(q, first), attended(q, second)
            assert np.isfinite(expected).all()
            np.testing.assert_allclose(out, expected, atol=1e-6)
            keys, ordered = np.array(first.keys), np.array(second.keys)
            if first.order is Order.AS_STORED:  # the same cells, no more
                keys, ordered = np.sort(keys, axis=2), np.sort(ordered, axis=2)
            np.testing.assert_array_equal(keys, ordered)
        return True

    def like_first(self) -> list[int]:
        """Layers of the first one's window."""
        windows = [self.config.layer(layer).policy.window for layer in range(self.config.n_layers)]
        return [layer for layer, window in enumerate(windows) if window == windows[0]]

    def _accepted(self, layer: int, positions: range, k: mx.array, v: mx.array) -> bool:
        try:
            self.reading._layout.check(positions.start, len(positions))
        except ValueError as error:
            if layer:
                return True  # the step has begun
            with pytest.raises(type(error)):
                self.attending.update_and_fetch(layer, positions, k, v, Gather.CHEAPER)
            return False
        return True

    def held_alike(self) -> None:
        """What each would save is the same, bit for bit."""
        for layer in range(self.config.n_layers):
            (oldest, stored), (other, expected) = self.attending.held(layer), self.reading.held(layer)
            assert oldest == other
            for got, want in zip(stored.keys + stored.values, expected.keys + expected.values, strict=True):
                np.testing.assert_array_equal(np.array(got), np.array(want))

    def rewind(self, length: int) -> bool:
        """Both take it back, or neither."""
        taken = self.attending.rewind(length)
        assert taken == self.reading.rewind(length)
        return taken


class RingProgram(RuleBasedStateMachine):
    """Random steps, chunks, rewinds, saves, copies and stale cells full of NaN."""

    @initialize(
        windows=st.lists(st.one_of(st.none(), st.integers(1, 12)), min_size=1, max_size=3),
        max_write=st.one_of(st.none(), st.integers(1, 14)),
        max_rewind=st.one_of(st.none(), st.integers(0, 14)),
        capacity=st.sampled_from([9, 30, 400]),
        bits=st.sampled_from([None, None, None, 8]),
        seed=st.integers(0, 2**16),
    )
    def build(self, windows, max_write, max_rewind, capacity, bits, seed) -> None:
        options = {} if bits is None else {"kv_bits": bits, "kv_group_size": 32, "dim": 32}
        cfg = config(
            *windows, windows[0], max_write=max_write, max_rewind=max_rewind, capacity=capacity, **options
        )
        self.faces = TwoFaces(cfg, seed)

    @rule(count=st.integers(1, 14), times=st.integers(1, 6), masked=st.booleans())
    def chunks(self, count: int, times: int, masked: bool) -> None:
        for _ in range(times):
            if not self.faces.step(count, masked=masked):
                break

    @rule(times=st.integers(1, 3 * SETTLED))
    def decode(self, times: int) -> None:
        for _ in range(times):
            if not self.faces.step(1):
                break

    @rule(back=st.integers(1, 9), count=st.integers(1, 9))
    def start_again_without_a_rewind(self, back: int, count: int) -> None:
        self.faces.attending._forget_step()
        self.faces.reading._forget_step()
        self.faces.step(count, max(0, self.faces.reading.length - back))

    @rule(back=st.integers(0, 20))
    def rewind(self, back: int) -> None:
        self.faces.rewind(max(0, self.faces.reading.length - back))

    @rule(count=st.integers(2, 5), taken=st.integers(1, 5), times=st.integers(1, 12))
    def speculate(self, count: int, taken: int, times: int) -> None:
        for _ in range(times):
            if not self.faces.step(count):
                break
            self.faces.rewind(self.faces.reading.length - count + min(taken, count))

    @rule()
    def nan(self) -> None:
        stale_to_nan(self.faces.attending)

    @rule()
    def copy(self) -> None:
        parent = self.faces.attending
        self.faces.attending = deepcopy(parent)
        if parent.can_extend(1):  # whatever the parent goes on with, the copy does not notice
            for layer in range(parent.config.n_layers):
                cell = mx.full((1, 2, 1, parent.config.layer(layer).head_dim), float("nan"))
                mx.eval(
                    parent.update_and_fetch(layer, [parent.length - bool(layer)], cell, cell, Gather.BATCH)[:2]
                )

    @rule(elsewhere=st.booleans())
    def save_and_restore(self, elsewhere: bool) -> None:
        self.faces.held_alike()
        cache = self.faces.attending
        held = [cache.held(layer) for layer in range(cache.config.n_layers)]
        written, length = cache.written, cache.length
        if elsewhere:
            self.faces.attending = MLXSequenceCache(cache.config)
        self.faces.attending.restore(written, length, held)

    @rule()
    def clear(self) -> None:
        self.faces.attending.clear()
        self.faces.reading.clear()


RingProgram.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestRingProgram = RingProgram.TestCase


@pytest.mark.parametrize("back", [0, 1, 3, 8])
@pytest.mark.parametrize("count", [1, 4])
def test_a_settled_ring_is_read_whole_and_as_stored(count: int, back: int) -> None:
    """After some steps of one count: a pool of just the cells that are read, no mask for one token."""
    faces = TwoFaces(config(8, max_rewind=back, max_write=8, capacity=400))
    for _ in range(60):
        assert faces.step(count)
    turns = faces.attending._layout.ring_of(0).block(count) >= 0
    assert ((Order.AS_STORED, count) in faces.orders) == turns == (faces.attending._layout.turning[0] is not None)
    assert turns or back
    if count == 1:
        assert faces.attending._key_pools[0].slots == 8
        k = tokens(faces.rng, 1)
        spec = faces.attending.update_and_fetch(0, [60], k, k, Gather.CHEAPER)
        assert (spec.order, spec.kind, spec.mask) == (Order.AS_STORED, MaskKind.NONE, None)


@pytest.mark.parametrize("window", [1, 4, 7])
@pytest.mark.parametrize("back", [0, 1, 5, 9])
def test_every_rewind_after_every_length(window: int, back: int) -> None:
    """As far back as `max_rewind` and no further, exact, twice, with stale cells full of NaN."""
    for length in range(17, 27):
        base = TwoFaces(config(window, window, max_rewind=back, max_write=5, capacity=400))
        while base.reading.length < length:
            assert base.step(1)
        for target in (0, *range(length - 11, length + 1)):
            faces = deepcopy(base)
            dropped = length > window + max(back, 1) - 1
            allowed = target in (0, length) or not dropped or length - target <= back or window == 1
            assert faces.rewind(target) == allowed, (length, target)
            if not allowed or target == 0:
                continue
            stale_to_nan(faces.attending)
            assert faces.step(1 + target % 3)
            faces.rewind(target)
            assert faces.step(2)
            faces.held_alike()


def test_steps_that_end_exactly_at_the_wrap() -> None:
    """Chunks of every size up to `max_write`, beginning and ending at every slot."""
    for window in (1, 4, 6):
        for count in range(1, 7):
            for before in range(window + count):
                faces = TwoFaces(config(window, window, max_write=6, max_rewind=6, capacity=400), seed=before)
                for _ in range(before):
                    faces.step(1)
                for _ in range(30 // count + 5):
                    assert faces.step(count)
                stale_to_nan(faces.attending)
                assert faces.step(count)


def test_chunks_longer_than_a_small_pool() -> None:
    """`max_write` far above the window with nothing to take back: the pool does not grow for them."""
    faces = TwoFaces(config(4, 4, max_write=40, max_rewind=0, capacity=400))
    for count in (40, 3, 17, 1, 40, 40, *[1] * 20, 23, 5):
        assert faces.step(count)
        stale_to_nan(faces.attending)
    assert faces.attending._key_pools[0].slots <= 5


@pytest.mark.parametrize("window", [1, 5, 64, 256, 4096])
@pytest.mark.parametrize("back", [0, 1, 16, 64, 4096])
def test_a_ring_holds_at_most_what_is_promised_and_a_twentieth(window: int, back: int) -> None:
    """In line or turning by any count, aside included: 1.05 times window + max_rewind cells."""
    geometry = RingGeometry.of(config(window).layer(0).policy, 4096, back)
    assert geometry.slots <= max(1.05 * (window + back), window + back)


def test_no_ring_in_line_has_whole_blocks_of_256_cells() -> None:
    """MLX on an NVIDIA GPU takes a slice of such a pool for its beginning; at full size and while it grows."""
    policies = [
        config(window).layer(0).policy for window in (1, 16, 100, 122, 128, 244, 250, 256, 512, 1024, 2560)
    ]
    for policy in policies:
        for back in (None, *range(300)):
            geometry = RingGeometry.of(policy, None, back)
            assert geometry.slots % 256
            assert geometry.slots % geometry.unit == 0
            assert geometry.slots >= geometry.window + geometry.max_rewind
    cache = MLXSequenceCache(config(600, heads=1, dim=1, capacity=4000, initial_capacity=100))
    for position in range(0, 1500, 20):
        cell = mx.ones((1, 1, 20, 1))
        mx.eval(cache.update_and_fetch(0, range(position, position + 20), cell, cell).keys)
        assert cache._key_pools[0].slots % 256


@pytest.mark.parametrize("again", ["clear", "rewind", "restore"])
def test_a_ring_that_has_turned_in_256_cells_begins_again_in_others(again: str) -> None:
    """Read from behind its first cell, its pool is no whole block, which MLX on an NVIDIA GPU misreads."""
    window = 253  # and four tokens
    cache = MLXSequenceCache(config(window, heads=1, dim=1, max_rewind=0, max_write=256, capacity=4000))
    cell = mx.ones((1, 1, 4, 1))
    while cache.length < 600:
        mx.eval(cache.update_and_fetch(0, range(cache.length, cache.length + 4), cell, cell, Gather.CHEAPER)[:2])
    assert cache._key_pools[0].slots == 256
    if again == "restore":
        cache.restore(cache.written, cache.length, [cache.held(0)])
    elif again == "clear":
        cache.clear()
    else:
        assert cache.rewind(0)
    for _ in range(300):
        position = cache.length
        spec = cache.update_and_fetch(0, [position], cell[:, :, :1], cell[:, :, :1])
        mx.eval(spec.keys, spec.values)
        assert spec.keys.shape[2] == min(window, position + 1)
        assert position < window or cache._key_pools[0].slots % 256


@pytest.mark.parametrize(
    ("window", "back", "count"), [(64, 0, 1), (64, 16, 1), (64, 60, 2), (40, 40, 1), (9, 0, 1)]
)
def test_a_ring_never_holds_more_than_in_line(window: int, back: int, count: int) -> None:
    """Aside included, by MLX's count of its arrays, after any number of steps, rewinds and new turns."""
    cache = MLXSequenceCache(config(window, max_rewind=back, max_write=window, capacity=5000, initial_capacity=0))
    cells = RingGeometry.of(cache.config.layer(0).policy, window, back).slots
    cell = mx.ones((1, 2, count, 8))
    lain = set()
    for step in range(400):
        start = cache.length
        spec = cache.update_and_fetch(0, range(start, start + count), cell, cell, Gather.CHEAPER)
        mx.eval(spec.keys, spec.values)
        lain.add(spec.order)
        del spec
        if step > 2 * window:
            assert cache.nbytes <= cells * 2 * 2 * 8 * 4
        if step % 37 == 36:
            cache.rewind(cache.length - step % (back + 1))
        if step % 151 == 150:
            mx.eval(cache.update_and_fetch(0, [cache.length], cell[:, :, :1], cell[:, :, :1])[:2])
    assert lain == set(Order)


def test_several_tokens_turn_only_where_few_of_their_steps_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or where rolls would come often; one token where some steps lie between two that copy."""
    monkeypatch.undo()
    expected = {
        (256, 256): {1: True, 4: False},
        (256, 0): {1: True, 4: True},
        (256, 16): {1: True, 4: False},
        (64, 16): {1: False, 4: False},
        (1024, 64): {1: True, 4: True},
        (4096, 16): {1: True, 4: True},
        (4096, 4096): {1: True, 4: False},
    }
    for (window, back), by_count in expected.items():
        geometry = RingGeometry.of(config(window).layer(0).policy, None, back)
        assert {count: geometry.block(count) >= 0 for count in by_count} == by_count


def test_a_model_that_only_decodes_never_holds_more_than_a_window() -> None:
    """A pool grows to the window first, and the ring turns in it without another."""
    cache = MLXSequenceCache(config(64, max_rewind=0, capacity=1000, initial_capacity=5))
    cell = mx.ones((1, 2, 1, 8))
    for position in range(200):
        mx.eval(cache.update_and_fetch(0, [position], cell, cell, Gather.CHEAPER)[:2])
        assert cache._key_pools[0].slots <= 64


def test_nothing_is_taken_back_with_a_max_rewind_of_0() -> None:
    """Once a token is dropped; the message says from where on a step may start."""
    cache = MLXSequenceCache(config(4, max_rewind=0))
    cell = tokens(np.random.default_rng(0), 1)
    for position in range(4):
        mx.eval(cache.update_and_fetch(0, [position], cell, cell).keys)
    assert cache.oldest_restart == 0
    mx.eval(cache.update_and_fetch(0, [4], cell, cell).keys)
    assert cache.oldest_restart == 5
    assert not cache.rewind(4)
    with pytest.raises(ValueError, match=r"positions: got a start of 4.*expected at least 5"):
        cache.update_and_fetch(0, [4, 5], mx.zeros((1, 2, 2, 8)), mx.zeros((1, 2, 2, 8)))


@pytest.mark.parametrize("value", [-1, True, 1.5])
def test_a_wrong_max_rewind_is_refused(value) -> None:
    """With its name and value, when the config is made."""
    with pytest.raises(ValueError, match=rf"CacheConfig\.max_rewind: got {value!r}, expected an integer >= 0"):
        config(4, max_rewind=value)


def test_a_step_that_ended_half_way_is_taken_again() -> None:
    """Whichever layers were served before, the mask of the first fits all, by the same count or another."""
    for served in range(4):
        for count, again in ((1, 1), (4, 4), (1, 4), (4, 1), (3, 2)):
            faces = TwoFaces(config(6, 6, 6, 6, max_write=6, max_rewind=8, capacity=400), seed=served)
            for _ in range(40):
                assert faces.step(count)
            start = faces.reading.length
            for cache, gather in ((faces.attending, Gather.CHEAPER), (faces.reading, Gather.NEVER)):
                for layer in range(served):
                    bad = mx.full((1, 2, count, 8), float("nan"))
                    mx.eval(cache.update_and_fetch(layer, range(start, start + count), bad, bad, gather)[:2])
                if again != count:
                    assert cache.rewind(start)
            for _ in range(5):
                assert faces.step(again, start)
                start += again


@pytest.mark.parametrize("steps", range(30, 50))
def test_what_one_step_was_handed_is_not_changed_by_the_next(steps: int) -> None:
    """A spec that the caller keeps is its own, though the ring is written in place, whatever the step moved."""
    cache = MLXSequenceCache(config(8, max_rewind=5, capacity=400))
    rng = np.random.default_rng(0)
    for position in range(steps):
        k = tokens(rng, 1)
        spec = cache.update_and_fetch(0, [position], k, k, Gather.CHEAPER)
        mx.eval(spec.keys)
    before = np.array(spec.keys)
    k = tokens(rng, 1)
    mx.eval(cache.update_and_fetch(0, [steps], k, k, Gather.CHEAPER).keys)
    np.testing.assert_array_equal(np.array(spec.keys), before)
    spec.keys[:] = 0  # nor the cache by what the caller does with it
    oldest, held = cache.held(0)
    assert oldest == steps + 1 - 12
    assert np.array(held.keys[0]).all()


@pytest.mark.parametrize("back", [0, 200])
def test_a_turning_ring_is_updated_in_place(back: int) -> None:
    """No step allocates a pool: neither the plain ones nor those that copy a block aside."""
    cache = MLXSequenceCache(config(2048, heads=8, dim=64, max_rewind=back, capacity=10_000))
    chunk, cell = mx.ones((1, 8, 2048, 64)), mx.ones((1, 8, 1, 64))
    mx.eval(cache.update_and_fetch(0, range(2048), chunk, chunk, Gather.CHEAPER)[:2], cell)

    def decode(count: int) -> None:
        for position in range(cache.length, cache.length + count):
            mx.eval(cache.update_and_fetch(0, [position], cell, cell, Gather.CHEAPER)[:2])
            mx.synchronize()  # on a GPU a step that is not done holds its pool, and the next one copies

    decode(30)
    assert cache._layout.turning[0] is not None
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    decode(300)
    assert mx.get_peak_memory() - before < cache.nbytes / 4
    assert mx.get_active_memory() - before < cache.nbytes / 4


def test_attention_through_the_step_takes_a_ring_as_it_is_stored() -> None:
    """`update_and_attend` over two laps of one token equals attention to the window oldest first."""
    cache, other = (MLXSequenceCache(config(6, max_rewind=2, capacity=400)) for _ in range(2))
    rng = np.random.default_rng(0)
    for position in range(60):
        q, k, v = tokens(rng, 1, heads=4), tokens(rng, 1), tokens(rng, 1)
        out = update_and_attend(cache, 0, q, k, v, mx.array([position]), 0.3)
        expected = attended(q, other.update_and_fetch(0, [position], k, v))
        np.testing.assert_allclose(np.array(out), expected, atol=1e-6)
    assert cache._layout.turning[0] is not None


@pytest.mark.parametrize(
    ("name", "options"),
    [("plain", {}), ("bits8", {"kv_bits": 8, "kv_group_size": 32}), ("max_write2", {"max_write": 2})],
)
def test_a_prompt_cache_saved_before_rings_turned_still_loads(name: str, options: dict[str, int]) -> None:
    """Files of commit 0407569, two of 21 tokens taken back: what is decoded on them is what a new cache gives."""
    lm_cache = pytest.importorskip("mlx_lm.models.cache")
    from mlxcache.mlx_lm.layer_caches import SequenceLayerCache

    cfg = config(None, 4, 6, dim=32, **options)
    rng = np.random.default_rng(0)
    fresh = MLXSequenceCache(cfg)
    for position in range(21):
        for layer in range(3):
            k = tokens(rng, 1, dim=32)
            mx.eval(fresh.update_and_fetch(layer, [position], k, -k)[:2])
    assert fresh.rewind(19)
    loaded = lm_cache.load_prompt_cache(str(SAVED / f"sequence-0407569-{name}.safetensors"))
    others = SequenceLayerCache.over(fresh)
    assert loaded[0].cache.config.max_rewind is None
    assert loaded[0].offset == 19
    if name != "max_write2":  # two were taken back already
        assert [layer.trim(1) for layer in loaded] == [layer.trim(1) for layer in others]
    for _ in range(40):
        for mine, other in zip(loaded, others, strict=True):
            q, k, v = (tokens(rng, 1, heads, 32) for heads in (4, 2, 2))
            got, want = mine.update_and_fetch(k, v), other.update_and_fetch(k, v)
            np.testing.assert_array_equal(np.sort(np.array(got[0]), axis=2), np.sort(np.array(want[0]), axis=2))
            np.testing.assert_allclose(
                attended(q, AttendSpec(*got, MaskKind.NONE, None)),
                attended(q, AttendSpec(*want, MaskKind.NONE, None)),
                atol=1e-6,
            )
