"""The whole layer: positions, cache and MLX's fused attention, with grouped queries."""

from __future__ import annotations

from .common import (
    HEAD_DIM,
    HEADS,
    LAYERS,
    PATHS,
    Timed,
    once,
    ours,
    position_tensor,
    random_tokens,
    require,
    synchronise,
)


class Attend(Timed):
    """`update_and_attend` through 32 layers behind 1024 tokens, one evaluation."""

    # T: a decode step and a small chunk. Query heads: as many as KV heads, and four times as many (Llama 3 8B).
    params = (PATHS, [1, 128], [HEADS, 4 * HEADS])
    param_names = ("path", "tokens", "query_heads")
    repeat = (5, 15, 0.25)
    rounds = 2

    def setup(self, path: str, tokens: int, query_heads: int) -> None:
        self.attend = require("update_and_attend")
        self.cache = once(tokens, lambda: ours(1024, slack=tokens + 64))
        self.cache.rewind(1024)
        self.q = once(("q", tokens, query_heads), lambda: random_tokens(tokens, heads=query_heads))
        self.k = once(("k", tokens), lambda: random_tokens(tokens, seed=1))
        self.position = once((path, tokens), lambda: position_tensor(1024, tokens, path))
        once("warm", lambda: self.time_step(path, tokens, query_heads))
        self.cache.rewind(1024)

    def time_step(self, path: str, tokens: int, query_heads: int) -> None:
        q, k, position = self.q, self.k, self.position
        scale = HEAD_DIM**-0.5
        synchronise([self.attend(self.cache, layer, q, k, k, position, scale) for layer in range(LAYERS)])
