"""Markdown that stays what it was meant to be, whatever stands in a name.

A benchmark's name, a parameter or an error message may hold pipes, backticks, HTML or an @mention: a pull
request's author chooses them, and the comment is written in the project's name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

# Punctuation that Markdown may read as markup; a backslash before any of it is always allowed.
_MARKUP = re.compile(r"([\\`*_{}\[\]#!|~^$])")
# GitHub links these in plain text, and escapes do not stop it: an empty character in between does.
_LINKS = re.compile(r"(?<=@)|(?<=\w)(?=://)|(?<=www)(?=\.)|(?<=#)(?=\d)|(?<=GH-)(?=\d)", re.IGNORECASE)
_GAP = "\N{ZERO WIDTH NON-JOINER}"


def one_line(text: str) -> str:
    """The text without line breaks and without invisible characters that reorder or hide what is seen."""
    shown = (" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text)
    return " ".join("".join(c for c in shown if unicodedata.category(c) not in ("Cf", "Cs", "Co", "Cn")).split())


def clipped(text: str, limit: int) -> str:
    """At most `limit` characters: the middle goes, since both ends tell names apart."""
    if len(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


def code(text: str) -> str:
    """Text as inline code, also if it holds backticks."""
    text = one_line(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest or not text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def plain(text: str) -> str:
    """Text as it stands: no markup, no HTML, no mention, no link comes of it."""
    text = _LINKS.sub(_GAP, one_line(text))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\1", text)


def block(text: str, language: str = "") -> list[str]:
    """Lines of a code block, whatever backticks stand in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + language, *text.splitlines(), fence]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table; what would end a cell early is escaped."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_in_cell(cell) for cell in cells) + " |"

    return [line(header), "|" + "---|" * len(header), *map(line, rows)]


def _in_cell(text: str) -> str:
    # A pipe ends the cell even inside code. One that has a backslash already would lose its escape.
    return re.sub(r"(\\*)\|", lambda m: (m[1] if len(m[1]) % 2 else m[1] + "\\") + "|", text.replace("\n", " "))


def folded(summary: str, lines: Sequence[str]) -> list[str]:
    """Lines behind a summary that the reader opens; GitHub wants blank lines around Markdown in there."""
    return ["<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>"]
