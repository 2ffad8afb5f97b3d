"""Options that choose among results mean the same in each command, and are never without effect."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from result_trees import document, row, write_benchmarks, write_document

from mlxcache import cli

# What each command reads its results with; the others read none, or all of a tree (doctor, merge, publish).
CHOOSING = ("results", "repo", "branch", "machine-rule", "machine", "env", "bench", "control")
LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "regressions": (),
    "dashboard": (),
    "notify": (),
    "compare": ("branch",),  # BASE has a history of its own
    "bisect": ("bench",),  # SERIES is that
    "export": ("control",),  # values as they were measured
    "coverage": ("branch", "control"),  # RANGE
    "peers": ("bench", "control"),
}


def options(command: str) -> set[str]:
    """The long options of a command."""
    parser = argparse.ArgumentParser()
    importlib.import_module(f"mlxcache.commands.{command}").configure(parser)
    return {
        o.removeprefix("--") for action in parser._actions for o in action.option_strings if o.startswith("--")
    }


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_each_command_takes_all_that_chooses_or_says_why_not(command: str) -> None:
    """Whoever reads results as a history has every option that chooses but those that it has another word for."""
    if command in LEFT_OUT:
        assert set(CHOOSING) - options(command) == set(LEFT_OUT[command])
    else:
        assert not {"machine-rule", "env", "control"} & options(command)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of 16 commits: b.time_a steps in the old environment of m1; two runners take turns."""
    monkeypatch.setenv("MLXCACHE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    names = []
    git("init", "-q", "-b", "main")
    for number in range(16):
        when = f"{1_700_000_000 + number * 86_400} +0000"
        git("commit", "-q", "--allow-empty", "-m", f"c{number}", GIT_AUTHOR_DATE=when, GIT_COMMITTER_DATE=when)
        names.append(git("rev-parse", "HEAD"))
    git("branch", "early", names[9])
    results = tmp_path / "results"
    write_benchmarks(results, {name: {"version": "v1"} for name in ("b.time_a", "b.time_b", "b.time_control")})
    for number, name in enumerate(names):
        wiggle = 1 + 0.002 * (number % 3)
        after = number >= 8
        for machine, env, a in (
            ("m1", "old", 1.3 if after else 1.0),
            ("m1", "new", 1.0),
            (f"ci-{number % 2}", "new", 1.0),
        ):
            rows = {"b.time_a": row([a * wiggle]), "b.time_b": row([2 * wiggle]), "b.time_control": row([wiggle])}
            write_document(results, document(rows, number=number + 1, machine=machine, env=env, commit_hash=name))
    return tmp_path


def git(*words: str, **environment: str) -> str:
    """Run git as nobody in particular."""
    who = {f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return subprocess.run(
        ["git", *words], check=True, capture_output=True, text=True, env={**os.environ, **who, **environment}
    ).stdout.strip()


def said(capsys: Any, *words: str) -> tuple[int, str]:
    """Status and output of a command."""
    status = cli.main(list(words))
    return status, capsys.readouterr().out


COMMANDS: Mapping[str, tuple[str, ...]] = {
    "regressions": ("regressions", "--repo", ".", "--format", "json"),
    "compare": ("compare", "HEAD~12", "HEAD", "--repo", ".", "--format", "json"),
    "notify": ("notify",),
    "export": ("export", "--repo", ".", "--format", "jsonl", "--out", "out"),
    "dashboard": ("dashboard", "--repo", ".", "--out", "site"),
    "coverage": ("coverage", "--format", "json"),
}


def answer_of(capsys: Any, command: str, *more: str) -> tuple[int, str]:
    """Status, and what was said or written."""
    status, text = said(capsys, *COMMANDS[command], *more)
    if command == "export":
        text = Path("out").read_text() if Path("out").exists() else ""
    if command == "dashboard":
        text = Path("site/changes.json").read_text() + Path("site/index.html").read_text()
    return status, text


@pytest.mark.parametrize("command", ["regressions", "compare", "export", "dashboard"])
@pytest.mark.parametrize(
    "choice",
    [("--env", "new"), ("--machine", "ci-"), ("--machine-rule", "ci-.*=hosted"), ("--bench", "time_b$")],
    ids=lambda choice: choice[0],
)
def test_what_is_chosen_changes_the_answer(
    place: Path, capsys: Any, command: str, choice: tuple[str, str]
) -> None:
    """In each command, since the results hold more than that."""
    whole = answer_of(capsys, command)
    chosen = answer_of(capsys, command, *choice)
    assert chosen[0] != 2
    assert whole != chosen


@pytest.mark.parametrize("command", ["regressions", "compare", "notify", "export", "dashboard"])
@pytest.mark.parametrize(
    "choice",
    [
        ("--env", "odl"),
        ("--machine", "m7"),
        ("--machine-rule", "fv-.*=hosted"),
        ("--bench", "time_z"),
        ("--machine", "("),
    ],
    ids=str,
)
def test_what_fits_nothing_is_refused(place: Path, capsys: Any, command: str, choice: tuple[str, str]) -> None:
    """With the option and what there is."""
    assert cli.main([*COMMANDS[command], *choice]) == 2
    told = capsys.readouterr().err
    assert f"{choice[0]}: " in told
    assert "there are: " in told or choice[1] == "("


@pytest.mark.parametrize("command", ["regressions", "compare", "notify", "dashboard"])
def test_a_control_that_is_not_there_is_refused(place: Path, capsys: Any, command: str) -> None:
    """A regular expression that finds none, and a median of too few."""
    for control in ("time_z", "median"):
        assert cli.main([*COMMANDS[command], "--control", control]) == 2
        assert "--control" in capsys.readouterr().err


def test_no_control_means_that_the_control_is_judged_by_nobody(place: Path, capsys: Any) -> None:
    """--control none divides by nothing, and what is called a control is no answer about the code."""
    for command in ("regressions", "compare"):
        status, text = answer_of(capsys, command, "--control", "none")
        assert status in (0, 1)
        listed = json.loads(text)["changes" if command == "regressions" else "series"]
        assert not [r for r in listed if r["benchmark"] == "b.time_control"]


def test_a_benchmark_is_judged_like_that_beside_all_others(place: Path, capsys: Any) -> None:
    """--bench changes what is told, not what is found."""
    _, whole = answer_of(capsys, "regressions")
    _, alone = answer_of(capsys, "regressions", "--bench", r"b\.time_a")
    assert json.loads(alone)["changes"] == [
        row for row in json.loads(whole)["changes"] if row["benchmark"] == "b.time_a"
    ]


def test_commits_may_be_tags_branches_and_beginnings(place: Path, capsys: Any) -> None:
    """HEAD~3, a tag, a branch and a short hash name the same commit in compare and export."""
    git("tag", "v1", "HEAD~3")
    git("branch", "b1", "HEAD~3")
    short = git("rev-parse", "--short=8", "HEAD~3")
    found = set()
    for name in ("HEAD~3", "v1", "b1", short):
        status, text = said(capsys, "compare", name, "HEAD", "--repo", ".", "--format", "json")
        assert status in (0, 3)
        found.add(json.loads(text)["base"])
        out = ("--format", "bencher", "--machine", "m1", "--env", "new", "--out", "b.json")
        assert cli.main(["export", "--repo", ".", "--commit", name, *out]) == 0
        found.add(git("rev-parse", "HEAD~3"))
        assert short in capsys.readouterr().out
    assert len(found) == 1
    assert cli.main(["export", "--commit", short, *out]) == 0


def test_two_tags_off_the_line_are_compared(place: Path, capsys: Any) -> None:
    """Releases of branches of their own, and nothing measured where they left the line: the tags themselves."""
    results = place / "tagged"
    write_benchmarks(results, {"b.time_a": {"version": "v1"}})
    for number, (start, value) in enumerate((("HEAD~9", 1.0), ("HEAD~2", 3.0)), 1):
        git("checkout", "-q", "-b", f"release{number}", start)
        git("commit", "-q", "--allow-empty", "-m", f"release {number}")
        git("tag", f"v{number}")
        git("checkout", "-q", "main")
        write_document(results, document({"b.time_a": row([value])}, commit_hash=git("rev-parse", f"v{number}")))
    words = ("compare", "v1", "v2", "--repo", ".", "--results", "tagged", "--format", "json")
    status, text = said(capsys, *words)
    assert (status, json.loads(text)["base"]) == (1, git("rev-parse", "v1"))
    assert any("itself is compared instead" in line for line in json.loads(text)["notices"])


def test_a_machine_that_measured_one_commit_alone_is_named(place: Path, capsys: Any) -> None:
    """ci-0 and ci-1 take turns: nothing is known of either between neighbours."""
    _, text = said(capsys, "compare", "HEAD~1", "HEAD", "--repo", ".", "--format", "json")
    notices = json.loads(text)["notices"]
    assert "ci-1 measured head only, so nothing is known of it" in notices
    assert "ci-0 measured base only, so nothing is known of it" in notices


def test_a_branch_is_whose_history_counts(place: Path, capsys: Any) -> None:
    """A branch that ends soon after the step has another line; without a repository a branch is refused."""
    for command in ("regressions", "dashboard", "notify"):
        assert cli.main([*COMMANDS[command], "--branch", "early"]) in (0, 1, 3)
        assert cli.main([*COMMANDS[command], "--branch", "nowhere"]) == 2
    assert cli.main(["regressions", "--branch", "early"]) == 2
    assert "--branch has no effect without --repo" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("regressions", "--narrow"),
        ("regressions", "--rounds", "5"),
        ("regressions", "--any-machine"),
        ("compare", "HEAD~1", "HEAD", "--rounds", "5"),
        ("compare", "HEAD~1", "HEAD", "--budget", "5"),
        ("compare", "HEAD~1", "HEAD", "--count", "x"),
        ("compare", "HEAD~1", "HEAD", "--measure", "--machine", "m1"),
        ("compare", "HEAD~1", "HEAD", "--measure", "--machine-rule", "a=b"),
        ("compare", "HEAD~1", "HEAD", "--measure", "--control", "median"),
        ("coverage", "--retry-failed"),
        ("coverage", "--missing", "--format", "json"),
        ("coverage", "--groups", "2", "--missing"),
        ("export", "--format", "csv", "--out", "x", "--project", "p"),
        ("export", "--format", "csv", "--out", "x", "--commit", "HEAD"),
        ("doctor", "results", "--branch", "main"),
        ("doctor", "--repo", "."),
        ("bench", "--touching", "x"),
        ("bench", "--counter", "valgrind"),
        ("dashboard", "--out", "x", "--machine-name", "m7=M7"),
        ("notify", "--page", "somewhere"),
    ],
    ids=" ".join,
)
def test_an_option_without_effect_is_refused(place: Path, capsys: Any, words: tuple[str, ...]) -> None:
    """And says what it would need."""
    assert cli.main(list(words)) == 2
    assert "--" in capsys.readouterr().err


def test_a_shallow_clone_has_no_answer(place: Path, capsys: Any) -> None:
    """Neither on the terminal nor as a green site: its history is cut short."""
    git("clone", "-q", "--depth", "3", f"file://{place}", "clone")
    for command in ("regressions", "dashboard", "export"):
        words = [word if word != "." else "clone" for word in COMMANDS[command]]
        assert cli.main(words) == 2
        assert "shallow" in capsys.readouterr().err
    assert not Path("site").exists()
