"""Exports read back as their consumers read them: PyTorch's columns, the action's fields, BMF, Otava, Parquet."""

from __future__ import annotations

import csv
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mlxcache import cli
from mlxcache.history import load
from tests import required
from tests.history.result_trees import commit, document, row, write_benchmarks, write_document

# Columns of the table behind hud.pytorch.org (oss_ci_benchmark_v3) that a record fills.
PYTORCH = {
    "benchmark": {"name": str, "mode": str, "dtype": str, "extra_info": dict},
    "model": {"name": str, "type": str, "backend": str, "origins": list},
    "metric": {
        "name": str, "unit": str, "benchmark_values": list, "target_value": float, "extra_info": dict
    },
    "runners": list,
    "dependencies": dict,
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps parsed files out of the user's cache."""
    monkeypatch.setenv("MLXCACHE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Three commits of one machine: times with a dtype, memory, a rate; one series starts at the second commit."""
    root = tmp_path / "results"
    types = [["'float16'", "'int4'"]]
    write_benchmarks(
        root,
        {
            "a.time_step": {"params": types, "param_names": ["kv_dtype"], "version": "v1"},
            "a.peakmem_load": {"unit": "bytes", "type": "peakmemory"},
            "a.track_rate": {"unit": "tokens/s", "type": "track"},
            "a.time_new": {},
            "a.time_skips": {},
        },
    )
    for number in (1, 2, 3):
        rows: dict[str, Any] = {
            "a.time_step": row([0.001 * number, 0.002 * number], types),
            "a.peakmem_load": row([1000.0 * number]),
            "a.track_rate": row([50.0]),
            "a.time_skips": row([float("nan")]),
        }
        if number > 1:
            rows["a.time_new"] = row([0.5])
        write_document(root, document(rows, number=number))
    return root


def export(results: Path, form: str, out: Path, *more: str) -> int:
    """Run the command."""
    return cli.main(["export", "--results", str(results), "--format", form, "--out", str(out), *more])


def test_pytorch_records_have_the_databases_columns(results: Path, tmp_path: Path) -> None:
    """Every field has the type that the table wants; times are microseconds; skipped ones are no record."""
    assert export(results, "pytorch", tmp_path / "out.json", "--project", "tiny") == 0
    records = json.loads((tmp_path / "out.json").read_text())
    assert len(records) == 5
    for record in records:
        assert record.keys() == PYTORCH.keys()
        for name, fields in PYTORCH.items():
            if not isinstance(fields, dict):
                assert isinstance(record[name], fields)  # type: ignore[arg-type]
                continue
            assert {
                field for field, kind in fields.items() if not isinstance(record[name].get(field), kind)
            } == set()
            extra = record[name].get("extra_info", {})
            assert all(isinstance(text, str) for pair in extra.items() for text in pair)
        assert all(isinstance(value, float) for value in record["metric"]["benchmark_values"])
    step = next(r for r in records if r["model"]["name"] == "a.time_step('int4')")
    assert step["benchmark"]["dtype"] == "int4"
    assert step["metric"]["name"] == "latency"
    assert step["metric"]["unit"] == "us"
    assert step["metric"]["benchmark_values"] == pytest.approx([6000.0])
    assert step["model"]["origins"] == ["tiny"]
    assert step["runners"][0]["cpu_info"] == "Apple M1"
    rate = next(r for r in records if r["model"]["name"] == "a.track_rate")
    assert rate["metric"]["extra_info"]["higher_is_better"] == "true"


def test_a_commit_can_be_chosen(results: Path, tmp_path: Path) -> None:
    """Of the first commit, which has no time_new."""
    assert export(results, "pytorch", tmp_path / "out.json", "--commit", commit(1)) == 0
    assert len(json.loads((tmp_path / "out.json").read_text())) == 4


def test_github_action_gets_a_file_for_each_direction(results: Path, tmp_path: Path) -> None:
    """name, unit and value are what the action needs; range and extra are text."""
    assert export(results, "github-action-benchmark", tmp_path / "bench.json") == 0
    smaller = json.loads((tmp_path / "bench.json").read_text())
    bigger = json.loads((tmp_path / "bench.bigger.json").read_text())
    assert [entry["name"] for entry in bigger] == ["a.track_rate"]
    assert len(smaller) == 4
    for entry in [*smaller, *bigger]:
        assert isinstance(entry["name"], str)
        assert isinstance(entry["unit"], str)
        assert isinstance(entry["value"], float)
        assert entry["range"].startswith("± ")
        assert isinstance(entry["extra"], str)


def test_bencher_metrics_follow_the_published_schema(results: Path, tmp_path: Path) -> None:
    """Names to measures to numbers, `value` required, bounds around it; latency is in nanoseconds."""
    assert export(results, "bencher", tmp_path / "bmf.json") == 0
    found = json.loads((tmp_path / "bmf.json").read_text())
    assert set(found) == {
        "a.time_step('float16')", "a.time_step('int4')", "a.peakmem_load", "a.track_rate", "a.time_new"
    }  # fmt: skip
    for measures in found.values():
        for metric in measures.values():
            assert set(metric) <= {"value", "lower_value", "upper_value"}
            assert metric["lower_value"] <= metric["value"] <= metric["upper_value"]
    assert found["a.time_new"]["latency"]["value"] == pytest.approx(5e8)
    assert set(found["a.track_rate"]) == {"throughput"}
    assert set(found["a.peakmem_load"]) == {"memory"}


def test_names_too_long_for_bencher_stay_apart(tmp_path: Path) -> None:
    """Two names that agree in their first thousand characters are two benchmarks."""
    root = tmp_path / "results"
    write_document(root, document({f"a.time_{'x' * 1100}{end}": row([1.0]) for end in "ab"}))
    assert export(root, "bencher", tmp_path / "bmf.json") == 0
    found = json.loads((tmp_path / "bmf.json").read_text())
    assert len(found) == 2
    assert all(len(name) <= 1024 for name in found)


def test_otava_reads_every_cell_as_a_number(results: Path, tmp_path: Path) -> None:
    """As its importer does: header, a time that never steps back, attributes as they are, metrics as floats."""
    assert export(results, "otava", tmp_path / "otava") == 0
    config = json.loads((tmp_path / "otava" / "otava.yaml").read_text())
    seen: dict[str, list[float]] = {}
    directions = {}
    for test in config["tests"].values():
        assert test["type"] == "csv"
        with (tmp_path / "otava" / test["file"]).open(newline="") as file:
            reader = csv.reader(file, delimiter=test["csv_options"]["delimiter"], quotechar='"')
            header = next(reader)
            rows = list(reader)
        assert {test["time_column"], *test["attributes"]} < set(header)
        times = [datetime.strptime(r[header.index("time")], "%Y-%m-%d %H:%M:%S %z") for r in rows]
        assert times == sorted(times)
        for name, metric in test["metrics"].items():
            seen[name] = [float(r[header.index(metric["column"])]) for r in rows]
            directions[name] = metric["direction"]
    assert seen["a.time_step('int4')"] == pytest.approx([0.002, 0.004, 0.006])
    assert seen["a.time_new"] == [0.5, 0.5]
    assert directions["a.track_rate"] == 1
    assert directions["a.time_new"] == -1


def test_parquet_is_read_back_whole(results: Path, tmp_path: Path) -> None:
    """All rows, the skipped ones too, one partition a machine, text as text."""
    required.module("pyarrow")
    assert export(results, "parquet", tmp_path / "table") == 0
    assert [path.name for path in (tmp_path / "table").iterdir()] == ["machine=m1"]
    back = pd.read_parquet(tmp_path / "table")
    assert len(back) == 3 * 5 + 2
    assert set(back["status"]) == {"ok", "skipped"}
    assert set(back["machine"].astype(str)) == {"m1"}
    step = back[(back["benchmark"] == "a.time_step") & (back["param_kv_dtype"] == "int4")]
    assert sorted(step["value"]) == pytest.approx([0.002, 0.004, 0.006])
    assert str(back["commit_date"].dtype).startswith("datetime64[")


@pytest.mark.parametrize("name", ["all.csv", "all.csv.gz", "all.jsonl", "all.jsonl.gz"])
def test_text_files_are_read_back_with_every_digit(results: Path, tmp_path: Path, name: str) -> None:
    """pandas reads the same numbers, and as many rows, from CSV and from JSON lines, compressed or not."""
    form = "csv" if ".csv" in name else "jsonl"
    assert export(results, form, tmp_path / name) == 0
    df = load(results)
    back = (
        pd.read_csv(tmp_path / name)
        if form == "csv"
        else pd.read_json(tmp_path / name, lines=True, precise_float=True)
    )
    assert list(back.columns) == list(df.columns)
    for column in ("value", "ci99_low", "n_samples", "series"):
        assert back[column].astype(float).equals(df[column].astype(float))
    assert back["benchmark"].tolist() == df["benchmark"].tolist()
    assert pd.to_datetime(back["commit_date"]).tolist() == df["commit_date"].tolist()


def test_parquet_is_typed(results: Path, tmp_path: Path) -> None:
    """Texts stay ordered categories, and dates keep their zone."""
    required.module("pyarrow")
    assert export(results, "parquet", tmp_path / "table") == 0
    back = pd.read_parquet(tmp_path / "table")
    assert isinstance(back["param_kv_dtype"].dtype, pd.CategoricalDtype)
    assert str(back["commit_date"].dtype) == "datetime64[ms, UTC]"


def test_duckdb_and_polars_read_the_exports_without_options(results: Path, tmp_path: Path) -> None:
    """The same sum of the same rows in both, from each format, with typed columns from Parquet."""
    duckdb, polars = required.module("duckdb"), required.module("polars")
    expected = float(load(results)["value"].sum())
    for form, name in (("parquet", "folder"), ("csv", "x.csv"), ("jsonl", "x.jsonl")):
        out = tmp_path / name
        assert export(results, form, out) == 0
        files = f"{out}/**/*.parquet" if form == "parquet" else str(out)
        rows = duckdb.sql(f"select count(*), sum(value), typeof(any_value(commit_date)) from '{files}'").fetchall()
        assert rows == [(17, pytest.approx(expected), "TIMESTAMP WITH TIME ZONE")]
        read = {"parquet": polars.read_parquet, "csv": polars.read_csv, "jsonl": polars.read_ndjson}[form]
        table = read(out)
        assert (table.height, table["value"].sum()) == (17, pytest.approx(expected))
    typed = polars.read_parquet(tmp_path / "folder").schema
    assert typed["commit_date"] == polars.Datetime("ms", "UTC")
    assert typed["param_kv_dtype"] == polars.Categorical


def test_a_commit_has_no_meaning_for_a_format_with_all(results: Path, tmp_path: Path, capsys: Any) -> None:
    """An option without effect is an error."""
    arguments = ["export", "--results", str(results), "--format", "csv", "--out", str(tmp_path / "x.csv")]
    assert cli.main([*arguments, "--commit", "HEAD"]) == 2
    assert "--commit: csv has all commits" in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()


def test_parquet_without_pyarrow_says_what_to_install(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And leaves nothing behind."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert export(results, "parquet", tmp_path / "out" / "table") == 2
    assert "pip install 'mlxcache[parquet]'" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("form", ["bencher", "github-action-benchmark"])
def test_two_machines_are_not_mixed(results: Path, tmp_path: Path, capsys: Any, form: str) -> None:
    """The formats have one value a name: the user chooses the machine."""
    write_document(results, document({"a.time_new": row([0.7])}, number=3, machine="m2"))
    assert export(results, form, tmp_path / "out.json") == 2
    assert "choose one with --machine: m1, m2" in capsys.readouterr().err
    assert export(results, form, tmp_path / "out.json", "--machine", "m2") == 0
    assert "0.7" in (tmp_path / "out.json").read_text() or "700000000" in (tmp_path / "out.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--results", "nowhere"], "nothing at nowhere"),
        (["--bench", "no_such"], "--bench: 'no_such' fits none of the results; there are: "),
        (["--commit", "f" * 40], "no results for commit 'ffff"),
        (["--machine", "("], "mlxcache export: "),
    ],
)
def test_what_cannot_be_exported_has_status_2(
    results: Path, tmp_path: Path, capsys: Any, arguments: list[str], message: str
) -> None:
    """And no file."""
    assert export(results, "pytorch", tmp_path / "out.json", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_a_folder_that_is_there_is_not_overwritten(results: Path, tmp_path: Path, capsys: Any) -> None:
    """An export never mixes with an older one."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    assert export(results, "otava", tmp_path / "out") == 2
    assert "is there already and not an empty folder" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]
