"""The next token, in sizes that are counted within seconds: ours, and what it is compared with.

`mlxcache bench --count instructions` counts the instructions of these; plain asv times them. Decoding goes on from
token to token, so no step is taken back first, as those of `decode` are: a step that goes on is planned by less.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from .common import PATHS, ROOM, Skip, Step, Timed, once, synchronise

# Pools of 12 MB: filling large ones is most of what a count under valgrind takes.
CONTEXT = 128


class Next(Timed):
    """One token through 32 layers: our caches, bare MLX with positions known and read, mlx-lm's."""

    params = (["sequence", "cell", "bare", "bare reading", "KVCache"], PATHS)
    param_names = ("cache", "path")

    def setup(self, cache: str, path: str) -> None:
        if path != "int32" and cache in ("bare", "KVCache"):
            raise Skip(f"{cache} reads no positions")
        self.go_on, self.step = once((type(self), cache, path), lambda: self._made(cache, path))
        self.go_on()

    @staticmethod
    def _made(cache: str, path: str) -> tuple[Any, Any]:
        if cache == "sequence":
            step = Step(path, CONTEXT, room=ROOM)
            return step.go_on, step
        # Not above: a process that counts the sequence cache needs none of what these import.
        if cache == "cell":
            from .cells import OneSequence

            step = OneSequence.made(path, cache, CONTEXT, ROOM)
            return step.go_on, step
        from .contenders import BARE_READING, contender

        other = contender(BARE_READING[path] if cache == "bare reading" else cache, CONTEXT)
        return other.go_on, other.step

    def time_token(self, cache: str, path: str) -> None:
        self.step()


class Adapter(Timed):
    """One token through a model's 16 layer caches as mlx-lm's models call them: ours, and mlx-lm's own."""

    params = (["mlx-lm", "sequence", "cell"], ["host", "int32", "int64"])
    param_names = ("cache", "path")

    def setup(self, cache: str, path: str) -> None:
        from . import model

        if model.lm_cache is None or model.llama is None:
            raise Skip(model.WITHOUT_MLX_LM or "this mlx-lm has no llama")
        if cache != "mlx-lm" and model.adapter is None:
            raise Skip("this commit of mlxcache has no adapter for mlx-lm")
        if cache == "mlx-lm" and path != "host":
            raise Skip("mlx-lm's caches read no position arrays")
        self.layers, self.token = once((type(self), cache, path), lambda: self._made(cache, path))
        if self.layers[0].offset >= model.CONTEXT + ROOM:
            for layer in self.layers:
                layer.trim(ROOM)

    @staticmethod
    def _made(cache: str, path: str) -> tuple[Any, Any]:
        from . import model

        generate = model.Generate()
        generate.model = model._model("llama")
        shape = (1, model.KV_HEADS, 1, model.HEAD_DIM)
        token = mx.array(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))
        mx.eval(token)
        return generate._fill(cache, path)[0], token

    def time_token(self, cache: str, path: str) -> None:
        token, outputs = self.token, []
        for layer in self.layers:
            outputs += layer.update_and_fetch(token, token)
        synchronise(outputs)
