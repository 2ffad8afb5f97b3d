"""Markdown in which names stay names."""

from __future__ import annotations

import pytest

from mlxcache.reports.markdown import block, clipped, code, folded, one_line, plain, table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("time_x", "`time_x`"),
        ("a`b", "`` a`b ``"),
        ("``", "``` `` ```"),
        ("two\nlines", "`two lines`"),
        ("", "`  `"),
        ("right\u202eleft", "`rightleft`"),
    ],
)
def test_code_holds_any_text(text: str, shown: str) -> None:
    """The fence is longer than any run of backticks; line breaks and reordering characters go."""
    assert code(text) == shown


def test_plain_text_makes_no_markup_no_html_and_no_mention() -> None:
    """What GitHub would link or render is broken up or escaped."""
    text = plain("<img src=x onerror=1> **b** [l](https://e.org) @someone fixes #12 www.e.org GH-3 `c` | & $x$")
    assert "<" not in text
    assert "&lt;img" in text
    assert "\\*\\*b\\*\\*" in text
    assert "\\[l\\](" in text
    for linked in ("@someone", "https://", "#12", "www.e", "GH-3"):
        assert linked not in text
    assert "\\|" in text
    assert "&amp;" in text


def test_a_cell_never_ends_early() -> None:
    """Each row has as many unescaped pipes as the header has, whatever stands in it."""
    for nasty in ("a|b", "a\\|b", "a\\\\|b", "|", "||", "x\n| y"):
        header, _, row = table(["one", "two"], [[code(nasty), plain(nasty)]])
        assert len(row.splitlines()) == 1
        assert _bars(row) == _bars(header) == 3


def _bars(line: str) -> int:
    """Pipes that end a cell, read as GitHub reads them: a backslash escapes what follows."""
    count, index = 0, 0
    while index < len(line):
        if line[index] == "\\":
            index += 2
            continue
        count += line[index] == "|"
        index += 1
    return count


def test_a_block_outlasts_fences_in_it() -> None:
    """A fence inside does not close the block."""
    lines = block("x\n````\n<b>", "sh")
    assert lines[0] == "`````sh"
    assert lines[-1] == "`````"


def test_clipping_keeps_both_ends() -> None:
    """The beginning and the end tell two names apart, and the limit holds."""
    assert clipped("abcdefghij", 5) == "ab…ij"
    assert all(len(clipped("x" * 100, limit)) == limit for limit in range(1, 100))
    assert clipped("short", 5) == "short"


def test_folded_text_is_markdown_inside_html() -> None:
    """GitHub reads Markdown inside <details> only after a blank line."""
    assert folded("s", ["a"]) == ["<details>", "<summary>s</summary>", "", "a", "", "</details>"]


def test_one_line_has_no_line_breaks_of_any_kind() -> None:
    """Unicode's line separators count."""
    assert one_line("a\u2028b\r\nc\td\x00e") == "a b c d e"
