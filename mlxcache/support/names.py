"""Short names made from long texts: the same in every run, fit for a file and an address."""

from __future__ import annotations

import hashlib
import re


def digest(*parts: str, size: int = 5) -> str:
    """A short name for a tuple of texts, the same in every build."""
    key = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(key, digest_size=size).hexdigest()


def slug(text: str, limit: int = 60) -> str:
    """Text as part of a file's name: ASCII letters, digits, dots and hyphens."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text[: 4 * limit]).strip("-.")[:limit].rstrip("-.") or "unnamed"


def series_name(benchmark: str, params: str) -> str:
    """A benchmark and its parameters as a call, which is how asv and every page of ours write a series."""
    return f"{benchmark}({params})" if params else benchmark


def series_pattern(benchmark: str, params: str) -> str:
    """The regular expression with which asv picks this benchmark and parameter set alone."""
    return f"^{re.escape(series_name(benchmark, params))}$"
