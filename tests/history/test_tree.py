"""Finding results in whatever folder the user points at."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from result_trees import commit, document, row, write_benchmarks, write_document, write_tree

from mlxcache.history import load


def test_two_roots_and_a_folder_above(tmp_path: Path) -> None:
    """Several roots, or one folder above them, give the same table; a root named twice counts once."""
    a, b = write_tree(tmp_path / "a/results"), tmp_path / "b/.asv/results"
    write_benchmarks(b, {"time_b": {}})
    write_document(b, document({"time_b": row([1.0])}, machine="m2"))
    both = load([a, b])
    assert len(both) == 22
    assert len(load(tmp_path)) == 22
    assert len(load([tmp_path, a, str(b), b / "m2"])) == 22
    assert len(load(b / "m2")) == 1


def test_what_is_no_result_is_left_alone(tmp_path: Path) -> None:
    """Configuration, pages and packages beside the results are not taken for results."""
    write_tree(tmp_path / "results")
    for path in (
        "asv.conf.json",
        "package.json",
        "node_modules/x/0123abcd-x.json",
        ".asv/html/graphs/a.json",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{")
    df = load(tmp_path)
    assert df.attrs["problems"] == []
    assert len(df) == 21


def test_json_beside_results_is_reported(tmp_path: Path) -> None:
    """Any other .json file in a machine's folder is a problem, as a lost result may have any name."""
    write_tree(tmp_path)
    (tmp_path / "m1/notes.json").write_text('{"a": 1}')
    assert [problem.file for problem in load(tmp_path).attrs["problems"]] == [str(tmp_path / "m1/notes.json")]


@pytest.mark.parametrize("content", [None, "null", "[]", "{", '{"machine": null}', '{"machine": 5}', "\ufeff{}"])
def test_machine_json(tmp_path: Path, content: str | None) -> None:
    """Without a usable machine.json results are kept under the name that they carry; it is reported."""
    write_tree(tmp_path)
    path = tmp_path / "m1/machine.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    df = load(tmp_path)
    assert set(df.machine) == {"m1"}
    assert len(df) == 21
    assert [problem.file for problem in df.attrs["problems"]] == [str(path)]


def test_machine_of_another_name(tmp_path: Path) -> None:
    """A file of another machine than its folder's stays that machine's, and is reported."""
    write_tree(tmp_path)
    path = tmp_path / "m1/0000000f-e.json"
    path.write_text(json.dumps(document({"time_x": row([1.0])}, number=15, machine="other")))
    df = load(tmp_path)
    assert df[df.file == str(path)].machine.tolist() == ["other"]
    assert [problem.file for problem in df.attrs["problems"]] == [str(path)]


def test_missing_benchmarks_json(tmp_path: Path) -> None:
    """Without benchmarks.json units follow from names, parameters are numbered, and it is reported."""
    write_tree(tmp_path)
    (tmp_path / "benchmarks.json").unlink()
    df = load(tmp_path)
    assert set(df.unit) == {"seconds"}
    assert {"param_param1", "param_param2"} <= set(df.columns)
    assert [problem.file for problem in df.attrs["problems"]] == [str(tmp_path / "benchmarks.json")]


def test_same_values_twice_count_once(tmp_path: Path) -> None:
    """A file that is in two trees counts once, and the table and the problems account for both."""
    a, b = write_tree(tmp_path / "a"), write_tree(tmp_path / "b")
    df = load([a, b])
    assert len(df) == 21
    assert df.attrs["problems"].n_values == 21


def test_different_values_are_both_kept(tmp_path: Path) -> None:
    """Two trees that measured the same differently keep both values, and that is reported."""
    for name, value in (("a", 1.0), ("b", 2.0)):
        write_benchmarks(tmp_path / name, {"time_x": {}})
        write_document(tmp_path / name, document({"time_x": row([value])}))
    df = load(tmp_path)
    assert df.value.tolist() == [1.0, 2.0]
    assert df.series.nunique() == 1
    assert "but differ: both are kept" in df.attrs["problems"][0].reason


def test_unreadable_and_special_files(tmp_path: Path) -> None:
    """A pipe with a result's name is not waited for, and a link to nothing is reported."""
    write_tree(tmp_path)
    os.mkfifo(tmp_path / "m1/0000000e-pipe.json")
    (tmp_path / "m1/0000000f-link.json").symlink_to(tmp_path / "nowhere")
    df = load(tmp_path)
    assert [problem.reason for problem in df.attrs["problems"]] == ["not a regular file"] * 2
    assert len(df) == 21


def test_nothing_there(tmp_path: Path) -> None:
    """An empty folder gives an empty table with all columns and a notice; no folder is an error."""
    df = load(tmp_path)
    assert df.empty
    assert {"machine", "value", "status", "series"} <= set(df.columns)
    assert list(df.facts.notices) == [f"no result files were found in {tmp_path}"]
    with pytest.raises(FileNotFoundError, match="nothing at"):
        load(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="is a file"):
        load(tmp_path / "file")
    with pytest.raises(ValueError, match="got no path"):
        load([])


def test_unknown_version_is_the_current_one(tmp_path: Path) -> None:
    """Old results without a version go on in the series of the current version, as in asv."""
    write_benchmarks(tmp_path, {"time_x": {"version": "now"}})
    for number, version in enumerate([None, "now"], 1):
        write_document(tmp_path, document({"time_x": row([1.0], version=version)}, number=number))
    df = load(tmp_path)
    assert df.version.tolist() == ["now", "now"]
    assert df.series.nunique() == 1
    assert df.commit.tolist() == [commit(1), commit(2)]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """Machines and files with names that are no valid Unicode are read and can be printed."""
    write_tree(tmp_path)
    path = tmp_path / "m1/machine.json"
    path.write_text(json.dumps({"machine": "m\ud800", "cpu": "\ud801"}))
    try:
        source = tmp_path / "m1/00000001-venv-py3.12.json"
        source.rename(tmp_path / os.fsdecode(b"m1/00000001-\xff.json"))
    except OSError:  # macOS takes no such names
        pytest.skip("the file system does not allow such names")
    df = load(tmp_path)
    assert len(df) == 21
    df.to_string().encode()
    "\n".join(map(str, df.attrs["problems"])).encode()
