"""The step that outgrows its pool: twice the cells are allocated and the old ones copied."""

from __future__ import annotations

from .common import DTYPE, HEAD_DIM, HEADS, Timed, kv_bytes, need_memory, random_tokens, require, synchronise


class Growth(Timed):
    """One token written behind a full pool of one layer."""

    # Slots: the default initial capacity, and a pool whose copy costs more than everything around it.
    params = ([512, 8192],)
    param_names = ("slots",)
    repeat = (5, 20, 0.2)
    rounds = 2

    def setup(self, slots: int) -> None:
        need_memory(kv_bytes(3 * slots, layers=1))
        self.pool = require("Pool")(slots, 4 * slots, HEADS, HEAD_DIM, DTYPE)
        self.token = random_tokens(1)

    def time_grow(self, slots: int) -> None:
        self.pool.write(slots, self.token)
        synchronise([self.pool.read(slots, 1)])
