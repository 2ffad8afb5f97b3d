"""Merging shards and trees: nothing that is there is changed, and nothing is lost whatever happens."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from asv.results import Results
from result_trees import COLUMNS, commit, document, row, write_benchmarks, write_document, write_tree

from mlxcache import cli
from mlxcache.history import load
from mlxcache.history.merging.merge import STAGE_NAME, merge
from mlxcache.support import atomic
from mlxcache.support.folder_lock import LOCK_NAME, FolderBusyError, folder_lock

PACKAGE_ROOT = Path(__file__).parents[2]
NAN = float("nan")


def shard(root: Path, rows: dict[str, Any], **about: Any) -> Path:
    """A shard with one results file."""
    write_benchmarks(root, {name: {} for name in rows})
    write_document(root, document(rows, **about))
    return root


def snapshot(root: Path) -> dict[str, bytes]:
    """The tree's content by path, without what a merge may leave beside it."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and STAGE_NAME not in path.parts and path.name != LOCK_NAME
    }


def values(root: Path) -> dict[tuple[str, str], float]:
    """What the tree holds, by benchmark and parameters."""
    df = load(root)
    assert df.attrs["problems"] == []
    return dict(zip(zip(df.benchmark, df.params, strict=True), df.value, strict=True))


def test_disjoint_shards(tmp_path: Path) -> None:
    """Shards of one commit with different benchmarks become one file with all of them."""
    a = shard(tmp_path / "a", {"time_a": row([1.0])})
    b = shard(tmp_path / "b", {"time_b": row([2.0, 3.0], [["1", "2"]])})
    report = merge([a, b], tmp_path / "out")
    assert (report.added, report.joined, report.conflicts) == (1, 1, [])
    assert values(tmp_path / "out") == {("time_a", ""): 1.0, ("time_b", "1"): 2.0, ("time_b", "2"): 3.0}
    assert set(json.loads((tmp_path / "out/benchmarks.json").read_text())) == {"time_a", "time_b", "version"}
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")] == []


def test_shards_by_parameter(tmp_path: Path) -> None:
    """Parameters that one shard did not run (NaN) are filled from the shard that did, statistics included."""
    params = [["1", "2", "3"]]
    a = shard(tmp_path / "a", {"time_x": row([1.0, NAN, NAN], params)})
    b = shard(tmp_path / "b", {"time_x": row([NAN, 2.0, None], params)})
    report = merge([a, b], tmp_path / "out")
    assert report.conflicts == []
    df = load(tmp_path / "out")
    assert df.status.tolist() == ["ok", "ok", "failed"]
    assert df.value.tolist()[:2] == [1.0, 2.0]
    assert df.ci99_low.tolist()[:2] == [0.9, 1.8]
    assert load(tmp_path / "out", timing=True).duration.tolist() == [3.0] * 3


def test_same_values_are_fine(tmp_path: Path) -> None:
    """Merging what is there already changes nothing and is no conflict."""
    a = write_tree(tmp_path / "a")
    merge(a, tmp_path / "out")
    before = snapshot(tmp_path / "out")
    report = merge(a, tmp_path / "out")
    assert (report.added, report.joined, report.unchanged, report.conflicts) == (0, 0, 3, [])
    assert snapshot(tmp_path / "out") == before == snapshot(a)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (row([1.0, 9.0], [["1", "2"]]), "9.0 here and 2.0 there"),
        (row([1.0, None], [["1", "2"]]), "null here and 2.0 there"),
        (row([1.0, 2.0], [["1", "2"]], version="v2"), "\"version\" is 'v2' here and 'v1' there"),
        (row([1.0, 2.0], [["1", "3"]]), '"params" is'),
    ],
)
def test_conflicts(tmp_path: Path, other: list[Any], said: str) -> None:
    """What differs stays as it was and is reported with its row; the rest is merged all the same."""
    a = shard(tmp_path / "a", {"time_x": row([1.0, 2.0], [["1", "2"]])})
    b = shard(tmp_path / "b", {"time_x": other, "time_new": row([5.0])})
    report = merge([a, b], tmp_path / "out")
    assert [said in conflict.reason for conflict in report.conflicts] == [True]
    assert report.conflicts[0].file.endswith(".json")
    assert values(tmp_path / "out") == {("time_x", "1"): 1.0, ("time_x", "2"): 2.0, ("time_new", ""): 5.0}


def test_whole_trees(tmp_path: Path) -> None:
    """Trees of several machines and commits become one that has every file of each."""
    a = write_tree(tmp_path / "a")
    b = write_document(tmp_path / "b", document({"time_x": row([1.0])}, machine="m2", number=7)).parents[1]
    merge([a, b], tmp_path / "out")
    assert set(snapshot(tmp_path / "out")) == set(snapshot(a)) | set(snapshot(b))


def test_format_1_joins_format_2(tmp_path: Path) -> None:
    """A shard in asv's first format is joined with one in its second; asv itself reads the outcome."""
    a = shard(tmp_path / "a", {"time_x": row([1.0])})
    old = {
        **{key: value for key, value in document({}).items() if key not in ("result_columns", "durations")},
        "version": 1,
        "benchmark_version": {"time_old": "v0"},
        "started_at": {"time_old": 1_600_000_000_000},
        "duration": {"time_old": 2.0},
        "results": {
            "time_old": {
                "result": [3.0],
                "params": [],
                "stats": [{"ci_99": [2.0, 4.0], "q_25": 2.5, "q_75": 3.5, "number": 1, "repeat": 7}],
            }
        },
    }
    write_document(tmp_path / "b", old)
    merge([a, tmp_path / "b"], tmp_path / "out")
    path = next((tmp_path / "out/m1").glob("0*.json"))
    read = Results.load(str(path), machine_name="m1")
    assert read.get_result_value("time_old", []) == [3.0]
    assert read.get_result_stats("time_old", [])[0]["repeat"] == 7
    assert read.benchmark_version["time_old"] == "v0"
    assert read.get_result_value("time_x", []) == [1.0]


def test_asv_reads_the_outcome(tmp_path: Path) -> None:
    """asv loads a joined file and finds in it what both shards had, with NaN where nothing was run."""
    params = [["1", "2"], ["'a'"]]
    a = shard(tmp_path / "a", {"time_x": row([1.0, NAN], params), "track_y": [[4], [], "v1"]})
    b = shard(tmp_path / "b", {"time_z": row([NAN, 6.0], params, samples=[None, [5.0, 7.0]])})
    merge([a, b], tmp_path / "out")
    path = next((tmp_path / "out/m1").glob("0*.json"))
    read = Results.load(str(path), machine_name="m1")
    assert read.commit_hash == commit(1)
    first, second = read.get_result_value("time_x", params)
    assert first == 1.0
    assert math.isnan(second)
    assert read.get_result_samples("time_z", params) == [None, [5.0, 7.0]]
    assert read.get_result_value("track_y", []) == [4]
    assert json.loads(path.read_text())["result_columns"] == COLUMNS


def test_benchmarks_of_the_newest_commit_win(tmp_path: Path) -> None:
    """Where benchmarks.json differs, the tree with the newest commit says what the benchmark is."""
    for name, number in (("old", 1), ("new", 5)):
        write_benchmarks(tmp_path / name, {"time_x": {"version": name}})
        write_document(tmp_path / name, document({"time_x": row([1.0])}, number=number))
    merge([tmp_path / "old", tmp_path / "new"], tmp_path / "one")
    merge([tmp_path / "new", tmp_path / "old"], tmp_path / "two")
    for out in ("one", "two"):
        assert json.loads((tmp_path / out / "benchmarks.json").read_text())["time_x"]["version"] == "new"


def test_damaged_shard_costs_that_shard(tmp_path: Path) -> None:
    """A file that a dying runner cut short is reported and left out; the other shards are merged."""
    a = shard(tmp_path / "a", {"time_a": row([1.0])})
    b = shard(tmp_path / "b", {"time_b": row([2.0])}, number=2)
    cut = next((b / "m1").glob("0*.json"))
    cut.write_bytes(cut.read_bytes()[:100])
    report = merge([a, b], tmp_path / "out")
    assert [conflict.file for conflict in report.conflicts] == [str(cut)]
    assert values(tmp_path / "out") == {("time_a", ""): 1.0}


def test_damaged_target_is_left(tmp_path: Path) -> None:
    """A damaged file in the tree is never overwritten, and named."""
    a = shard(tmp_path / "a", {"time_a": row([1.0])})
    merge(a, tmp_path / "out")
    path = next((tmp_path / "out/m1").glob("0*.json"))
    path.write_bytes(b"{")
    report = merge(a, tmp_path / "out")
    assert [conflict.file for conflict in report.conflicts] == [str(path)]
    assert path.read_bytes() == b"{"


def test_other_machine_of_the_same_name_is_noted(tmp_path: Path) -> None:
    """A machine.json that says something else is kept as it was and noted, as runners of one name differ."""
    a = shard(tmp_path / "a", {"time_a": row([1.0])})
    b = shard(tmp_path / "b", {"time_b": row([1.0])})
    (b / "m1/machine.json").write_text(json.dumps({"machine": "m1", "cpu": "Apple M4", "version": 1}))
    report = merge([a, b], tmp_path / "out")
    assert report.conflicts == []
    assert any("Apple M4" in note for note in report.notes)
    assert json.loads((tmp_path / "out/m1/machine.json").read_text())["cpu"] == "Apple M1"


def test_overlapping_folders_are_refused(tmp_path: Path) -> None:
    """A shard that is the tree itself, or lies in it, is a mistake."""
    write_tree(tmp_path / "a")
    with pytest.raises(ValueError, match="overlap"):
        merge(tmp_path / "a", tmp_path / "a")
    with pytest.raises(ValueError, match="overlap"):
        merge(tmp_path / "a", tmp_path / "a" / "m1" / "inside")
    with pytest.raises(ValueError, match="overlap"):
        merge(tmp_path / "a/m1", tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="nothing at"):
        merge(tmp_path / "none", tmp_path / "out")


# Runs a merge and kills itself in the middle of the given call of os.replace, os.fsync or os.unlink.
KILLED = """
import os, signal, sys
from pathlib import Path
from mlxcache.history.merging.merge import merge
target, left, *shards = sys.argv[1:]
left = [int(left)]
def counted(call):
    def wrapper(*arguments, **named):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **named)
    return wrapper
for name in ("replace", "fsync", "unlink", "rmdir", "mkdir"):
    setattr(os, name, counted(getattr(os, name)))
merge(shards, target)
"""


def run_killed(target: Path, at: int, shards: list[Path]) -> int:
    """The exit status of a merge that is killed at its call number `at`."""
    command = [sys.executable, "-c", KILLED, str(target), str(at), *map(str, shards)]
    return subprocess.run(command, cwd=PACKAGE_ROOT, check=False, timeout=60).returncode


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Killed at any step on the disk, a merge leaves whole files, and the next one completes it."""
    base = write_tree(tmp_path / "base", commits=2)
    shards = [
        shard(tmp_path / "a", {"time_a": row([1.0])}),
        shard(tmp_path / "b", {"time_b": row([2.0])}),
        shard(tmp_path / "c", {"time_c": row([3.0])}, number=9),
    ]
    merge(base, tmp_path / "expected")
    original = snapshot(tmp_path / "expected")
    merge(shards, tmp_path / "expected")
    expected = snapshot(tmp_path / "expected")
    at = 0
    while True:
        at += 1
        out = tmp_path / f"out{at}"
        merge(base, out)
        status = run_killed(out, at, shards)
        state = snapshot(out)
        assert status in (0, -signal.SIGKILL)
        assert all(state[name] in (original.get(name), expected[name]) for name in state)
        assert original.keys() <= state.keys()
        merge(shards[:1], out)  # any next merge finishes or forgets, and then adds its own
        assert values(out).items() >= {(name, ""): 1.0 for name in ["time_a"]}.items()
        merge(shards, out)
        assert snapshot(out).keys() == expected.keys()
        assert values(out) == values(tmp_path / "expected")
        assert not (out / STAGE_NAME).exists()
        if status == 0:
            break
    assert at > 20


@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_full_disk_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], call: int
) -> None:
    """When the disk fills up, the tree is as it was, nothing is left beside it, and the command says why."""
    out = tmp_path / "out"
    merge(write_tree(tmp_path / "base"), out)
    before = snapshot(out)
    shards = [
        shard(tmp_path / "a", {"time_a": row([1.0])}),
        shard(tmp_path / "b", {"t": row([2.0])}, number=9),
    ]
    left = [call]
    real = os.fsync

    def full(descriptor: int) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(atomic.os, "fsync", full)
    assert cli.main(["merge", *map(str, shards), "--into", str(out)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert snapshot(out) == before
    assert [path.name for path in out.iterdir() if path.name.startswith(".")] == []


def test_two_merges_at_once(tmp_path: Path) -> None:
    """Merges that run at the same time take turns: the tree has the results of all of them."""
    shards = [shard(tmp_path / f"s{i}", {f"time_{i}": row([float(i)])}) for i in range(6)]
    code = "import sys; from mlxcache.cli import main; sys.exit(main(sys.argv[1:]))"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, "merge", str(path), "--into", str(tmp_path / "out")],
            cwd=PACKAGE_ROOT,
            stdout=subprocess.DEVNULL,
        )
        for path in shards
    ]
    assert [process.wait(timeout=120) for process in running] == [0] * 6
    assert values(tmp_path / "out") == {(f"time_{i}", ""): float(i) for i in range(6)}


def test_busy_tree(tmp_path: Path) -> None:
    """A merge that does not get its turn in time says which process is in the way and changes nothing."""
    a = write_tree(tmp_path / "a")
    out = tmp_path / "out"
    out.mkdir()
    with folder_lock(out, 0), pytest.raises(FolderBusyError, match=f"by process {os.getpid()}"):
        merge(a, out, wait_s=0)
    assert snapshot(out) == {}
    assert not (out / LOCK_NAME).exists()


def test_lock_file_of_a_dead_process(tmp_path: Path) -> None:
    """A lock file that a killed process left does not hold anybody up."""
    a = write_tree(tmp_path / "a")
    out = tmp_path / "out"
    out.mkdir()
    (out / LOCK_NAME).write_text("999999\n")
    assert merge(a, out, wait_s=0).added == 3


def test_changed_since_the_interruption(tmp_path: Path) -> None:
    """A file that was written after a merge was interrupted is not replaced when that merge is finished."""
    a = shard(tmp_path / "a", {"time_a": row([1.0])})
    out = tmp_path / "out"
    stage = out / STAGE_NAME
    stage.mkdir(parents=True)
    target = write_document(out, document({"time_own": row([7.0])}))
    (stage / "0.part").write_text(json.dumps(document({"time_stale": row([8.0])})))
    journal = [["0.part", str(target.relative_to(out)), None]]  # None: there was no such file then
    (stage / "journal.json").write_text(json.dumps(journal))
    report = merge(a, out)
    assert [conflict.file for conflict in report.conflicts] == [str(target)]
    assert values(out) == {("time_own", ""): 7.0, ("time_a", ""): 1.0}


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command's exit status is 0 without conflicts, 1 with, 2 if nothing could be done."""
    a = shard(tmp_path / "a", {"time_x": row([1.0])})
    b = shard(tmp_path / "b", {"time_x": row([2.0])})
    out = str(tmp_path / "out")
    assert cli.main(["merge", str(a), "--into", out]) == 0
    assert "1 files added" in capsys.readouterr().out
    assert cli.main(["merge", str(b), "--into", out]) == 1
    assert "time_x: 2.0 here and 1.0 there: left as it was" in capsys.readouterr().err
    assert cli.main(["merge", str(tmp_path / "none"), "--into", out]) == 2
    assert "nothing at" in capsys.readouterr().err
