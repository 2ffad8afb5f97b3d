"""Measuring two commits in turn, with a driver that is told what to say; and once for real."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from frames import commit_file, commit_name, git, history_frame, levels

from mlxcache.history import change_points, compare_rounds, read_confirmations
from mlxcache.history.changes.confirmations import FILE_NAME, Confirmation, write_confirmations
from mlxcache.history.repository.commits import RepositoryError
from mlxcache.history.repository.revisions import merge_base, resolve_commit
from mlxcache.remeasure.confirming import NotMeasured, candidates, commits_between, confirm_changes
from mlxcache.remeasure.rounds import (
    MeasureError,
    OverBudgetError,
    Rounds,
    find_config,
    measure,
    run_driver,
    this_machine,
)
from mlxcache.support.names import series_pattern
from tests.tiny_project import module_config


def value(side: str, number: int, seconds: float | None, benchmark: str = "bench.time_x") -> dict[str, Any]:
    """A driver's event."""
    return {
        "event": "value",
        "machine": "m1",
        "env": "env1",
        "benchmark": benchmark,
        "params": "",
        "version": "1",
        "unit": "seconds",
        "side": side,
        "round": number,
        "value": seconds,
        "samples": 10,
    }


def test_events_become_rows_and_progress() -> None:
    """Finite values are rows, failures are kept with their reason, progress is told."""

    def driver(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
        assert plan["rounds"] == 2
        yield {"event": "start", "works": [["env1", "bench.time_x"]], "environments": 1, "rounds": 2}
        for number in range(2):
            yield value("base", number, 1.0)
            yield value("head", number, float("nan"))
            yield {"event": "round", "number": number}
        yield value("head", 1, None, "bench.time_broken")
        yield {
            "event": "failed",
            "benchmark": "bench.time_broken",
            "env": "env1",
            "side": "head",
            "reason": "Boom",
        }

    said: list[str] = []
    frame = measure("asv.conf.json", "a" * 40, "b" * 40, rounds=2, driver=driver, say=said.append)
    assert frame.table["side"].tolist() == ["base", "base"]
    assert list(frame.failures) == ["bench.time_broken failed on head in env1: Boom"]
    assert said == [
        "measuring 1 benchmark in 2 rounds, base and head in turn",
        "round 1 of 2 done: the first run is going on, 1 s so far",
        "round 2 of 2 done",
    ]


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([{"event": "error", "message": "head abc cannot be built in env1: no compiler"}], "no compiler"),
        ([value("base", 0, None)], "not one value was measured: every benchmark was skipped"),
        (
            [{"event": "failed", "benchmark": "b", "env": "e", "side": "base", "reason": ""}],
            "not one value was measured: b failed on base in e",
        ),
    ],
)
def test_nothing_measured_is_an_error_with_the_reason(events: list[dict[str, Any]], message: str) -> None:
    """What the driver knows ends up in the message."""
    with pytest.raises(MeasureError, match=message):
        measure("asv.conf.json", "a" * 40, "b" * 40, driver=lambda plan: iter(events))


def test_a_cut_says_what_never_ran_and_nothing_at_all_is_an_error() -> None:
    """The seconds go to the driver; what it left out is kept beside the rows."""
    asked: list[Any] = []

    def driver(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
        asked.append(plan["seconds"])
        yield value("base", 0, 1.0)
        yield {"event": "cut", "round": 0, "never": ["bench.time_last"]}

    frame = measure("asv.conf.json", "a" * 40, "b" * 40, seconds=90.0, driver=driver)
    assert asked == [90.0]
    assert list(frame.cut or ()) == ["bench.time_last"]
    assert measure("c", "a", "b", driver=lambda plan: iter([value("base", 0, 1.0)])).cut is None
    with pytest.raises(OverBudgetError, match="the 2 minutes went by before anything was measured"):
        measure("c", "a", "b", seconds=120.0, driver=lambda plan: iter([{"event": "cut", "never": []}]))


def test_no_rounds_are_refused() -> None:
    """Zero rounds is a mistake of the caller's."""
    with pytest.raises(ValueError, match="rounds is 0; expected 1 or more"):
        measure("asv.conf.json", "a", "b", rounds=0)


def test_configuration_and_revisions_are_found_or_named(tmp_path: Path) -> None:
    """The usual places; what is missing is named together with what to do."""
    with pytest.raises(MeasureError, match=r"no asv\.conf\.json in .*give --config"):
        find_config(tmp_path)
    git(tmp_path, "init", "-q")
    first = commit_file(tmp_path, "benchmarks/asv.conf.json", "{}")
    assert find_config(tmp_path).name == "asv.conf.json"
    assert resolve_commit(tmp_path, "HEAD") == first
    with pytest.raises(RepositoryError, match="'nowhere' is no commit of the repository"):
        resolve_commit(tmp_path, "nowhere")
    second = commit_file(tmp_path, "x", "1")
    assert merge_base(tmp_path, first, second) == first
    git(tmp_path, "checkout", "-q", "--orphan", "other")
    third = commit_file(tmp_path, "x", "2")
    assert merge_base(tmp_path, second, third) is None


def test_this_machine_is_called_as_asv_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single machine in ~/.asv-machine.json is this one; without the file the host's name stands."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr("platform.node", lambda: "host7")
    assert this_machine() == "host7"
    (tmp_path / ".asv-machine.json").write_text('{"m4-max": {"machine": "m4-max"}, "version": 1}')
    assert this_machine() == "m4-max"


def answer(
    outcome: str = "confirmed", measured_at: str = "2024-01-01", benchmark: str = "b.time_x"
) -> Confirmation:
    """A confirmation for machine m1."""
    return Confirmation(
        "m1", "e", benchmark, "", "1", outcome, "a", "b", "a", "b", 0.1, 0.08, 0.12, 20, measured_at
    )


def test_confirmations_survive_a_round_trip_and_replace_older_ones(tmp_path: Path) -> None:
    """The same candidate's newer rerun takes the older one's place; others and unknown lines stay."""
    (tmp_path / "m1").mkdir()
    write_confirmations(tmp_path, [answer("undecided"), answer(benchmark="b.time_y")])
    path = tmp_path / "m1" / FILE_NAME
    path.write_text(path.read_text() + "not json\n")
    write_confirmations(tmp_path, [answer("confirmed", "2024-02-02")])
    found, problems = read_confirmations(tmp_path)
    assert [(c.benchmark, c.outcome) for c in found] == [("b.time_y", "confirmed"), ("b.time_x", "confirmed")]
    assert len(problems) == 1
    assert "line 2: not a confirmation" in problems[0]
    assert [p.name for p in (tmp_path / "m1").iterdir()] == [FILE_NAME]


def test_confirmations_need_the_machines_folder(tmp_path: Path) -> None:
    """A machine without results has no confirmations."""
    with pytest.raises(FileNotFoundError, match="for the confirmations of machine 'm1'"):
        write_confirmations(tmp_path, [answer()])


def test_asv_takes_confirmations_for_no_results(tmp_path: Path) -> None:
    """asv's own walk over the results folder does not meet the file."""
    from asv.results import iter_results_paths

    folder = tmp_path / "m1"
    folder.mkdir()
    (folder / "machine.json").write_text('{"machine": "m1", "version": 1}')
    write_confirmations(tmp_path, [answer()])
    assert list(iter_results_paths(str(tmp_path))) == []


def test_candidates_are_this_machines_regressions() -> None:
    """Improvements, recovered ones and other machines' wait for nobody."""
    changes = change_points(history_frame(levels((40, 1.0), (20, 1.1), (40, 1.0), (40, 1.2))))
    waiting = candidates(changes, ["m1", "host7"])
    assert waiting["after"].tolist() == [commit_name(100)]
    assert candidates(changes, ["m2"]).empty


def test_selector_picks_one_parameter_set() -> None:
    """asv matches the benchmark with its parameters; special characters are no regular expression."""
    assert series_pattern("a.time_x", "") == r"^a\.time_x$"
    assert series_pattern("a.time_x", "'+', 3") == r"^a\.time_x\('\+',\ 3\)$"


def repository(tmp_path: Path, commits: int) -> list[str]:
    """A repository of so many commits, oldest first."""
    git(tmp_path, "init", "-q")
    return [commit_file(tmp_path, "code.py", f"x = {i}\n") for i in range(commits)]


def test_confirming_measures_and_narrows_to_the_commit(tmp_path: Path) -> None:
    """The range is measured at its ends, halved over unmeasured commits too, and ends at the culprit."""
    line = repository(tmp_path, 30)
    measured = line[::2]  # every other commit has results
    df = history_frame(levels((8, 1.0), (7, 1.1))).assign(commit=measured)
    changes = candidates(change_points(df), ["m1"])
    culprit = 15  # between two measured commits

    def take(config: Path, base: str, head: str, **options: Any) -> Rounds:
        assert options["environments"] == ["env1"]
        rows = []
        for number in range(options["rounds"]):
            for side, commit in (("base", base), ("head", head)):
                slow = 1.1 if line.index(commit) >= culprit else 1.0
                rows.append(value(side, number, slow * (1 + 0.001 * ((7 * number) % 5))))
        return Rounds(pd.DataFrame(rows))

    (found,) = confirm_changes(changes, config="c", repo=tmp_path, narrowing=True, measure_rounds=take)
    assert isinstance(found, Confirmation)
    assert found.outcome == "confirmed"
    assert (found.before, found.after) == (line[culprit - 1], line[culprit])
    again = change_points(df, confirmations=[found])
    assert again["state"].tolist() == ["confirmed"]
    assert line[culprit][:8] in again["note"].iloc[0]


def test_what_cannot_be_measured_again_is_said(tmp_path: Path) -> None:
    """A commit that the repository lacks, and an environment that will not build, do not stop the others."""
    repository(tmp_path, 2)
    changes = change_points(history_frame(levels((40, 1.0), (40, 1.1))))
    (found,) = confirm_changes(changes, config="c", repo=tmp_path)
    assert isinstance(found, NotMeasured)
    assert "lacks" in found.reason


def test_commits_between_follow_the_first_parents(tmp_path: Path) -> None:
    """Both ends and everything between; just the ends where one is not before the other."""
    line = repository(tmp_path, 5)
    assert commits_between(tmp_path, line[1], line[4]) == line[1:]
    assert commits_between(tmp_path, line[4], line[1]) == [line[4], line[1]]


def test_a_project_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The driver's error comes out as the event that ends the plan."""
    plan = {"config": str(tmp_path / "none" / "asv.conf.json"), "base": "a", "head": "b"}
    (event,) = [event for event in run_driver(plan) if event["event"] != "tick"]
    assert event["event"] == "error"
    assert f"No such file or directory: '{tmp_path}/none'" in event["message"]


def test_a_driver_that_dies_says_its_last_words(tmp_path: Path) -> None:
    """A plan that it cannot read: its traceback ends up in the error."""
    with pytest.raises(MeasureError, match=r"measuring ended with status 1: .*KeyError: 'config'"):
        list(run_driver({}))


SUITE = """
import tiny

class Work:
    params = [["a", "b"]]
    param_names = ["which"]
    number, repeat, warmup_time = 1, 4, 0

    def track_work(self, which):
        return tiny.COST[which]
    track_work.unit = "calls"

def track_broken():
    return tiny.MISSING
"""


def tiny_project(root: Path) -> list[str]:
    """An asv project of one module; three commits, the second one makes parameter b twice as dear."""
    git(root, "init", "-q")
    (root / "asv.conf.json").write_text(json.dumps(module_config("tiny")))
    (root / ".gitignore").write_text(".asv\n")
    commit_file(root, "benchmarks/__init__.py", "")
    commit_file(root, "benchmarks/suite.py", SUITE)
    return [
        commit_file(root, "tiny.py", f"COST = {{'a': 10, 'b': {cost}}}\n{more}")
        for cost, more in ((5, ""), (10, ""), (10, "raise ImportError('cannot')\n"))
    ]


def test_an_existing_interpreter_cannot_hold_two_commits(tmp_path: Path) -> None:
    """asv installs nothing there: the message says which setting to change."""
    first, second, _ = tiny_project(tmp_path)
    with pytest.raises(MeasureError, match=r"existing interpreter.*set environment_type"):
        measure(tmp_path / "asv.conf.json", first, second, rounds=1, environments=[f"existing:{sys.executable}"])


@pytest.mark.slow
def test_two_commits_of_a_real_project(tmp_path: Path) -> None:
    """asv builds both commits; the planted change is found, the failure named, a broken head is an error."""
    first, second, third = tiny_project(tmp_path)
    config = tmp_path / "asv.conf.json"
    frame = measure(config, first, second, rounds=4)
    assert len(frame.table) == 2 * 2 * 4
    assert not (tmp_path / "results").exists()
    assert any("track_broken failed on base" in text for text in frame.failures)
    rows = compare_rounds(frame.table, base=first, head=second).set_index("params")
    assert rows.loc["'b'", "change"] == pytest.approx(1.0)
    assert rows.loc["'b'", "verdict"] == "regression"
    assert rows.loc["'a'", "verdict"] == "no regression"
    with pytest.raises(OverBudgetError):
        measure(config, first, second, rounds=4, seconds=0.001)
    with pytest.raises(MeasureError, match="no benchmark matches nothing_like_it"):
        measure(config, first, second, bench=["nothing_like_it"], rounds=1)
    with pytest.raises(MeasureError, match=r"suite cannot be imported|not one value"):
        measure(config, second, third, bench=["track_work"], rounds=1)
