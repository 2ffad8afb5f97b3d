"""The workflows: thin, pinned, without rights that they do not use, and every step runs here too."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlxcache.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def jobs(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The jobs of a workflow by name."""
    return list(yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_allowed_that_a_job_does_not_ask_for(path: Path) -> None:
    """Permissions are empty above, every job names its own, its time limit, and runs that exclude each other."""
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {}
    assert workflow["concurrency"]["group"]
    for name, job in jobs(path):
        assert job["permissions"], name
        assert 0 < job["timeout-minutes"] <= 300, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_with_their_tag_in_a_comment(path: Path) -> None:
    """A tag can be moved; and one action has one pin everywhere."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if "uses:" in line:
            assert re.search(r"uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_an_action_has_the_same_pin_everywhere() -> None:
    """Two pins of one action would be two things to review."""
    pins = {
        re.split(r"\s+", line.strip())[-3]
        for path in FILES
        for line in path.read_text().splitlines()
        if "uses:" in line
    }
    assert len({pin.partition("@")[0] for pin in pins}) == len(pins)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_steps_are_commands_that_run_here(path: Path) -> None:
    """Each runs a make target or a command of ours; no expression stands in a script, where it could be code."""
    for name, job in jobs(path):
        for step in job["steps"]:
            script = step.get("run", "")
            assert "${{" not in script, f"{name}: {script}"
            for target in re.findall(r"\bmake ([a-z-]+)", script):
                assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target
            for command in re.findall(r"\.venv/bin/mlxcache ([a-z]+)", script):
                assert command in COMMANDS, command


def test_options_in_the_workflows_are_known() -> None:
    """A renamed option shows here and not at night."""
    import argparse
    import importlib

    for path in FILES:
        for _, job in jobs(path):
            for step in job["steps"]:
                for call in re.findall(r"\.venv/bin/mlxcache ([^|>&;]+)", step.get("run", "").replace("\n", " ")):
                    name, *rest = ("1" if word == "$NEWEST" else word for word in shlex.split(call))
                    parser = argparse.ArgumentParser()
                    command = importlib.import_module(f"mlxcache.commands.{name}")
                    command.configure(parser)
                    args, unknown = parser.parse_known_args(rest)
                    assert args is not None
                    passed = unknown if getattr(command, "PASSES_ARGUMENTS", False) else []
                    assert unknown == passed, f"{path.name}: mlxcache {call}"


def test_history_is_whole_wherever_it_is_asked_for() -> None:
    """A shallow clone is checked out only by jobs that look at no history."""
    shallow = {
        f"{path.stem}.{name}"
        for path in FILES
        for name, job in jobs(path)
        for step in job["steps"]
        if str(step.get("uses")).startswith("actions/checkout@") and step.get("with", {}).get("fetch-depth") != 0
    }
    assert shallow == {"ci.workflows", "bench-comment.comment"}


def test_a_strangers_code_meets_no_secret_and_no_right_to_write() -> None:
    """What runs a pull request's code can read and nothing else; what may write runs main's code."""
    by_name = {path.stem: path.read_text(encoding="utf-8") for path in FILES}
    (_, compare), *more = jobs(ROOT / ".github" / "workflows" / "bench-pr.yml")
    assert not more
    assert compare["permissions"] == {"contents": "read"}
    assert "secrets." not in "".join(by_name.values())
    assert "pull_request_target" not in "".join(by_name.values())
    assert "cache: pip" not in by_name["bench-pr"]
    assert "ref:" not in by_name["bench-comment"]
    assert [name for name, text in by_name.items() if "refs/pull/" in text] == ["bench-pr"]
