"""Widths in which K and V can be stored quantised: a new one is a module with `integers`, and a line here.

Modules are named, not imported, so that a configuration is checked where mlx does not import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Bits of a code to the module beside this one that takes codes apart.
WIDTHS: Final[Mapping[int, str]] = {4: "four_bits", 8: "eight_bits"}
GROUP_SIZES: Final = (32, 64, 128)


def named(numbers: tuple[int, ...]) -> str:
    """The numbers as a message lists them: "32, 64 or 128"."""
    *most, last = map(str, numbers)
    return f"{', '.join(most)} or {last}" if most else last
