"""Codes of 4 bits: two in a byte, the lower one first."""

from __future__ import annotations

import mlx.core as mx


def integers(codes: mx.array) -> mx.array:
    """The codes one by one, in their order, of what `mx.quantize` packs into 32 bits."""
    octets = codes.view(mx.uint8)
    return mx.stack([octets & 15, octets >> 4], axis=-1)
