"""Runners that die, disks that are full: a shard costs itself only, and nothing is half there."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mlxcache.cli import main
from tests.history.result_trees import write_tree
from tests.tiny_project import EXISTING, commit, make_project

pytestmark = pytest.mark.usefixtures("own_home")

# The last one never ends: whoever runs it has to be killed.
ENDLESS = """
import time

def time_a(): sum(range(10))
def time_b(): sum(range(10))
def time_c(): sum(range(10))
def time_z(): time.sleep({seconds})

for _f in (time_a, time_b, time_c, time_z):
    _f.number, _f.repeat, _f.warmup_time, _f.rounds, _f.timeout = 1, 2, 0, 1, 600
"""


def test_a_runner_that_is_killed_costs_its_shard_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What it had finished is whole, joins with the other shards, and the gap is seen and filled."""
    project = make_project(tmp_path / "project", ENDLESS.format(seconds=0))
    monkeypatch.chdir(project)
    assert main(["bench", *EXISTING, "--results", "tree"]) == 0
    commit(project, "second", tiny_py="VALUE = 2\n")
    (project / "benchmarks" / "bench.py").write_text(ENDLESS.format(seconds=600))
    command = [sys.executable, "-m", "mlxcache.cli", "bench", *EXISTING, "--results", "dying"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as run:
        deadline = time.monotonic() + 60
        while _benchmarks(project / "dying") != {"bench.time_a", "bench.time_b", "bench.time_c"}:
            assert time.monotonic() < deadline, "the run never got to its last benchmark"
            time.sleep(0.05)
        os.killpg(run.pid, signal.SIGKILL)
    assert main(["doctor", "dying"]) == 0
    assert main(["merge", "dying", "--into", "tree"]) == 0
    capfd.readouterr()
    assert main(["coverage", "--results", "tree"]) == 0
    assert "1 in part" in capfd.readouterr().out
    (project / "benchmarks" / "bench.py").write_text(ENDLESS.format(seconds=0))
    assert main(["bench", *EXISTING, "--results", "tree", "--skip-existing-successful"]) == 0
    assert _benchmarks(project / "tree", 2) == {f"bench.time_{letter}" for letter in "abcz"}
    # And once there is nothing left to measure, that is no failure.
    assert main(["bench", *EXISTING, "--results", "tree", "--skip-existing-successful"]) == 0
    assert "everything was measured already" in capfd.readouterr().err


def _benchmarks(results: Path, files: int = 1) -> set[str]:
    """The benchmarks of the newest results file, which must be whole whenever it is looked at."""
    found = sorted(results.glob("*/*-existing*.json"), key=lambda path: path.stat().st_mtime_ns)
    return set(json.loads(found[-1].read_bytes())["results"]) if len(found) >= files else set()


def full_disk(*_: Any, **__: Any) -> None:
    """What os.replace says there."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("form", ["pytorch", "bencher", "otava"])
def test_a_full_disk_stops_an_export_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    """Status 2 with the reason, the older file untouched, nothing beside it."""
    write_tree(tmp_path / "results")
    out = tmp_path / "out"
    out.mkdir()
    older = out / "export"
    if form != "otava":
        older.write_text("older")
    monkeypatch.setattr("os.replace", full_disk)
    monkeypatch.setattr("pathlib.Path.replace", full_disk)
    assert main(["export", "--results", str(tmp_path / "results"), "--format", form, "--out", str(older)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ([] if form == "otava" else ["export"])
    assert form == "otava" or older.read_text() == "older"


def test_a_full_disk_after_the_run_leaves_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Status 2 says that the measuring itself is complete."""
    project = make_project(tmp_path / "project")
    monkeypatch.chdir(project)
    monkeypatch.setattr("mlxcache.commands.bench.collect", full_disk)
    assert main(["bench", *EXISTING, "--collect", "shard"]) == 2
    told = capfd.readouterr().err
    assert "No space left on device; the results of this run are complete in" in told
    assert "bench.time_sum" in _benchmarks(project / "results")


def test_collected_shards_are_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run's own files, the machine, the suite and the record, and no other commit's."""
    project = make_project(tmp_path / "project")
    monkeypatch.chdir(project)
    assert main(["bench", *EXISTING]) == 0
    second = commit(project, "second", tiny_py="VALUE = 2\n")
    assert main(["bench", *EXISTING, "--collect", "shard"]) == 0
    names = {path.name for path in (project / "shard").rglob("*") if path.is_file()}
    (result,) = names - {"machine.json", "benchmarks.json", "runs.jsonl"}
    assert result.startswith(second[:8])
    assert {"machine.json", "benchmarks.json", "runs.jsonl"} < names
