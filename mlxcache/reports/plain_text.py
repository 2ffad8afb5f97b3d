"""Names from result files, made fit for a page, a script and a feed.

Whatever a results file holds stays text: characters that no document may contain are replaced, JSON cannot
end a script.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

# What neither HTML nor XML may contain: controls, lone surrogates, noncharacters.
_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_SCRIPT: Final = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


def clean(text: str) -> str:
    """Text with everything that a document may not contain replaced by a visible mark."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def short(text: str, limit: int = 100) -> str:
    """Text that fits a line: its beginning and its end with an ellipsis between."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail - 1]}…{text[-tail:]}"


def cut(text: str, limit: int = 100) -> str:
    """The beginning of a sentence, for where the end says least."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def script_json(value: Any) -> str:
    """JSON that is safe inside and outside of a script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_SCRIPT)
