"""Records beside results: merged line by line, damage named and never spread."""

from __future__ import annotations

import json
import signal
from dataclasses import asdict
from pathlib import Path

import pytest
from result_trees import write_tree
from test_merge import run_killed

from mlxcache import cli
from mlxcache.history.changes.confirmations import FILE_NAME, Confirmation, read_confirmations, write_confirmations
from mlxcache.history.merging.merge import merge
from mlxcache.history.merging.records import RUNS, join_lines
from mlxcache.support.folder_lock import LOCK_NAME

SAID = Confirmation(
    "m1", "e", "b.time_x", "", "1", "confirmed", "a", "b", "a", "b", 0.1, 0.09, 0.11, 20, "2025-01-01T00:00:00"
)


def line(number: int) -> bytes:
    """A record that tells its number."""
    return json.dumps({"finished": f"2025-01-0{number}", "status": 0}).encode() + b"\n"


def test_the_union_keeps_order_and_holds_each_line_once() -> None:
    """What is there stays first; the same facts in another layout are the same line."""
    first, second = line(2) + line(1), line(1) + b'{"status":0,  "finished": "2025-01-02"}\n\n' + line(3) + line(3)
    joined = join_lines(first, second)
    assert (joined.data, joined.added, joined.damaged) == (first + line(3), 1, [])
    assert join_lines(first, line(1)).data is None


def test_damage_is_kept_out_and_swallows_no_line() -> None:
    """A line that was cut short is named where it comes from; behind one in the tree a new line is begun."""
    joined = join_lines(line(1)[:-9], line(2) + b'{"half": \n[1]\n\xff\xfe\n' + line(3))
    assert joined.data == line(1)[:-9] + b"\n" + line(2) + line(3)
    assert joined.damaged == [2, 3, 4]


def test_merge_carries_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs and confirmations of both trees are in the merged one; damage is a conflict with its line."""
    a, b = write_tree(tmp_path / "a"), write_tree(tmp_path / "b")
    (a / "m1" / RUNS).write_bytes(line(1) + line(2))
    (b / "m1" / RUNS).write_bytes(line(2) + b"damage\n" + line(3))
    write_confirmations(b, [SAID])
    assert cli.main(["merge", str(a), str(b), "--into", str(tmp_path / "out")]) == 1
    said = capsys.readouterr()
    assert f"conflict: {b}/m1/{RUNS}: line 2: not merged: not a JSON object" in said.err
    assert "4 records added, 1 conflicts" in said.out
    assert (tmp_path / "out/m1" / RUNS).read_bytes() == line(1) + line(2) + line(3)
    assert read_confirmations(tmp_path / "out") == ([SAID], [])
    before = (tmp_path / "out/m1" / RUNS).stat().st_mtime_ns
    assert merge([a], tmp_path / "out").records == 0
    assert (tmp_path / "out/m1" / RUNS).stat().st_mtime_ns == before


def test_a_folder_of_records_alone_is_carried_too(tmp_path: Path) -> None:
    """A machine whose every run failed has a record and no result."""
    a = write_tree(tmp_path / "a")
    (a / "m2").mkdir()
    (a / "m2" / RUNS).write_bytes(line(1))
    merge(a, tmp_path / "out")
    assert (tmp_path / "out/m2" / RUNS).read_bytes() == line(1)


def test_killed_at_any_moment_no_record_is_lost(tmp_path: Path) -> None:
    """The file holds the old lines or all of them, and the next merge brings the rest."""
    base, more = write_tree(tmp_path / "base", commits=1), write_tree(tmp_path / "more", commits=1)
    (base / "m1" / RUNS).write_bytes(line(1))
    (more / "m1" / RUNS).write_bytes(line(2))
    at, status = 0, -1
    while status != 0:
        at += 1
        out = tmp_path / f"out{at}"
        merge(base, out)
        status = run_killed(out, at, [more])
        assert status in (0, -signal.SIGKILL)
        assert (out / "m1" / RUNS).read_bytes() in (line(1), line(1) + line(2))
        merge(more, out)
        assert (out / "m1" / RUNS).read_bytes() == line(1) + line(2)
    assert at > 5


def test_doctor_names_damaged_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with file, line and reason; a tree with nothing else wrong has exit status 1."""
    write_tree(tmp_path)
    (tmp_path / "m1" / RUNS).write_bytes(line(1) + b"{]\n")
    (tmp_path / "m1" / FILE_NAME).write_text(json.dumps({**asdict(SAID), "pairs": "many"}) + "\n")
    assert cli.main(["doctor", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert f"{tmp_path}/m1/{RUNS}: line 2: not a JSON object: it is ignored; delete or mend it" in out
    assert f"{tmp_path}/m1/{FILE_NAME}: line 1: not a confirmation" in out
    assert "2 problems in 2 files" in out


def test_writing_a_confirmation_leaves_no_lock(tmp_path: Path) -> None:
    """It waits for a merge into the same tree, and leaves the record alone behind."""
    write_tree(tmp_path)
    write_confirmations(tmp_path, [SAID])
    assert not (tmp_path / LOCK_NAME).exists()
