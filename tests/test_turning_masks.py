"""Masks of rings that turn, scattered cells as parts, and the last position: by their definition."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from mlxcache import MLXCellCache, MLXSequenceCache
from mlxcache.kv.batch import _split
from mlxcache.kv.masks import TurningMasks
from mlxcache.kv.spec import Order
from mlxcache.kv.step import Gather
from mlxcache.kv.storage import ring
from mlxcache.kv.storage.cell_layout import MAX_POSITION
from tests.helpers import config, fill, tokens


@pytest.mark.parametrize(("window", "count"), [(1, 2), (4, 2), (4, 3), (3, 7)])
def test_a_turned_mask_shows_each_query_its_window_wherever_the_step_lies(window: int, count: int) -> None:
    """At every slot: a query's own cell and the `window - 1` before it around the ring, no other."""
    masks, slots = TurningMasks(window, count), window + count - 1
    for slot in range(slots):
        expected = np.zeros((count, slots), bool)
        for query in range(count):
            expected[query, [(slot + query - back) % slots for back in range(window)]] = True
        np.testing.assert_array_equal(np.array(masks.at(slot))[0, 0], expected)


def test_a_ring_that_turns_follows_the_size_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of three, then two, then three tokens each get a mask as tall as they are."""
    for name, value in (("RARE", 1), ("FEW", 1), ("SETTLED", 3)):  # small rings turn too, and soon
        monkeypatch.setattr(ring, name, value)
    cache = MLXSequenceCache(config(8, max_rewind=2, max_write=8, capacity=400))
    rng = np.random.default_rng(0)
    turned = set()
    for count in [3] * 15 + [2] * 15 + [3] * 15:
        k = tokens(rng, count)
        spec = cache.update_and_fetch(0, range(cache.length, cache.length + count), k, k, Gather.CHEAPER)
        mx.eval(spec.keys, spec.values)
        if spec.order is Order.AS_STORED:
            assert spec.mask is not None
            assert spec.mask.shape == (1, 1, count, 8 + count - 1)
            assert (np.array(spec.mask).sum(axis=3) == 8).all()
            turned.add(count)
    assert turned == {2, 3}


@pytest.mark.parametrize(
    ("cells", "parts"),
    [
        ([4, 5, 6], [[4, 5, 6]]),
        ([0, 2, 4, 6, 8], [[0, 2, 4, 6, 8]]),
        ([9, 0, 1, 5, 7], [[9, 0, 1, 5, 7]]),
        ([9, 0, 1, 2, 7], [[0, 1, 2], [9, 7]]),
        ([0, 1, 5, 7], [[0, 1], [5, 7]]),
    ],
)
def test_scattered_cells_are_a_run_and_the_rest_where_that_is_half_of_them(
    cells: list[int], parts: list[list[int]]
) -> None:
    """The longest run comes first; fewer than half in a row are not worth a part of their own."""
    assert [part.tolist() for part in _split(np.array(cells))] == parts


def test_the_last_position_is_taken_alone_and_with_others() -> None:
    """MAX_POSITION is a position; one more is refused and nothing has changed."""
    for seq_ids, positions in (([0], [MAX_POSITION]), ([0, 0], [MAX_POSITION - 1, MAX_POSITION])):
        cache = MLXCellCache(config(None, capacity=8))
        k = tokens(np.random.default_rng(0), len(seq_ids))
        cache.begin_step(seq_ids)
        with pytest.raises(ValueError, match=rf"expected at most {MAX_POSITION}"):
            cache.update_and_fetch(0, [position + 1 for position in positions], k, k)
        mx.eval(cache.update_and_fetch(0, positions, k, k)[:2])
        assert cache._layout.newest(0) == MAX_POSITION


@pytest.mark.parametrize("layer", [-1, 2])
def test_what_a_layer_held_is_unpacked_for_that_layer_alone(layer: int) -> None:
    """A layer that is not there is refused, also one counted from the end."""
    cache = MLXSequenceCache(config(None, None))
    fill(cache, 3)
    _, stored = cache.held(1)
    keys, values = cache.unpacked(1, stored)
    assert keys.shape == values.shape == (1, 2, 3, 8)
    with pytest.raises(IndexError):
        cache.unpacked(layer, stored)
