"""What attention is handed."""

from __future__ import annotations

import enum
from typing import NamedTuple

import mlx.core as mx


class MaskKind(enum.Enum):
    """Which mask attention applies to the keys it is handed."""

    NONE = "none"
    #: Lower-right aligned, as MLX's fused attention does it: the last query sees every key.
    CAUSAL = "causal"
    EXPLICIT = "explicit"
    #: None for the step as a whole: its sequences are read one at a time, see `Gather.CHEAPER`.
    APART = "apart"


class Order(enum.Enum):
    """In which order the keys of a spec come. Attention does not mind: positions are in the keys already."""

    OLDEST_FIRST = "oldest first"
    #: As they lie in the cache; a mask fits it. Only callers that say that they attend are handed this.
    AS_STORED = "as stored"


class AttendSpec(NamedTuple):
    """What one layer attends to in one step.

    `keys` and `values` are `[1, H, S, D]` in the storage dtype, in the order that `order` says; `mask` is bool
    `[1, 1, T, S]`, true where a query sees a key, and None unless `kind` is EXPLICIT. Drop a spec before the next
    step is evaluated: while a slice of a pool is alive, MLX copies the pool instead of updating it.
    """

    keys: mx.array
    values: mx.array
    kind: MaskKind
    mask: mx.array | None

    @property
    def order(self) -> Order:
        """The order of the keys and values along S."""
        return Order.OLDEST_FIRST


class AsStored(AttendSpec):
    """An `AttendSpec` whose keys come in any order."""

    __slots__ = ()

    @property
    def order(self) -> Order:
        """See `AttendSpec.order`."""
        return Order.AS_STORED


class StepMask(NamedTuple):
    """The mask of a step on a layer: see `AttendSpec`; `span` is the number of keys, S."""

    kind: MaskKind
    mask: mx.array | None
    span: int
