"""Codes of 8 bits."""

from __future__ import annotations

import mlx.core as mx


def integers(codes: mx.array) -> mx.array:
    """The codes one by one, in their order, of what `mx.quantize` packs into 32 bits."""
    return codes.view(mx.uint8)
