"""docs/api.md's recipes run, in their order, on this repository's own results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import mlxcache.history as h

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"### (\d+)\. ([^\n]+)\n+```python\n(.*?)```", TEXT, re.DOTALL)


def test_every_recipe_runs(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """All ten of them, each with what those before it made."""
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    assert [int(number) for number, _, _ in RECIPES] == list(range(1, 11))
    for number, title, code in RECIPES:
        exec(compile(code, f"docs/api.md, recipe {number}: {title}", "exec"), names)
    assert len(names["cost"]) >= 8
    assert len(names["lines"]) > 100
    assert set(names["rows"]["verdict"]) <= set(h.Verdict)


def test_every_public_name_is_described() -> None:
    """A name of `mlxcache.history` is in the table of docs/api.md."""
    assert [name for name in h.__all__ if f"`{name}" not in TEXT] == []
