"""A whole layer: positions, cache and MLX's fused attention, with grouped queries."""

from __future__ import annotations

from .common import HEAD_DIM, HEADS, PATHS, Timed, once, ours, position_tensor, random_tokens, require, synchronise


class Attend(Timed):
    """`update_and_attend` of one layer behind 1024 tokens, evaluated.

    One layer, since attention itself is what takes the time: on a CPU, MLX needs a quarter of a second for 128
    queries of 32 heads.
    """

    # T: a decode step and a draft. Query heads: as many as KV heads, and four times as many (Llama 3 8B).
    params = (PATHS, [1, 8], [HEADS, 4 * HEADS])
    param_names = ("path", "tokens", "query_heads")

    def setup(self, path: str, tokens: int, query_heads: int) -> None:
        self.attend = require("update_and_attend")
        self.cache = once(tokens, lambda: ours(1024, layers=1))
        self.q = once(("q", tokens, query_heads), lambda: random_tokens(tokens, heads=query_heads))
        self.k = once(("k", tokens), lambda: random_tokens(tokens, seed=1))
        self.position = once((path, tokens), lambda: position_tensor(1024, tokens, path))
        self.cache.rewind(1024)
        once("warm", lambda: self.time_layer(path, tokens, query_heads))
        self.cache.rewind(1024)

    def time_layer(self, path: str, tokens: int, query_heads: int) -> None:
        synchronise([self.attend(self.cache, 0, self.q, self.k, self.k, self.position, HEAD_DIM**-0.5)])
