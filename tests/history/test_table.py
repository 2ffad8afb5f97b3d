"""The table that `load` returns."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from result_trees import commit, count_values, document, row, write_benchmarks, write_document, write_tree

from mlxcache.history import load, series_keys
from mlxcache.history.loading import table

AGREED = [
    "machine", "commit", "commit_date", "env", "benchmark", "params", "version", "value", "unit",
    "ci99_low", "ci99_high", "n_samples", "status",
]  # fmt: skip


def test_columns_and_values(tmp_path: Path) -> None:
    """Each parameter set of each file is one row that carries its value, interval, unit and place."""
    df = load(write_tree(tmp_path / "results"))
    assert set(AGREED) | {"param_size", "param_kind"} <= set(df.columns)
    assert len(df) == 3 * 7
    assert df.attrs["problems"] == []
    one = df[(df.commit == commit(2)) & (df.param_size == 2) & (df.param_kind == "b")]
    assert one.value.tolist() == [2.4]
    assert one.params.tolist() == ["2, 'b'"]
    assert one.unit.tolist() == ["seconds"]
    assert one.ci99_low.iloc[0] < 2.4 < one.ci99_high.iloc[0]
    assert one.n_samples.tolist() == [10]
    assert one.status.tolist() == ["ok"]


def test_order_is_the_commits(tmp_path: Path) -> None:
    """Rows come in commit order, and without a repository the frame says that dates decide."""
    df = load(write_tree(tmp_path))
    assert df.commit_index.is_monotonic_increasing
    assert df.commit.cat.categories.tolist() == [commit(1), commit(2), commit(3)]
    assert list(df.facts.notices) == ["commits are ordered by date: no repository given"]


def test_new_version_new_series(tmp_path: Path) -> None:
    """A benchmark whose version changed starts a new series."""
    for number, version in enumerate(["a", "a", "b"], 1):
        write_document(tmp_path, document({"time_x": row([1.0], version=version)}, number=number))
    df = load(tmp_path)
    assert df.groupby("series").size().tolist() == [2, 1]


def test_machines_and_environments_stay_apart(tmp_path: Path) -> None:
    """The same commit in two environments and on two machines makes four series."""
    for machine in ("m1", "m2"):
        for env in ("e1", "e2"):
            write_document(tmp_path, document({"time_x": row([1.0])}, machine=machine, env=env))
    df = load(tmp_path)
    assert df.series.nunique() == 4
    assert set(zip(df.machine, df.env, strict=True)) == {
        ("m1", "e1"), ("m1", "e2"), ("m2", "e1"), ("m2", "e2")
    }  # fmt: skip


def test_failed_and_skipped(tmp_path: Path) -> None:
    """null is failed and NaN is skipped, and neither has a value."""
    write_document(tmp_path, document({"time_x": row([1.0, None, float("nan")], [["1", "2", "3"]])}))
    df = load(tmp_path)
    assert df.status.tolist() == ["ok", "failed", "skipped"]
    assert df.value.isna().tolist() == [False, True, True]


def test_null_row_fails_every_parameter(tmp_path: Path) -> None:
    """A row of null stands for one failure a parameter set, as asv shortens it."""
    write_document(tmp_path, document({"time_x": row(None, [["1", "2"], ["3", "4"]])}))
    assert load(tmp_path).status.tolist() == ["failed"] * 4


def test_series_keys(tmp_path: Path) -> None:
    """series_keys says what each number in the column series means and how many values it has."""
    df = load(write_tree(tmp_path))
    keys = series_keys(df)
    assert keys.index.tolist() == sorted(df.series.unique())
    assert keys.n.tolist() == [3] * 7
    plain = keys[keys.benchmark == "mod.time_plain"]
    assert plain.params.tolist() == [""]


def test_samples_on_request(tmp_path: Path) -> None:
    """samples=True adds each value's samples, None where none were kept; quartiles and timing likewise."""
    kept = row([1.0, 2.0], [["1", "2"]], samples=[[0.9, 1.1], None])
    write_document(tmp_path, document({"time_x": kept}))
    df = load(tmp_path, samples=True, quartiles=True, timing=True)
    np.testing.assert_array_equal(df.samples[0], [0.9, 1.1])
    assert df.samples[1] is None
    assert (df.q_25 < df.value).all()
    assert df.started_at.tolist() == [pd.Timestamp("2023-11-14 22:13:20")] * 2
    assert df.duration.tolist() == [1.5, 1.5]
    assert "samples" not in load(tmp_path).columns


def test_benchmarks_filter(tmp_path: Path) -> None:
    """Only benchmarks that the regular expression finds are loaded, and only their parameters get columns."""
    df = load(write_tree(tmp_path), benchmarks="plain")
    assert set(df.benchmark) == {"mod.time_plain"}
    assert not [name for name in df.columns if name.startswith("param_")]
    with pytest.raises(ValueError, match="no regular expression"):
        load(tmp_path, benchmarks="(")


def test_no_benchmark_matches(tmp_path: Path) -> None:
    """A filter that nothing passes gives an empty table and no error."""
    df = load(write_tree(tmp_path), benchmarks="no_such_benchmark")
    assert df.empty
    assert "value" in df.columns


def test_param_columns(tmp_path: Path) -> None:
    """The parameters that get columns can be named; an unknown name is an error that lists the known."""
    write_tree(tmp_path)
    assert [n for n in load(tmp_path, param_columns=["kind"]).columns if n.startswith("param_")] == ["param_kind"]
    with pytest.raises(ValueError, match=r"'sise'; there are: kind, size"):
        load(tmp_path, param_columns=["sise"])


def test_numbers_sort_as_numbers(tmp_path: Path) -> None:
    """Categories of a parameter that is numeric are in the order of its numbers."""
    write_benchmarks(tmp_path, {"time_x": {"params": [["10", "9"]], "param_names": ["n"], "version": "v1"}})
    write_document(tmp_path, document({"time_x": row([1.0, 2.0], [["10", "9"]])}))
    assert sorted(load(tmp_path).param_n.unique().tolist()) == [9, 10]


def test_copies_share_the_problems(tmp_path: Path) -> None:
    """Operations on the frame do not copy the list of problems."""
    write_document(tmp_path, document({"time_x": row([1.0, 2.0])}))
    df = load(tmp_path)
    assert df.attrs["problems"]
    assert df.head(0).attrs["problems"] is df.attrs["problems"]


def test_every_value_is_in_the_table_or_a_problem(tmp_path: Path) -> None:
    """The values in the table and those that problems account for add up to an independent count."""
    write_tree(tmp_path)
    rows = {
        "time_short": row([1.0, 2.0], [["1", "2", "3"]]),
        "time_text": row([1.0, "fast"], [["1", "2"]]),
        "time_good": row([1.0, None], [["1", "2"]]),
        "time_params": [[1.0], "12"],
    }
    write_document(tmp_path, document(rows, number=9))
    df = load(tmp_path)
    total = sum(count_values(path) for path in tmp_path.glob("m1/0*.json"))
    assert len(df) + df.attrs["problems"].n_values == total
    assert {problem.row for problem in df.attrs["problems"]} == {"time_short", "time_text", "time_params"}


def test_too_many_param_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where columns for all parameters would take too much memory there are none, and a notice says so."""
    monkeypatch.setattr(table, "PARAM_COLUMNS_BYTES", 10)
    df = load(write_tree(tmp_path))
    assert not [name for name in df.columns if name.startswith("param_")]
    assert "name those you need in param_columns" in df.facts.notices[-1]
    assert {"param_size", "param_kind"} <= set(load(tmp_path, param_columns=True).columns)


def test_frames_can_be_copied_and_pickled(tmp_path: Path) -> None:
    """A frame survives pandas' copies and pickle with all that is known beside it."""
    df = load(write_tree(tmp_path))
    again = pickle.loads(pickle.dumps(df.copy()))
    pd.testing.assert_frame_equal(again, df)
    assert again.facts == df.facts == df[df.benchmark != ""].facts
    assert again.attrs == df.attrs
