"""Every architecture of mlx-lm: the tokens of its own cache, or a refusal; and the page that lists them."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("mlx_lm")
from tools.model_table import judged
from tools.small_models import architectures

PAGE = Path(__file__).parents[1] / "docs" / "models.md"
HEADINGS = {"run": "runs", "are refused": "refused", "are not tried": "not built"}


def listed() -> dict[str, str]:
    """The outcome that the page has for each architecture."""
    found, outcome = {}, ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## \d+ (run|are refused|are not tried)", line):
            outcome = HEADINGS[heading[1]]
        elif (row := re.match(r"\| ([\w.-]+) \|", line)) and row[1] != "architecture":
            found[row[1]] = outcome
    return found


def test_the_page_lists_what_mlx_lm_has() -> None:
    """Every architecture once; most of those that hold keys and values run."""
    if f"mlx-lm {version('mlx-lm')}" not in PAGE.read_text(encoding="utf-8"):
        pytest.skip("another version of mlx-lm: `python -m tools.model_table docs/models.md` writes its page")
    assert sorted(listed()) == architectures()
    assert sum(outcome == "runs" for outcome in listed().values()) > 70


@pytest.mark.parametrize("name", architectures())
def test_an_architecture_runs_or_is_refused(name: str) -> None:
    """A prompt in chunks, twice past the window, and some tokens; `make model-table` takes 200."""
    row = judged(name, tokens=8)
    assert row.outcome != "wrong", row.why
    if f"mlx-lm {version('mlx-lm')}" in PAGE.read_text(encoding="utf-8"):
        assert row.outcome == listed()[name]
