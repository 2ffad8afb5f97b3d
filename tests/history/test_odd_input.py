"""Input of any kind, depth and size is one problem that names the file, and nothing else is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from result_trees import document, row, write_benchmarks, write_document, write_tree

from mlxcache.cli import main
from mlxcache.history import load
from mlxcache.history.loading.history import History
from tools.fuzz_input import COMMANDS, fuzz


def named(tree: Path) -> list[str]:
    """The files that have problems, once each."""
    return sorted({Path(problem.file).name for problem in load(tree).attrs["problems"]})


@pytest.mark.parametrize("name", ["m1/machine.json", "benchmarks.json", "m1/00000002-venv-py3.12.json"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "loop", "huge"])
def test_other_kinds_of_files(tmp_path: Path, name: str, kind: str) -> None:
    """A pipe is not waited for, terabytes are not read, a folder or a loop is named; the rest is read."""
    path = write_tree(tmp_path) / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    else:
        with path.open("wb") as file:
            file.truncate(1 << 42)
    df = load(tmp_path)
    assert len(df) == (14 if path.name.startswith("0000") else 21)
    assert named(tmp_path) == [path.name]


@pytest.mark.parametrize("name", ["confirmations.jsonl", "runs.jsonl"])
def test_records_that_are_pipes(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No command waits for the records beside the results."""
    tree = write_tree(tmp_path / "tree")
    os.mkfifo(tree / "m1" / name)
    assert main(["doctor", str(tree)]) in (0, 1)
    assert main(["regressions", "--results", str(tree)]) != 2
    assert main(["merge", str(tree), "--into", str(tmp_path / "new")]) in (0, 1)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("depth", [100, 500, 990, 1_010, 3_000, 200_000])
@pytest.mark.parametrize("name", ["m1/machine.json", "benchmarks.json", "m1/00000002-venv-py3.12.json"])
@pytest.mark.parametrize("ends", ['{"a":}', "[]"])
def test_nesting_of_any_depth(tmp_path: Path, name: str, depth: int, ends: str) -> None:
    """What nobody reads may be nested as it likes, or is one problem; nothing else is lost."""
    path = write_tree(tmp_path) / name
    nested = ends[:-1] * depth + "1" + ends[-1] * depth
    path.write_text(path.read_text().rstrip().removesuffix("}") + f', "strange": {nested}}}')
    df = load(tmp_path)
    assert set(named(tmp_path)) <= {path.name}
    lost = 7 if named(tmp_path) == [path.name] and path.name.startswith("0000") else 0
    assert len(df) == 21 - lost
    facts = History.of(df)
    assert str(facts.machines) + str(facts.benchmarks)


def with_a_flipped_bit(root: Path, field: str) -> Path:
    """A tree at `root`, and its file in which the byte after `field` is damaged."""
    path = write_tree(root) / "m1/00000002-venv-py3.12.json"
    data = path.read_bytes()
    at = data.index(field.encode()) + len(field)
    path.write_bytes(data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :])
    return path


@pytest.mark.parametrize("field", ['"commit_hash": "', '"env_name": "', '"machine": "'])
def test_a_damaged_name_does_not_reach_the_table(tmp_path: Path, field: str) -> None:
    """A flipped bit in what gives a file its place leaves the file out, with a reason; all text stays valid."""
    path = with_a_flipped_bit(tmp_path, field)
    df = load(tmp_path)
    assert named(tmp_path) == [path.name]
    assert sum(problem.n_values for problem in df.attrs["problems"]) == 7
    for column in ("machine", "env", "commit", "file"):
        "".join(df[column].cat.categories).encode()
    assert len(df.merge(df[["env", "commit"]].drop_duplicates(), on=["env", "commit"])) == len(df) == 14


@pytest.mark.parametrize("field", ['"python": "', '"cpu": "', '"arch": "'])
def test_damaged_facts_stay_readable(tmp_path: Path, field: str) -> None:
    """What a file says of interpreter and machine may be damaged: its values stay, all text can be encoded."""
    path = with_a_flipped_bit(tmp_path, field)
    df = load(tmp_path)
    assert named(tmp_path) == [path.name]
    assert len(df) == 21
    df.to_string().encode()


def test_a_damaged_machine_name_is_one_problem(tmp_path: Path) -> None:
    """It is machine.json that is named, not every file beside it."""
    path = write_tree(tmp_path) / "m1/machine.json"
    path.write_bytes(path.read_bytes().replace(b'"m1"', b'"m\xb1"'))
    assert named(tmp_path) == ["machine.json"]
    assert set(load(tmp_path)["machine"]) == {"m1"}


@pytest.mark.parametrize("version", [1, 2])
def test_one_null_for_all_parameters(tmp_path: Path, version: int) -> None:
    """A single null where a benchmark has several parameter sets is a failure of each of them."""
    content = document({"time_p": row([None], [["1", "2", "3"]])[:5]}, version=version)
    if version == 1:
        content["results"] = {"time_p": {"params": [["1", "2", "3"]], "result": [None]}}
        del content["result_columns"]
    write_benchmarks(tmp_path, {"time_p": {"params": [["1", "2", "3"]], "param_names": ["n"]}})
    write_document(tmp_path, content)
    df = load(tmp_path)
    assert df["status"].tolist() == ["failed"] * 3
    assert not df.attrs["problems"]


def test_two_projects_in_one_tree_are_read_each_by_its_own(tmp_path: Path) -> None:
    """One name, two meanings: unit, version and parameter names are of the folder's own benchmarks.json."""
    for project, unit, name in (("a", "seconds", "size"), ("b", "bytes", "shape")):
        entry = {"unit": unit, "params": [["1"]], "param_names": [name], "version": f"v-{project}"}
        write_benchmarks(tmp_path / project, {"track_x": entry})
        content = document({"track_x": row([1.0], [["1"]], None)}, machine=f"m-{project}")
        write_document(tmp_path / project, content)
    df = load(tmp_path)
    assert df[["machine", "unit", "version"]].astype(str).to_numpy().tolist() == [
        ["m-a", "seconds", "v-a"],
        ["m-b", "bytes", "v-b"],
    ]
    assert df["param_size"].tolist()[0] == 1 == df["param_shape"].tolist()[1]
    assert df[["param_size", "param_shape"]].isna().sum().tolist() == [1, 1]
    [problem] = df.attrs["problems"]
    assert problem.file == str(tmp_path / "b/benchmarks.json")
    assert "track_x" in problem.reason


def test_folders_that_say_the_same_share_their_series(tmp_path: Path) -> None:
    """Two shards of one project are one history, and no problem."""
    for shard in ("a", "b"):
        write_benchmarks(tmp_path / shard, {"track_x": {"unit": "ops/s", "version": "v1"}})
        write_document(tmp_path / shard, document({"track_x": row([1.0])}, number=ord(shard)))
    df = load(tmp_path)
    assert df["series"].nunique() == 1
    assert not df.attrs["problems"]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_damage_at_random(tmp_path: Path, command: str) -> None:
    """A short run of tools/fuzz_input.py: each command ends with a status of its own and loses nothing else."""
    rates = {
        "m.track_a": {"unit": "ops/s", "type": "track"},
        "m.time_b": {"params": [["1", "2"]], "param_names": ["n"]},
    }
    write_benchmarks(tmp_path / "tree", rates)
    for number in range(3):
        sized_row = row([1.0, 2.0], [["1", "2"]], samples=[[1.0], [2.0]])
        rows = {"m.track_a": row([2.0]), "m.time_b": sized_row}
        write_document(tmp_path / "tree", document(rows, number=number))
    total, wrong = fuzz([tmp_path / "tree"], [command], copies=48, seed=7)
    assert total >= 48
    assert not wrong
