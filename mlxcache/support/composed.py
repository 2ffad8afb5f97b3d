"""A function and what is picked of its result, under a name of its own but with one signature."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")


def then(first: Callable[P, T], pick: Callable[[T], U], name: str) -> Callable[P, U]:
    """`first`, and then `pick` of what it returned; arguments, docstring and module are those of `first`."""

    @wraps(first)
    def both(*args: P.args, **kwargs: P.kwargs) -> U:
        return pick(first(*args, **kwargs))

    both.__name__ = both.__qualname__ = name
    return both
