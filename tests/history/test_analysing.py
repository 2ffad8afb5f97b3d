"""What an analyst asks: numbers that are numbers, ratios, releases, two environments at one commit."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from result_trees import commit, document, row, write_benchmarks, write_document, write_tree

import mlxcache.history as h
from mlxcache.history.analysing import conclusions

PATHS = [["'int32'", "'int64'"], ["128", "1024"]]


def paths_tree(
    root: Path, *, cost: float = 1.05, commits: int = 5, releases: dict[int, list[str]] | None = None
) -> Path:
    """int64 costs `cost` of int32, give or take 1 % in turn; `releases` of mlx by commit (default: one)."""
    write_benchmarks(
        root,
        {
            "b.time_step": {"version": "v1", "params": PATHS, "param_names": ["path", "context"]},
            "b.time_plain": {"version": "v1"},
        },
    )
    for number in range(1, commits + 1):
        for release in (releases or {}).get(number, ["0.32.4"]):
            wobble = 1 + 0.01 * (-1) ** number
            faster = 0.5 if release == "0.31.2" else 1.0
            rows = {
                "b.time_step": row(
                    [1.0 * faster, 2.0 * faster, cost * wobble * faster, 2 * cost * wobble * faster], PATHS
                ),
                "b.time_plain": row([3.0 * faster]),
            }
            content = document(rows, number=number, env=f"venv-mlx{release}", requirements={"pip+mlx": release})
            write_document(root, content)
    return root


def test_parameters_are_numbers_where_all_are_numbers_and_ordered_texts_elsewhere(tmp_path: Path) -> None:
    """1024 is found by number, compares as one, and text keeps the order of the suite."""
    df = h.load(paths_tree(tmp_path))
    assert len(df[df.param_context == 1024]) == len(df[df.param_context > 128]) == 10
    assert df.param_path.cat.categories.tolist() == ["", "int32", "int64"]
    assert df.param_path.cat.ordered
    assert str(df.commit_date.dtype) == "datetime64[ms, UTC]"


def test_quoted_numbers_are_text(tmp_path: Path) -> None:
    """A parameter whose values the suite writes as strings stays text, also where they look like numbers."""
    choices = [["'1'", "'2'"]]
    write_benchmarks(tmp_path, {"b.time_x": {"params": choices, "param_names": ["n"]}})
    write_document(tmp_path, document({"b.time_x": row([1.0, 2.0], choices)}))
    assert h.load(tmp_path).param_n.tolist() == ["1", "2"]


@pytest.mark.parametrize(
    ("old", "named"),
    [
        ([["128", "1024"], ["'int32'", "'int64'"]], False),  # changed places
        ([["'int32'", "'int64'"]], False),  # one fewer
        ([["'int32'"], ["512"]], True),  # other values of the same parameters
    ],
    ids=["order", "number", "values"],
)
def test_an_older_version_with_other_parameters_is_said_not_guessed(tmp_path: Path, old: Any, named: bool) -> None:
    """Values of another order or number are not put under the present names, and a notice says so."""
    paths_tree(tmp_path, commits=1)
    older = {"b.time_step": row([1.0] * math.prod(map(len, old)), old, version="v0")}
    write_document(tmp_path, document(older, number=2))
    df = h.load(tmp_path)
    its = df[df.version == "v0"]
    assert (its.param_path.iloc[0] == "int32") == named
    assert set(df[df.version == "v1"].param_path) == {"int32", "int64", ""}
    assert (
        any("b.time_step version v0: measured with other parameters" in text for text in df.facts.notices) != named
    )
    if not named:
        assert str(its.param_param1.iloc[0]) in {"128", "int32"}


def test_grouping_by_all_parameters_keeps_every_row(tmp_path: Path) -> None:
    """A benchmark without the parameters is a group as well."""
    df = h.load(paths_tree(tmp_path, commits=2))
    sizes = df.groupby(["benchmark", "param_path", "param_context"], observed=True).size()
    assert len(sizes) == 5
    assert int(sizes.sum()) == len(df)


def test_the_table_is_written_and_read_back_equal(tmp_path: Path) -> None:
    """Parquet keeps every dtype, categories and their order included."""
    df = h.load(paths_tree(tmp_path / "tree"))
    df.to_parquet(tmp_path / "x.parquet")
    back = pd.read_parquet(tmp_path / "x.parquet")
    pd.testing.assert_frame_equal(back, pd.DataFrame(df))


def test_a_ratio_has_the_spread_from_run_to_run(tmp_path: Path) -> None:
    """int64 over int32 by hand: 1.05 x 0.99 at the fifth commit; the runs differ by 2 % in turn."""
    found = h.ratio(h.load(paths_tree(tmp_path)), "param_path", "int64", "int32")
    assert found["param_context"].tolist() == [128, 1024]
    np.testing.assert_allclose(found["ratio"], [1.05 * 0.99] * 2)
    spread = math.log(1.01 / 0.99) / 0.9539
    np.testing.assert_allclose(found["spread"], [spread] * 2)
    margin = 2.7764451 * spread  # Student's t, 4 differences
    np.testing.assert_allclose(found["ci95_low"], 1.05 * 0.99 * math.exp(-margin))
    np.testing.assert_allclose(found["ci95_high"], 1.05 * 0.99 * math.exp(margin))
    assert found["runs"].tolist() == [5, 5]


def test_one_run_has_a_ratio_and_no_interval(tmp_path: Path) -> None:
    """What two values of one run say of the next run is not known."""
    found = h.ratio(h.load(paths_tree(tmp_path, commits=1)), "param_path", "int64", "int32", by=[])
    assert found[["pairs", "runs"]].to_numpy().tolist() == [[2, 1]]
    assert math.isnan(found["ci95_low"].iloc[0])
    assert found["note"].tolist() == ["one run: how much it moves from run to run is not known"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("param_pth", "int64", "int32"), "no column 'param_pth'; its parameters and packages are: "),
        (("param_path", "int6", "int32"), "of: no row has param_path = 'int6'; there are: "),
        (("param_path", "int64", "int64"), "of and over are both 'int64'"),
    ],
)
def test_a_ratio_of_what_is_not_there_names_what_is(tmp_path: Path, arguments: Any, message: str) -> None:
    """The message says which columns and values the table has."""
    with pytest.raises(ValueError, match=message):
        h.ratio(h.load(paths_tree(tmp_path)), *arguments)


def test_releases_lie_side_by_side_at_the_commit_that_has_them_all(tmp_path: Path) -> None:
    """The newest commit has one release, so the one before it is taken; 0.9 is older than 0.31."""
    df = h.load(paths_tree(tmp_path, releases={2: ["0.31.2", "0.9.0"], 3: ["0.31.2", "0.32.4"]}, commits=4))
    assert h.releases(df, "mlx")["release"].cat.categories.tolist() == ["0.9.0", "0.31.2", "0.32.4"]
    found = h.side_by_side(df, "mlx")
    assert set(found["commit"]) == {commit(3)}
    plain = found[found["benchmark"] == "b.time_plain"]
    assert plain[["release", "value", "ratio"]].to_numpy().tolist() == [["0.31.2", 1.5, 1.0], ["0.32.4", 3.0, 2.0]]
    with pytest.raises(ValueError, match="no commit was measured with two releases of mlx"):
        h.side_by_side(df[df.commit_index == 0], "mlx")
    with pytest.raises(ValueError, match="the results say no release of 'torch'; they say those of: python, mlx"):
        h.releases(df, "torch")


def test_two_environments_are_compared_at_one_commit(tmp_path: Path) -> None:
    """Twice the time with the newer release, for all series, each with its parameters and its number."""
    df = h.load(paths_tree(tmp_path, releases={3: ["0.31.2", "0.32.4"]}))
    rows = h.compare(df, {"mlx": "0.31.2"}, {"mlx": "0.32.4"}, at=commit(3)[:12])
    assert len(rows) == 5
    np.testing.assert_allclose(rows["change"], 1.0)
    assert set(rows["verdict"]) == {"regression"}
    assert sorted(rows["param_context"].dropna().tolist()) == [128, 128, 1024, 1024]
    assert set(rows["series"]) <= set(df["series"])
    with pytest.raises(ValueError, match=r"base: no results with mlx 0\.30 at .*; there are: 0\.31\.2, 0\.32\.4"):
        h.compare(df, {"mlx": "0.30"}, {"mlx": "0.32.4"}, at=commit(3))
    with pytest.raises(ValueError, match="expected two commits, or two environments"):
        h.compare(df, {"mlx": "0.31.2"}, {"mlx": "0.32.4"})


def test_counts_are_laid_beside_the_seconds_of_the_same_parameters(tmp_path: Path) -> None:
    """By hand: counts 1.02 at every commit; seconds go up and down by 10 %, and int64 takes 1.1 of int32."""
    params = [["'int32'", "'int64'"]]
    names = {"params": params, "param_names": ["path"], "version": "v1"}
    write_benchmarks(
        tmp_path, {"b.time_step": names, "b.count_step": {**names, "unit": "instructions"}, "b.time_x": {}}
    )
    for number in range(1, 8):
        up = 1.1 ** (number % 2)
        rows = {
            "b.time_step": row([1.0 * up, 1.1 * up], params),
            "b.count_step": row([100.0, 102.0], params),
            "b.time_x": row([1.0]),
        }
        write_document(tmp_path, document(rows, number=number))
    df = h.load(tmp_path)
    assert conclusions.counts_beside_seconds(df).startswith("2 benchmarks have both with 6 values or more.")
    assert "counts move by 0.00% (the middle one) and seconds by 9.99%" in conclusions.counts_beside_seconds(df)
    said = conclusions.cost_in_counts_and_seconds(df, "b.time_step", "param_path", "int64", "int32")
    assert said.startswith("By instructions int64 costs 1.020 of int32")
    assert "By seconds of the same parameters int64 costs 1.100 of int32" in said
    without = df[df.unit == "seconds"]
    assert "hold no instruction counts" in conclusions.counts_beside_seconds(without)
    assert "No instruction counts of b.time_x" in conclusions.cost_in_counts_and_seconds(
        df, "b.time_x", "param_path", "int64", "int32"
    )


def test_a_revision_names_a_commit_once_the_repository_is_known(tmp_path: Path) -> None:
    """HEAD and HEAD~1 are looked up in the repository that `load` was given."""
    repo = tmp_path / "repo"
    repo.mkdir()

    def git(*words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(["git", *identity, *words], cwd=repo, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    hashes = []
    for number in range(2):
        git("commit", "-q", "--allow-empty", "-m", f"c{number}")
        hashes.append(git("rev-parse", "HEAD"))
    write_benchmarks(tmp_path / "results", {"b.time_x": {"version": "v1"}})
    for number, name in enumerate(hashes, 1):
        content = {**document({"b.time_x": row([float(number)])}, number=number), "commit_hash": name}
        write_document(tmp_path / "results", content)
    df = h.load(tmp_path / "results", repo=repo)
    rows = h.compare(df, "HEAD~1", "HEAD")
    assert rows[["base", "head"]].to_numpy().tolist() == [hashes]


def test_a_pattern_that_matches_nothing_says_so_and_names_the_nearest(tmp_path: Path) -> None:
    """An empty table has a reason."""
    df = h.load(write_tree(tmp_path), benchmarks="time_sised")
    assert len(df) == 0
    assert any("no benchmark's name has 'time_sised' in it; the nearest " in text for text in df.facts.notices)


def test_changes_have_the_columns_and_dtypes_of_the_table(tmp_path: Path) -> None:
    """A change is filtered by its parameters as a value is."""
    root = tmp_path / "tree"
    paths_tree(root, commits=30)
    for number in range(16, 31):  # from here on all is half as fast again
        rows = {"b.time_step": row([1.5, 3.0, 1.575, 3.15], PATHS), "b.time_plain": row([3.0])}
        write_document(
            root, document(rows, number=number, env="venv-mlx0.32.4", requirements={"pip+mlx": "0.32.4"})
        )
    df = h.load(root)
    changes = h.change_points(df, cache=False)
    assert len(changes[changes.param_context == 1024]) == 2
    for name in ("machine", "benchmark", "params", "unit", "param_path", "param_context"):
        assert changes[name].dtype == df[name].dtype
