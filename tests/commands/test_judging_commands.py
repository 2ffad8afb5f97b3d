"""`mlxcache compare` and `mlxcache regressions`: output, exit status, and what they say when they cannot."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "history"))

from frames import commit_file, git, levels

from mlxcache.cli import main
from mlxcache.commands import compare as compare_command
from mlxcache.commands.regressions import names_of_this_machine
from mlxcache.history.changes.detector_registry import DETECTORS
from mlxcache.remeasure.rounds import COLUMNS, MeasureError, OverBudgetError, Rounds, this_machine
from mlxcache.runner import facts
from tests.tiny_project import module_config


def write_results(root: Path, line: list[str], values: np.ndarray, machine: str = "m1") -> None:
    """asv results of two benchmarks: one with these seconds, one that never changes."""
    folder = root / "results" / machine
    folder.mkdir(parents=True)
    (folder / "machine.json").write_text(json.dumps({"machine": machine, "version": 1}))
    still = levels((len(line), 0.002), sigma=0.004, seed=9)
    for number, (commit, value) in enumerate(zip(line, values, strict=True)):
        document = {
            "commit_hash": commit,
            "env_name": "env1",
            "date": 1_700_000_000_000 + 86_400_000 * number,
            "params": {"machine": machine},
            "python": "3.12",
            "requirements": {},
            "env_vars": {},
            "result_columns": ["result", "params", "version"],
            "results": {
                "bench.time_x": [[float(value)], [], "1"],
                "bench.time_still": [[float(still[number])], [], "1"],
            },
            "durations": {},
            "version": 2,
        }
        (folder / f"{commit[:8]}-env1.json").write_text(json.dumps(document))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A repository of 40 commits with results; +10 % at the 21st; the tests run inside it."""
    git(tmp_path, "init", "-q")
    (tmp_path / "asv.conf.json").write_text("{}")
    line = [commit_file(tmp_path, "code.py", f"x = {i}\n") for i in range(40)]
    write_results(tmp_path, line, levels((20, 0.001), (20, 0.0011), sigma=0.004))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mlxcache.commands.regressions.names_of_this_machine", lambda: ["m1"])
    return line


def test_a_standing_regression_is_listed_with_status_1(project: list[str], capsys: Any) -> None:
    """Text names the benchmark, the commits and how sure it is."""
    assert main(["regressions", "--repo", "."]) == 1
    out = capsys.readouterr().out
    assert "1 standing regression: 0 confirmed, 1 candidate" in out
    assert "bench.time_x" in out
    assert f"{project[19][:8]}..{project[20][:8]}" in out
    assert "time_still" not in out


def test_json_and_markdown_say_the_same(project: list[str], capsys: Any) -> None:
    """JSON is valid and complete; Markdown is a table."""
    assert main(["regressions", "--repo", ".", "--format", "json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["regressions"] == 1
    assert facts["changes"][0]["after"] == project[20]
    assert main(["regressions", "--repo", ".", "--format", "markdown"]) == 1
    assert "| `bench.time_x` | ▲ +" in capsys.readouterr().out


@pytest.mark.parametrize("detector", DETECTORS)
def test_every_detector_of_the_registry_can_be_chosen(detector: str, project: list[str], capsys: Any) -> None:
    """Each finds the step; another name is refused with those that there are."""
    assert main(["regressions", "--repo", ".", "--detector", detector]) == 1
    assert "time_" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["regressions", "--repo", ".", "--detector", "none"])
    complaint = capsys.readouterr().err
    assert all(name in complaint for name in DETECTORS)


def test_a_quiet_history_has_status_0(project: list[str], capsys: Any) -> None:
    """Restricted to a benchmark without changes there is nothing to list."""
    assert main(["regressions", "--repo", ".", "--bench", "still"]) == 0
    assert "No standing regressions" in capsys.readouterr().out


def test_plots_are_written(project: list[str], capsys: Any) -> None:
    """One SVG for the one change."""
    assert main(["regressions", "--repo", ".", "--plots", "out"]) == 1
    assert [path.suffix for path in Path("out").iterdir()] == [".svg"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["regressions", "--results", "nowhere"], "nothing at nowhere"),
        (["regressions", "--confirm"], "--confirm needs the repository: give --repo"),
        (["regressions", "--control", "("], r"control: '\(' is no regular expression"),
        (["compare", "HEAD~1", "no-such"], "'no-such' is no commit"),
        (["compare", "HEAD", "HEAD"], "there is nothing to compare"),
        (
            ["compare", "HEAD~1", "HEAD", "--results", "nowhere"],
            "no results in nowhere; give --results, or --measure",
        ),
        (["compare", "HEAD~1", "HEAD", "--relevant", "0"], r"relevant is 0\.0"),
        (
            ["compare", "HEAD~1", "HEAD", "--budget", "5"],
            "--budget has no effect without --measure",
        ),
        (
            ["compare", "HEAD~1", "HEAD", "--measure", "--budget", "-1"],
            "--budget: got -1, expected minutes above",
        ),
    ],
)
def test_what_cannot_be_done_has_status_2(
    project: list[str], capsys: Any, arguments: list[str], message: str
) -> None:
    """The reason is on stderr and says what to do; stdout is empty."""
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert pd.Series([said.err]).str.contains(message).all(), said.err


def test_an_empty_results_folder_is_no_regression_and_no_success(project: list[str], capsys: Any) -> None:
    """No values at all is an error, not "fine"."""
    Path("empty").mkdir()
    assert main(["regressions", "--results", "empty"]) == 2
    assert "no values in empty" in capsys.readouterr().err


def test_results_that_all_failed_are_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark that gives no value on any commit says nothing about regressions."""
    folder = tmp_path / "results" / "m1"
    folder.mkdir(parents=True)
    (folder / "machine.json").write_text('{"machine": "m1", "version": 1}')
    content = {
        "commit_hash": "a" * 40, "env_name": "e", "date": 1, "params": {"machine": "m1"}, "version": 2,
        "result_columns": ["result"], "results": {"b.time_x": [[None]]},
    }  # fmt: skip
    (folder / "aaaaaaaa-e.json").write_text(json.dumps(content))
    assert main(["regressions", "--results", str(tmp_path / "results")]) == 2
    assert "no values in" in capsys.readouterr().err


def test_compare_finds_what_head_did(project: list[str], capsys: Any) -> None:
    """Across the step: regression, status 1. After it: no regression, and the old one is base's."""
    assert main(["compare", project[15], project[25]]) == 1
    assert "New regressions (1)" in capsys.readouterr().out
    status = main(["compare", project[37], project[39], "--format", "markdown"])
    out = capsys.readouterr().out
    assert status == 0, out
    assert "No regression in 2 series" in out
    assert "already on trunk (+" in out
    assert "since " + project[20][:8] in out


def test_compare_starts_where_head_left_base(project: list[str], capsys: Any) -> None:
    """A branch from before the step is not praised for lacking it."""
    git(Path(), "checkout", "-q", "-b", "topic", project[10])
    topic = commit_file(Path(), "code.py", "x = 'topic'\n")
    results = Path("results/m1")
    document = json.loads((results / f"{project[10][:8]}-env1.json").read_text())
    document["commit_hash"] = topic
    (results / f"{topic[:8]}-env1.json").write_text(json.dumps(document))
    assert main(["compare", project[39], "topic", "--format", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["base"] == project[10]
    assert any("where topic left" in notice for notice in facts["notices"])
    git(Path(), "checkout", "-q", "-")


def rounds_of(change: float, sigma: float = 0.01) -> Any:
    """A stand-in for `measure`: both benchmarks, one of them changed."""
    calls: list[dict[str, Any]] = []

    def take(config: Any, base: str, head: str, **options: Any) -> Rounds:
        calls.append(options)
        rng = np.random.default_rng(len(calls))
        rows = [
            ("m1", "env1", name, "", "1", "seconds", n, side, factor * float(np.exp(rng.normal(0, sigma))), 4)
            for n in range(options["rounds"])
            for name, slower in (("bench.time_x", change), ("bench.time_still", 0.0))
            for side, factor in (("base", 1.0), ("head", 1.0 + slower))
        ]
        return Rounds(
            pd.DataFrame(rows, columns=COLUMNS), failures=("bench.time_broken failed on head in env1: Boom",)
        )

    take.calls = calls  # type: ignore[attr-defined]
    return take


@pytest.mark.parametrize(
    ("change", "sigma", "status", "looks"), [(0.10, 0.01, 1, 1), (0.0, 0.01, 0, 1), (0.04, 0.20, 3, 3)]
)
def test_measured_comparison(
    project: list[str], capsys: Any, monkeypatch: Any, change: float, sigma: float, status: int, looks: int
) -> None:
    """The three verdicts and their exit status; only what is open is measured again, three times at most."""
    take = rounds_of(change, sigma)
    monkeypatch.setattr(compare_command, "measure", take)
    assert main(["compare", "HEAD~1", "HEAD", "--measure", "--rounds", "12"]) == status
    out = capsys.readouterr().out
    assert "bench.time_broken failed on head in env1: Boom" in out
    assert len(take.calls) == looks
    if looks > 1:
        assert "what is inconclusive is not fine" in out
        assert all(pattern.startswith("^bench") for pattern in take.calls[1]["bench"])


@pytest.mark.parametrize(("never", "status"), [((), 0), (("bench.time_last",), 3)])
def test_a_budget_ends_with_a_verdict_of_what_there_is(
    project: list[str], capsys: Any, monkeypatch: Any, never: tuple[str, ...], status: int
) -> None:
    """A cut ends the looking; what never ran by then cannot have passed, and is named."""
    take = rounds_of(0.0)

    def cut(*args: Any, **options: Any) -> Rounds:
        assert 0 < options["seconds"] <= 120
        return dataclasses.replace(take(*args, **options), cut=never)

    monkeypatch.setattr(compare_command, "measure", cut)
    assert main(["compare", "HEAD~1", "HEAD", "--measure", "--rounds", "12", "--budget", "2"]) == status
    out = capsys.readouterr().out
    assert "the budget of 2 minutes ended the measuring early" in out
    assert ("1 benchmarks were not measured within the budget: bench.time_last" in out) == bool(never)


def test_compare_measures_in_the_environment_of_bench(project: list[str], capsys: Any, monkeypatch: Any) -> None:
    """On a hosted Mac both name the CPU, so that what is stored and what is compared are one series."""
    take = rounds_of(0.0)
    hosted = facts.Machine(
        "macos",
        "15.7",
        "arm64",
        "Apple M1 (Virtual)",
        3,
        2**33,
        "vm",
        "cpu",
        "Apple Paravirtual device",
        "",
        "0.32",
    )
    monkeypatch.setattr(compare_command, "measure", take)
    for machine, variables in ((hosted, {"MLXCACHE_DEVICE": "cpu"}), (facts.this_machine(), {})):
        monkeypatch.setattr(compare_command, "this_machine", lambda machine=machine: machine)
        assert main(["compare", "HEAD~1", "HEAD", "--measure", "--rounds", "12"]) == 0
        assert take.calls[-1]["variables"] == variables


def test_a_later_look_over_budget_leaves_the_verdict_of_the_first(
    project: list[str], capsys: Any, monkeypatch: Any
) -> None:
    """What the first look measured is not thrown away."""
    take = rounds_of(0.04, 0.20)

    def once(*args: Any, **options: Any) -> Rounds:
        if take.calls:
            raise OverBudgetError("the 1 minutes went by before anything was measured")
        return take(*args, **options)

    monkeypatch.setattr(compare_command, "measure", once)
    assert main(["compare", "HEAD~1", "HEAD", "--measure", "--rounds", "12", "--budget", "1"]) == 3
    assert "the budget of 1 minutes ended the measuring early" in capsys.readouterr().out


def test_confirm_writes_what_it_measured_and_the_next_run_knows(
    project: list[str], capsys: Any, monkeypatch: Any
) -> None:
    """A refuted candidate is off the list and status is 0; the answer lies beside the results."""
    take = rounds_of(0.0)
    monkeypatch.setattr("mlxcache.commands.regressions.measure", take)
    assert main(["regressions", "--repo", ".", "--confirm", "--rounds", "12"]) == 0
    assert "Refuted by a rerun (1)" in capsys.readouterr().out
    assert Path("results/m1/confirmations.jsonl").exists()
    assert main(["regressions", "--repo", "."]) == 0
    take = rounds_of(0.10)
    Path("results/m1/confirmations.jsonl").unlink()
    monkeypatch.setattr("mlxcache.commands.regressions.measure", take)
    assert main(["regressions", "--repo", ".", "--confirm", "--rounds", "12"]) == 1
    assert "1 standing regression: 1 confirmed, 0 candidates" in capsys.readouterr().out


def test_a_candidate_that_cannot_be_measured_stays_with_a_note(
    project: list[str], capsys: Any, monkeypatch: Any
) -> None:
    """A broken build is no answer: nothing is recorded and the list says why."""

    def broken(*args: Any, **options: Any) -> Rounds:
        raise MeasureError("base cannot be built in env1: no compiler")

    monkeypatch.setattr("mlxcache.commands.regressions.measure", broken)
    assert main(["regressions", "--repo", ".", "--confirm"]) == 1
    assert "was not measured: base cannot be built in env1: no compiler" in capsys.readouterr().out
    assert not Path("results/m1/confirmations.jsonl").exists()


def test_other_machines_candidates_are_left_to_them(project: list[str], capsys: Any, monkeypatch: Any) -> None:
    """A rerun here says nothing about another machine, unless it is asked for."""
    monkeypatch.setattr("mlxcache.commands.regressions.names_of_this_machine", lambda: ["here", "there"])
    assert main(["regressions", "--repo", ".", "--confirm"]) == 1
    assert "1 candidates are of other machines than here or there" in capsys.readouterr().out


def test_this_machine_goes_by_asvs_name_and_by_our_own(monkeypatch: Any) -> None:
    """A candidate of a machine that `mlxcache bench` named is measured again without ~/.asv-machine.json."""
    monkeypatch.setattr("mlxcache.commands.regressions.this_machine", lambda: "host7")
    names = names_of_this_machine()
    assert names[0] == "host7"
    assert facts.this_machine("cpu").key in names


BUSY_SUITE = """
import busy

def time_work():
    busy.work()

time_work.number, time_work.repeat, time_work.rounds, time_work.warmup_time = 1, 5, 1, 0
"""
BUSY_MODULE = """
def work():
    total = 0
    for i in range({steps}):
        total += i * i
    return total
# {number}
"""


@pytest.mark.slow
def test_confirm_measures_a_planted_slowdown_and_the_next_page_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Through asv itself: a busy loop of some milliseconds that got 30 % longer is confirmed, and stays so."""
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "-q")
    Path("asv.conf.json").write_text(json.dumps(module_config("busy")))
    Path(".gitignore").write_text(".asv\nresults\n")
    commit_file(tmp_path, "benchmarks/__init__.py", "")
    commit_file(tmp_path, "benchmarks/suite.py", BUSY_SUITE)
    line = [
        commit_file(tmp_path, "busy.py", BUSY_MODULE.format(steps=130_000 if n >= 12 else 100_000, number=n))
        for n in range(24)
    ]
    machine = this_machine()
    # The history is written, not measured: what is tested is the rerun.
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    values = levels((12, 0.005), (12, 0.0065), sigma=0.004)
    write_busy_results(machine, f"virtualenv-py{version}", line, values, version)

    assert main(["regressions", "--repo", ".", "--confirm", "--rounds", "6"]) == 1
    said = capsys.readouterr()
    assert "confirmed: +" in said.err, said
    assert "1 standing regression: 1 confirmed, 0 candidates" in said.out
    assert main(["regressions", "--repo", ".", "--format", "json"]) == 1
    (change,) = json.loads(capsys.readouterr().out)["changes"]
    assert change["state"] == "confirmed"
    assert change["after"] == line[12]
    assert "a rerun of" in change["note"]


def write_busy_results(machine: str, env: str, line: list[str], values: np.ndarray, python: str) -> None:
    """asv's files for one benchmark, as this machine would have written them."""
    folder = Path("results") / machine
    folder.mkdir(parents=True)
    (folder / "machine.json").write_text(json.dumps({"machine": machine, "version": 1}))
    for number, (commit, value) in enumerate(zip(line, values, strict=True)):
        document = {
            "commit_hash": commit,
            "env_name": env,
            "date": 1_700_000_000_000 + 86_400_000 * number,
            "params": {"machine": machine, "python": python},
            "python": python,
            "requirements": {},
            "env_vars": {},
            "result_columns": ["result", "params", "version"],
            "results": {"suite.time_work": [[float(value)], [], "1"]},
            "durations": {},
            "version": 2,
        }
        (folder / f"{commit[:8]}-{env}.json").write_text(json.dumps(document))
