"""Real model classes of mlx-lm generate on our caches what they generate on mlx-lm's own."""

from __future__ import annotations

import copy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from tests import required

lm = required.module("mlx_lm.models.cache")
from mlx_lm.generate import batch_generate, generate_step, speculative_generate_step  # noqa: E402
from mlx_lm.models import gemma3_text, llama  # noqa: E402

from mlxcache import CacheConfig, CapacityError, MLXCellCache  # noqa: E402
from mlxcache.mlx_lm import cell_prompt_cache, config_for, make_prompt_cache  # noqa: E402

VOCABULARY = 64
WINDOW = 16


def _llama() -> Any:
    return llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=32,
            head_dim=32,
            num_hidden_layers=3,
            intermediate_size=48,
            num_attention_heads=4,
            num_key_value_heads=2,
            rms_norm_eps=1e-5,
            vocab_size=VOCABULARY,
            tie_word_embeddings=False,
        )
    )


def _gemma() -> Any:
    return gemma3_text.Model(
        gemma3_text.ModelArgs(
            model_type="gemma3_text",
            hidden_size=32,
            num_hidden_layers=4,
            intermediate_size=48,
            num_attention_heads=4,
            head_dim=32,
            num_key_value_heads=2,
            query_pre_attn_scalar=32,
            vocab_size=VOCABULARY,
            sliding_window=WINDOW,
            sliding_window_pattern=2,
        )
    )


@pytest.fixture(scope="module", params=[_llama, _gemma], ids=["llama", "gemma3"])
def model(request: pytest.FixtureRequest) -> Any:
    """A small model with random weights, wide enough apart that greedy decoding has no ties."""
    mx.random.seed(5)
    made = request.param()
    made.set_dtype(mx.float32)
    mx.eval(made.parameters())
    return made


def _prompt(count: int, seed: int = 0) -> mx.array:
    return mx.array(np.random.default_rng(seed).integers(0, VOCABULARY, count))


def _generate(model: Any, prompt_cache: Any, prompt: mx.array, count: int, chunk: int = 12) -> list[int]:
    steps = generate_step(prompt, model, max_tokens=count, prompt_cache=prompt_cache, prefill_step_size=chunk)
    return [int(token) for token, _ in steps]


@pytest.fixture(scope="module")
def expected(model: Any) -> list[int]:
    """200 tokens after 40, on mlx-lm's cache."""
    return _generate(model, lm.make_prompt_cache(model), _prompt(40), 200)


@pytest.mark.parametrize("kind", ["sequence", "cell"])
@pytest.mark.parametrize(("dtype", "chunk"), [(None, 7), (None, 64), (mx.int32, 12), (mx.int64, 12)])
def test_generates_the_tokens_of_mlx_lm(
    model: Any, expected: list[int], kind: Any, dtype: Any, chunk: int
) -> None:
    """Greedy, over a prompt in chunks shorter and longer than the window, 200 tokens, past the ring's wrap."""
    ours = make_prompt_cache(model, kind, config_for(model, 300), position_dtype=dtype)
    assert _generate(model, ours, _prompt(40), 200, chunk) == expected
    assert ours[0].offset == 240
    assert ours[0].size() == 240
    assert not ours[0].empty()
    assert len(set(expected)) > 5


@pytest.mark.parametrize("kind", ["sequence", "cell"])
@pytest.mark.parametrize("bits", [None, 8])
def test_saves_and_loads_with_mlx_lm(
    model: Any, expected: list[int], kind: Any, bits: int | None, tmp_path: Path
) -> None:
    """A prompt cache saved in the middle, loaded by mlx-lm's own function, goes on with the same tokens."""
    options = {} if bits is None else {"kv_bits": bits, "kv_group_size": 32}
    config = config_for(model, 300, **options)
    whole = _generate(model, make_prompt_cache(model, kind, config), _prompt(40), 60)
    ours = make_prompt_cache(model, kind, config)
    first = _generate(model, ours, _prompt(40), 30)
    # mlx-lm runs one token ahead of what it yields, so the cache holds the thirtieth already.
    path = str(tmp_path / "cache.safetensors")
    lm.save_prompt_cache(path, ours, {"model": "small"})
    loaded, metadata = lm.load_prompt_cache(path, return_metadata=True)
    assert metadata == {"model": "small"}
    assert {layer.cache for layer in loaded} == {loaded[0].cache}
    assert loaded[0].offset == ours[0].offset
    assert first == whole[:30]
    assert _generate(model, loaded, mx.array(whole[30:31]), 29) == whole[31:60]
    assert _generate(model, ours, mx.array(whole[30:31]), 29) == whole[31:60]
    if bits is None:
        assert whole == expected[:60]


@pytest.mark.parametrize("kind", ["sequence", "cell"])
def test_an_empty_prompt_cache_is_saved_and_loaded(model: Any, kind: Any, tmp_path: Path) -> None:
    """Nothing in it is a state like any other."""
    path = str(tmp_path / "cache.safetensors")
    lm.save_prompt_cache(path, make_prompt_cache(model, kind, config_for(model, 300)))
    loaded = lm.load_prompt_cache(path)
    assert loaded[0].empty()
    assert len(_generate(model, loaded, _prompt(5), 3)) == 3


@pytest.mark.parametrize("kind", ["sequence", "cell"])
def test_trims_and_goes_on(model: Any, expected: list[int], kind: Any) -> None:
    """Tokens trimmed and given again yield what followed them, and a trimmed layer says what it trimmed."""
    ours = make_prompt_cache(model, kind, config_for(model, 300))
    _generate(model, ours, _prompt(40), 10)
    assert lm.can_trim_prompt_cache(ours)
    assert lm.trim_prompt_cache(ours, 7) == 7
    assert ours[-1].offset == ours[0].offset == 43
    again = mx.array(expected[3:5])
    assert _generate(model, ours, again, 30) == expected[5:35]


def test_a_ring_that_dropped_tokens_takes_back_what_it_can_and_refuses_more() -> None:
    """Through mlx-lm's function too, which goes on in silence where is_trimmable says no."""
    gemma = _gemma()
    ours = make_prompt_cache(gemma, config=config_for(gemma, 300, prefill_step_size=12))
    _generate(gemma, ours, _prompt(40), 1)
    before = ours[0].offset
    assert lm.can_trim_prompt_cache(ours)
    for trim in (lambda: lm.trim_prompt_cache(ours, 30), lambda: ours[-1].trim(30)):
        with pytest.raises(ValueError, match=r"n: got 30 tokens .* expected at most 12 \(or all\)"):
            trim()
        assert {c.offset for c in ours} == {before}
    assert lm.trim_prompt_cache(ours, 5) == 5
    assert {c.offset for c in ours} == {before - 5}
    assert lm.trim_prompt_cache(ours, before) == before - 5
    assert ours[0].empty()


@pytest.fixture(scope="module")
def speculation() -> tuple[Any, Any, list[int]]:
    """A model with windows, another one that drafts for it, and what the first one says alone."""
    mx.random.seed(5)
    main = _gemma()
    mx.random.seed(9)
    draft = _llama()
    for each in (main, draft):
        each.set_dtype(mx.float32)
    return main, draft, _generate(main, lm.make_prompt_cache(main), _prompt(10), 48)


@pytest.mark.parametrize("kind", ["sequence", "cell"])
@pytest.mark.parametrize("drafts", range(1, 9))
def test_speculation_is_lossless_past_the_window(speculation: Any, kind: Any, drafts: int) -> None:
    """Most drafts are rejected, in every phase of the ring, with as many tokens in a step as a prompt's chunk."""
    main, draft, right = speculation
    caches = [make_prompt_cache(m, kind, config_for(m, 400, prefill_step_size=9)) for m in (main, draft)]
    steps = speculative_generate_step(
        _prompt(10),
        main,
        draft,
        max_tokens=48,
        num_draft_tokens=drafts,
        prompt_cache=caches[0] + caches[1],
        prefill_step_size=9,
    )
    assert [int(token) for token, _, _ in steps] == right
    assert caches[0][0].offset == 10 + 47


@pytest.mark.parametrize("kind", ["sequence", "cell"])
def test_a_copy_is_a_fork(model: Any, expected: list[int], kind: Any) -> None:
    """copy.deepcopy, as mlx-lm's server does it: both go on, and neither sees the other."""
    ours = make_prompt_cache(model, kind, config_for(model, 300))
    _generate(model, ours, _prompt(40), 10)
    fork = copy.deepcopy(ours)
    other = _generate(model, fork, _prompt(9, seed=3), 20)
    assert _generate(model, ours, mx.array(expected[10:11]), 30) == expected[11:41]
    assert other != expected[11:31]
    assert fork[0].cache is fork[-1].cache is not ours[0].cache


@pytest.mark.parametrize("dtype", [None, mx.int32, mx.int64], ids=["host", "int32", "int64"])
def test_a_batch_gives_what_each_sequence_gives_alone(model: Any, dtype: Any) -> None:
    """Prompts of four lengths, one of them forked, decoded in one step of four on one pool of cells."""
    cache = MLXCellCache(config_for(model, 600))
    prompts = {0: _prompt(25, 1), 1: _prompt(3, 2), 5: _prompt(40, 3), 63: _prompt(25, 1)}
    alone = {s: _generate(model, lm.make_prompt_cache(model), p, 60) for s, p in prompts.items()}
    for seq in (0, 1, 5):
        layers = cell_prompt_cache(cache, [seq], position_dtype=dtype)
        mx.eval(model(prompts[seq][None, :-1], cache=layers))
    cache.seq_cp(0, 63)
    ids = [63, 0, 5, 1]
    layers = cell_prompt_cache(cache, ids, position_dtype=dtype)
    tokens = mx.array([int(prompts[s][-1]) for s in ids])
    made: list[list[int]] = []
    for _ in range(60):
        tokens = mx.argmax(model(tokens[:, None], cache=layers)[:, -1], axis=-1)
        made.append(tokens.tolist())
    assert {s: [row[i] for row in made] for i, s in enumerate(ids)} == alone
    assert cache.next_position(63) == 24 + 60
    assert [layer.size() for layer in layers] == [99] * len(layers)


def test_a_batch_takes_chunks_and_trims(model: Any) -> None:
    """Several tokens of several sequences in one call, taken back and given again, change nothing."""
    cache = MLXCellCache(config_for(model, 600))
    layers = cell_prompt_cache(cache, [4, 2])
    tokens = mx.stack([_prompt(20, 1), _prompt(20, 2)])
    once = model(tokens, cache=layers)
    mx.eval(once, [layer.state for layer in layers])
    assert lm.trim_prompt_cache(layers, 6) == 6
    again = model(tokens[:, 14:], cache=layers)
    np.testing.assert_allclose(np.array(again), np.array(once[:, 14:]), atol=1e-4)
    alone = model(tokens[1:], cache=lm.make_prompt_cache(model))
    np.testing.assert_allclose(np.array(once[1:]), np.array(alone), atol=1e-4)


def test_the_config_is_the_models(model: Any) -> None:
    """Kinds, windows, sizes and dtype come from the model; other fields can be said."""
    config = config_for(model, 100, kv_dtype=mx.float16, initial_capacity=3)
    theirs = lm.make_prompt_cache(model)
    windows = [getattr(c, "max_size", None) for c in theirs]
    assert [config.layer(i).policy.window for i in range(config.n_layers)] == windows
    assert (config.capacity, config.kv_dtype, config.initial_capacity) == (100, mx.float16, 3)
    assert config_for(model).kv_dtype == mx.float32
    ours = make_prompt_cache(model, config=config)
    assert ours[0].nbytes == 2 * 3 * 2 * config.layer(0).head_dim * 2  # K and V, 3 slots, 2 heads, 2 bytes
    keys = mx.ones((1, 2, 1, config.layer(0).head_dim))
    assert ours[0].update_and_fetch(keys, keys)[0].dtype == mx.float32


def test_masks_are_what_a_model_asks_for() -> None:
    """As an array on request, and refused for a window that is not the layer's."""
    gemma = _gemma()
    ours = make_prompt_cache(gemma, config=config_for(gemma, 100))
    assert ours[1].make_mask(4) == "causal"
    mask = ours[1].make_mask(4, return_array=True)
    np.testing.assert_array_equal(np.array(mask)[0, 0], np.tril(np.ones((4, 4), bool)))
    assert ours[0].make_mask(WINDOW + 1, window_size=WINDOW).shape == (1, 1, WINDOW + 1, WINDOW + 1)
    assert ours[0].make_mask(1, window_size=WINDOW) is None
    with pytest.raises(ValueError, match="window_size: got 5 for layer 0 with window=16, expected the same"):
        ours[0].make_mask(4, window_size=5)
    with pytest.raises(ValueError, match="window_size: got 5 for layer 1 with window=None"):
        ours[1].make_mask(4, window_size=5)


def test_what_cannot_be_is_refused(model: Any) -> None:
    """Kinds, dtypes, ids, batches and states that do not fit, each with a clear error."""
    config = config_for(model, 30)
    with pytest.raises(ValueError, match="kind: got 'paged', expected 'sequence' or 'cell'"):
        make_prompt_cache(model, "paged", config)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"position_dtype: got mlx\.core\.uint32"):
        make_prompt_cache(model, config=config, position_dtype=mx.uint32)
    cache = MLXCellCache(config)
    with pytest.raises(ValueError, match=r"seq_ids: got \[1, 1\], expected .* each once"):
        cell_prompt_cache(cache, [1, 1])
    with pytest.raises(ValueError, match=r"seq_ids\[0\]: got 64"):
        cell_prompt_cache(cache, [64])
    layers = cell_prompt_cache(cache, [1, 2])
    dim = config.layer(0).head_dim
    with pytest.raises(ValueError, match=r"keys: got shape \(1, 2, 3, .*expected batch 2"):
        layers[0].update_and_fetch(mx.ones((1, 2, 3, dim)), mx.ones((1, 2, 3, dim)))
    with pytest.raises(CapacityError, match="40 tokens with 30 of 30 cells free"):
        model(mx.zeros((2, 20), mx.int32), cache=layers)
    model(mx.zeros((2, 5), mx.int32), cache=layers)
    assert cache.free == 20


def test_a_call_that_ends_before_its_first_layer_can_be_made_again(model: Any) -> None:
    """A declaration that came to nothing is replaced, and one of a half-done step is not."""
    cache = MLXCellCache(config_for(model, 60))
    layers = cell_prompt_cache(cache, [0])
    layers[0].make_mask(9)
    mx.eval(model(_prompt(4)[None], cache=layers))
    assert cache.free == 56
    dim = cache.config.layer(0).head_dim
    layers[0].update_and_fetch(mx.ones((1, 2, 1, dim)), mx.ones((1, 2, 1, dim)))
    with pytest.raises(RuntimeError, match=r"1 of \d layers are served, .* cancel_step\(\) drops it"):
        model(_prompt(4)[None], cache=layers)


@pytest.mark.parametrize("tokens", [0, 2])
def test_a_call_that_ends_before_its_first_layer_can_be_trimmed(model: Any, tokens: int) -> None:
    """Its declaration is dropped, whether there is something to take back or not."""
    layers = cell_prompt_cache(MLXCellCache(config_for(model, 60)), [0, 1])
    mx.eval(model(mx.stack([_prompt(4), _prompt(4)]), cache=layers))
    layers[0].make_mask(3)
    assert lm.trim_prompt_cache(layers, tokens) == tokens
    mx.eval(model(mx.stack([_prompt(3), _prompt(3)]), cache=layers))
    assert [layer.size() for layer in layers] == [7 - tokens] * len(layers)


def test_a_refused_call_does_not_spoil_the_one_before_it(model: Any) -> None:
    """Masks of 3 tokens, then a call that is too large, then the 3 tokens after all."""
    layers = cell_prompt_cache(MLXCellCache(config_for(model, 10)), [0])
    layers[0].make_mask(3)
    with pytest.raises(CapacityError, match="11 tokens with 10 of 10 cells free"):
        layers[0].make_mask(11)
    mx.eval(model(_prompt(3)[None], cache=layers))
    assert [layer.offset for layer in layers] == [3] * len(layers)


@pytest.mark.parametrize("last", [False, True])
def test_a_declaration_that_somebody_else_cancels_is_made_again(model: Any, last: bool) -> None:
    """After `cancel_step`, as errors advise it, the same tokens are declared anew, whichever layer asks first."""
    layers = cell_prompt_cache(MLXCellCache(config_for(model, 60)), [0])
    layers[0].make_mask(3)
    layers[0].cache.cancel_step()
    if last:
        layers[-1].make_mask(3)
    mx.eval(model(_prompt(3)[None], cache=layers))
    assert [layer.offset for layer in layers] == [3] * len(layers)


@pytest.mark.parametrize("kind", ["sequence", "cell"])
def test_less_than_nothing_is_not_trimmed(model: Any, kind: Any) -> None:
    """A negative number would move the next position on and leave a gap."""
    layers = make_prompt_cache(model, kind, config_for(model, 60))
    mx.eval(model(_prompt(4)[None], cache=layers))
    with pytest.raises(ValueError, match="n: got -2, expected at least 0 tokens"):
        layers[0].trim(-2)
    assert layers[0].offset == 4


@pytest.mark.parametrize("kind", ["sequence", "cell"])
def test_no_tokens_are_refused(model: Any, kind: Any) -> None:
    """With the cache's own error, at the very first call too."""
    layers = make_prompt_cache(model, kind, config_for(model, 60))
    none = mx.zeros((1, 2, 0, layers[0].cache.config.layer(0).head_dim))
    for call in (lambda: layers[0].make_mask(0), lambda: layers[0].update_and_fetch(none, none)):
        with pytest.raises(ValueError, match="got 0 tokens, expected at least 1"):
            call()


def test_layers_are_read_in_order_and_of_their_kind(model: Any) -> None:
    """A state says which layer of what it is."""
    ours = make_prompt_cache(model, config=config_for(model, 30))
    cells = make_prompt_cache(model, "cell", config_for(model, 30))
    read = type(ours[0]).from_state
    with pytest.raises(ValueError, match="state: got layer 1, expected layer 0 of the same cache"):
        read(ours[1].state)
    with pytest.raises(ValueError, match=r"state: got version and kind \(1, 'cell'\)"):
        read(cells[0].state)
    with pytest.raises(ValueError, match="state: got no state of a prompt cache's layer"):
        read((mx.zeros((1,)), mx.zeros((1,))))
    assert ours[0].meta_state == ""


def test_models_that_keep_something_else_are_refused() -> None:
    """A layer with kept tokens has no policy here."""

    class Kept:
        layers = (None,)

        def make_cache(self) -> list[Any]:
            return [lm.RotatingKVCache(max_size=8, keep=4)]

        def __call__(self, tokens: mx.array, cache: list[Any]) -> None:
            return

    with pytest.raises(ValueError, match="model: layer 0 uses mlx-lm's RotatingKVCache, expected KVCache or"):
        config_for(Kept())


def test_a_config_is_shared_by_copies() -> None:
    """It never changes, so a deep copy of a cache keeps the parent's."""
    config = config_for(_llama(), 30)
    assert isinstance(config, CacheConfig)
    assert copy.deepcopy(config) is config


@pytest.mark.parametrize("kind", ["sequence", "cell"])
def test_quantisation_that_mlx_lm_asks_for_is_there_or_refused(model: Any, expected: list[int], kind: Any) -> None:
    """`kv_bits` does nothing to a cache that stores so already, and is an error for any other."""
    asked = {"max_tokens": 20, "kv_bits": 8, "kv_group_size": 32, "quantized_kv_start": 0}
    config = config_for(model, 300, kv_bits=8, kv_group_size=32)
    whole = _generate(model, make_prompt_cache(model, kind, config), _prompt(40), 20, 64)
    layers = make_prompt_cache(model, kind, config)
    assert [int(t) for t, _ in generate_step(_prompt(40), model, prompt_cache=layers, **asked)] == whole
    plain = make_prompt_cache(model, kind, config_for(model, 300))
    with pytest.raises(
        ValueError, match=r"kv_bits: got 8 with kv_group_size=32 for a cache that does not quantise"
    ):
        next(generate_step(_prompt(40), model, prompt_cache=plain, **asked))
    with pytest.raises(ValueError, match=r"kv_bits: got 4 .* that stores 8 bits in groups of 32, expected"):
        next(generate_step(_prompt(40), model, prompt_cache=layers, **{**asked, "kv_bits": 4}))


class _Words:
    eos_token_ids: tuple[int, ...] = ()

    @staticmethod
    def decode(tokens: list[int]) -> str:
        return str(tokens)


@pytest.mark.parametrize("kind", ["sequence", "cell"])
def test_mlx_lm_generates_a_batch_from_our_caches(model: Any, kind: Any) -> None:
    """Histories of three lengths, one of them none, merged into mlx-lm's own cache; ours stay as they were."""
    config = config_for(model, 300)
    caches, expected, prompts = [], [], []
    for history, prompt in (
        (_prompt(30, 1), _prompt(5, 2)),
        (_prompt(7, 3), _prompt(9, 4)),
        (None, _prompt(6, 5)),
    ):
        ours = make_prompt_cache(model, kind, config)
        own = lm.make_prompt_cache(model)
        if history is not None:
            mx.eval(model(history[None], cache=ours), model(history[None], cache=own))
        caches.append(ours)
        prompts.append(prompt.tolist())
        expected.append(_generate(model, own, prompt, 25))
    got = batch_generate(
        model, _Words(), prompts, prompt_caches=caches, max_tokens=25, return_token_ids=True
    ).token_ids
    assert got == expected
    assert [cache[0].size() for cache in caches] == [30, 7, 0]


def test_a_sequence_of_a_batch_is_extracted(model: Any) -> None:
    """As mlx-lm's own cache, with which generation goes on; an index out of range is named."""
    cache = MLXCellCache(config_for(model, 600))
    for seq, length in ((0, 20), (3, 31)):
        mx.eval(model(_prompt(length, seq)[None], cache=cell_prompt_cache(cache, [seq])))
    layers = cell_prompt_cache(cache, [0, 3])
    taken = [layer.extract(1) for layer in layers]
    own = lm.make_prompt_cache(model)
    assert [type(one) for one in taken] == [type(one) for one in own]
    mx.eval(model(_prompt(31, 3)[None], cache=own))
    assert _generate(model, taken, _prompt(3), 20) == _generate(model, own, _prompt(3), 20)
    with pytest.raises(IndexError, match=r"idx: got 2, expected 0 <= idx < 2"):
        layers[0].extract(2)
    with pytest.raises(IndexError, match=r"idx: got -1"):
        make_prompt_cache(model, config=config_for(model, 30))[0].extract(-1)


@pytest.mark.parametrize("kind", ["sequence", "cell"])
@pytest.mark.parametrize("kv_dtype", [mx.float32, mx.float16])
def test_a_layer_hands_out_again_what_it_handed_out(model: Any, kind: Any, kv_dtype: Any) -> None:
    """For layers that share it, in the model's dtype; not before the layer is served."""
    config = config_for(model, 60, kv_dtype=kv_dtype)
    layers = make_prompt_cache(model, kind, config)
    with pytest.raises(RuntimeError, match=r"layer: 1 .*expected update_and_fetch"):
        layers[1].keys_and_values()
    for layer in layers:
        layer.shares = True  # as a model's that asks is found to be
    rng = np.random.default_rng(0)
    for count in (3, WINDOW + 2, 1, 1):
        for layer in layers:
            shape = (1, 2, count, config.layer(layer.layer).head_dim)
            k = mx.array(rng.standard_normal(shape).astype(np.float32))
            for one, again in zip(layer.update_and_fetch(k, -k), layer.keys_and_values(), strict=True):
                assert again.dtype == mx.float32
                assert mx.array_equal(one, again)


@pytest.mark.parametrize("kind", ["sequence", "cell"])
def test_a_compiled_step_is_refused(model: Any, expected: list[int], kind: Any) -> None:
    """It would repeat the first step's positions; nothing is stored, and the model itself goes on."""
    layers = make_prompt_cache(model, kind, config_for(model, 300))
    compiled = mx.compile(lambda tokens: model(tokens, cache=layers))
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"placeholder of mx\.compile"):
            compiled(_prompt(40)[None])
        assert layers[0].empty()
        assert layers[0].cache.nbytes > 0
    assert _generate(model, layers, _prompt(40), 20) == expected[:20]
    one = mx.compile(lambda tokens: model(tokens, cache=layers))
    before = layers[0].offset
    with pytest.raises(RuntimeError, match=r"placeholder of mx\.compile"):
        one(_prompt(1)[None])
    assert [layer.offset for layer in layers] == [before] * len(layers)


def test_a_layer_alone_is_not_copied(model: Any) -> None:
    """Two objects that step one cache would overwrite each other's tokens."""
    with pytest.raises(TypeError, match=r"expected copy\.deepcopy of the whole prompt cache"):
        copy.copy(make_prompt_cache(model, config=config_for(model, 30))[0])


@pytest.mark.parametrize("kind", ["sequence", "cell"])
def test_a_program_without_the_adapter_hears_what_to_import(model: Any, kind: Any, tmp_path: Path) -> None:
    """mlx-lm's error names what it does not find; after the import the same file loads."""
    path = tmp_path / "cache.safetensors"
    lm.save_prompt_cache(str(path), make_prompt_cache(model, kind, config_for(model, 30)))
    load = f"from mlx_lm.models.cache import load_prompt_cache as load; load({str(path)!r})"
    alone = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=False)
    assert alone.returncode == 1
    assert "(import mlxcache.mlx_lm)" in alone.stderr
    assert subprocess.run([sys.executable, "-c", f"import mlxcache.mlx_lm; {load}"], check=False).returncode == 0


@pytest.mark.parametrize("kind", ["sequence", "cell"])
def test_another_thread_saves_what_this_one_has_generated(
    model: Any, expected: list[int], kind: Any, tmp_path: Path
) -> None:
    """And a third one loads it and goes on."""
    path = str(tmp_path / "cache.safetensors")
    ours = make_prompt_cache(model, kind, config_for(model, 300))
    assert _generate(model, ours, _prompt(40), 30) == expected[:30]
    got: list[int] = []
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        first.submit(lm.save_prompt_cache, path, ours).result()
        loaded = second.submit(lm.load_prompt_cache, path).result()
        last = mx.array(expected[30:31])
        mx.eval(last)
        got = second.submit(_generate, model, loaded, last, 20).result()
    assert got == expected[31:51]


def test_a_prompt_cache_leaves_the_step_of_another_alone(model: Any) -> None:
    """Two over one cell cache: what one has declared is not dropped by the other's call, which is refused."""
    cache = MLXCellCache(config_for(model, 60))
    one, other = cell_prompt_cache(cache, [0]), cell_prompt_cache(cache, [1])
    mx.eval(model(_prompt(4)[None], cache=other))
    one[0].make_mask(3)
    assert cache.step_served == 0
    with pytest.raises(RuntimeError, match=r"seq_rm: a step of 3 tokens is declared"):
        lm.trim_prompt_cache(other, 1)
    with pytest.raises(RuntimeError, match=r"begin_step: a step of 3 tokens is declared"):
        model(_prompt(2)[None], cache=other)
    mx.eval(model(_prompt(3)[None], cache=one))
    assert cache.seq_len(0) == 3
