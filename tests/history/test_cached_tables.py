"""The cache's table is the plain reader's, whatever became of the tree and whatever is asked of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from result_trees import document, row, write_document, write_tree

from mlxcache.history import load
from mlxcache.history.loading import parse_cache


@pytest.fixture(autouse=True)
def cache_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files have entries as well."""
    monkeypatch.setattr(parse_cache, "_WORTHWHILE_BYTES", 0)


def same(root: Path, cache: Path, **options: object) -> pd.DataFrame:
    """The table, which has to be the one that no cache gives, to the last bit and label."""
    plain, cached = load(root, cache=False, **options), load(root, cache=cache, **options)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(cached, plain, check_exact=True)
    for name in plain.columns:
        if isinstance(plain[name].dtype, pd.CategoricalDtype):
            assert plain[name].array.codes.tolist() == cached[name].array.codes.tolist()  # type: ignore[attr-defined]
    assert cached.facts == plain.facts
    return cached


def rows_of(number: int, *names: str) -> dict[str, object]:
    """Rows of three parameters each."""
    return {name: row([number + 0.1, None, float("nan")], [["1", "2", "3"]]) for name in names}


def _add_last(root: Path) -> None:
    write_document(root, document(rows_of(9, "mod.time_plain"), number=9))


def _add_new_benchmark(root: Path) -> None:
    write_document(root, document(rows_of(9, "aaa.time_new", "mod.time_plain", "zzz.time_new"), number=9))


def _add_in_the_middle(root: Path) -> None:
    content = document(rows_of(9, "aaa.time_new"), number=9)
    write_document(root, {**content, "date": 1_700_000_000_000 + 100_000_000})


def _add_name_that_sorts_first(root: Path) -> None:
    content = document(rows_of(9, "mod.time_plain"), number=9)
    write_document(root, {**content, "commit_hash": "0" * 40})


def _add_environment(root: Path) -> None:
    write_document(root, document(rows_of(2, "mod.time_plain"), number=9, env="another"))


def _add_machine(root: Path) -> None:
    write_document(root, document(rows_of(2, "mod.time_plain"), number=2, machine="m2"))


def _add_what_is_there_already(root: Path) -> None:
    path = next(root.glob("m1/*.json"))
    path.with_name("zz-copy.json").write_bytes(path.read_bytes())


def _remove(root: Path) -> None:
    sorted(root.glob("m1/0*.json"))[1].unlink()


def _change(root: Path) -> None:
    path = sorted(root.glob("m1/0*.json"))[1]
    times = path.stat()
    path.write_text(path.read_text().replace("[2.0]", "[7.0]", 1))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _rename(root: Path) -> None:
    path = sorted(root.glob("m1/0*.json"))[1]
    path.rename(path.with_name("0-other.json"))


def _reorder(root: Path) -> None:
    path = sorted(root.glob("m1/0*.json"))[0]
    path.write_text(path.read_text().replace('"date": 1700086400000', '"date": 1800000000000'))


def _forget_benchmarks(root: Path) -> None:
    (root / "benchmarks.json").unlink()


def _many_more(root: Path) -> None:
    for number in range(20, 60):
        write_document(root, document(rows_of(number, f"mod.time_{number}", "mod.time_sized"), number=number))


def _nothing(root: Path) -> None:
    """The tree stays as it is."""


CHANGES = [
    _nothing, _add_last, _add_new_benchmark, _add_in_the_middle, _add_name_that_sorts_first, _add_environment,
    _add_machine, _add_what_is_there_already, _remove, _change, _rename, _reorder, _forget_benchmarks, _many_more,
]  # fmt: skip


@pytest.mark.parametrize("later", CHANGES)
def test_same_table_whatever_happens_to_the_tree(tmp_path: Path, later: Callable[[Path], None]) -> None:
    """Cached, changed, and changed again: each time what a reader without a cache sees."""
    root, cache = write_tree(tmp_path / "results", commits=5), tmp_path / "cache"
    same(root, cache)
    same(root, cache)
    later(root)
    for _ in range(2):
        same(root, cache)
    _add_last(root)
    same(root, cache)


@pytest.mark.parametrize(
    "options",
    [
        {"benchmarks": "plain"},
        {"benchmarks": "nothing"},
        {"param_columns": False},
        {"param_columns": ["kind"]},
        {"machine_rules": ["m.*=all"]},
        {"timing": True},
        {"samples": True, "quartiles": True},
    ],
)
def test_same_table_whatever_is_asked_of_it(tmp_path: Path, options: dict[str, object]) -> None:
    """What one question left in the cache answers another one, and the first one again."""
    root, cache = write_tree(tmp_path / "results", commits=5), tmp_path / "cache"
    same(root, cache)
    for _ in range(2):
        same(root, cache, **options)
        same(root, cache)
    _add_new_benchmark(root)
    same(root, cache, **options)
    same(root, cache)
