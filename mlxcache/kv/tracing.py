"""Steps under `mx.compile` are refused: it records one step and repeats it, with that step's positions."""

from __future__ import annotations

import mlx.core as mx

_noted = False


def _note(array: mx.array) -> mx.array:
    global _noted
    _noted = True
    return array


# A compiled function runs its Python once a kind of input, and again only where it is itself being traced.
_probe = mx.compile(_note, shapeless=True)


def refuse_tracing(array: mx.array) -> None:
    """Raise RuntimeError where `array` is a placeholder of a function being compiled; evaluates nothing else.

    MLX has no question for it: a placeholder is found by what it does to a compiled function.
    """
    global _noted
    _probe(array)
    if _noted:
        _noted = False
        _probe(array)  # the first time in a thread, or with a dtype, does not count
        if _noted:
            _noted = False
            _refuse(array)


def _refuse(array: mx.array) -> None:
    global _noted
    plain = mx.array(0.0)
    for _ in range(2):
        _noted = False
        _probe(plain)
    disabled, _noted = _noted, False
    if disabled:  # by mx.disable_compile(): then nothing is recorded either
        return
    try:
        mx.eval(array)
    except ValueError as error:
        raise RuntimeError(
            "k: got a placeholder of mx.compile (or of another transformation) in a step, expected arrays of one "
            "step at a time. A compiled function repeats its first step, whose positions the cache has counted on "
            "the host: call the model itself, and compile what lies between two steps of the cache"
        ) from error
