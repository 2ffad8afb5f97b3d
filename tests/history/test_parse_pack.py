"""The pack of a folder's entries: the same table whatever became of the tree or of the pack."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from result_trees import document, row, write_document, write_tree

from mlxcache.history import load
from mlxcache.history.loading import parse_cache


@pytest.fixture(autouse=True)
def pack_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files have entries, and small folders packs."""
    monkeypatch.setattr(parse_cache, "_WORTHWHILE_BYTES", 0)
    monkeypatch.setattr(parse_cache, "_WORTH_A_PACK", 0)


def same(root: Path, cache: Path, **options: object) -> pd.DataFrame:
    """The table, which has to be the one that no cache gives, to the last bit and label."""
    plain, cached = load(root, cache=False, **options), load(root, cache=cache, **options)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(cached, plain, check_exact=True)
    for name in plain.columns:
        if isinstance(plain[name].dtype, pd.CategoricalDtype):
            assert plain[name].array.codes.tolist() == cached[name].array.codes.tolist()  # type: ignore[attr-defined]
    assert cached.facts == plain.facts
    return cached


def packs(cache: Path) -> list[Path]:
    """The packs of a cache folder."""
    return sorted(cache.rglob("*.pack"))


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
    """Packed, changed, and changed again: each time what a reader without a cache sees."""
    root, cache = write_tree(tmp_path / "results", commits=5), tmp_path / "cache"
    same(root, cache)
    assert len(packs(cache)) == 1
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
    """A pack made for one question answers another one, and the first one again."""
    root, cache = write_tree(tmp_path / "results", commits=5), tmp_path / "cache"
    same(root, cache)
    for _ in range(2):
        same(root, cache, **options)
        same(root, cache)
    _add_new_benchmark(root)
    same(root, cache, **options)
    same(root, cache)


def test_values_that_are_left_out(tmp_path: Path) -> None:
    """Files with unusable values are packed whole and left out of the table in the same places."""
    root, cache = write_tree(tmp_path / "results"), tmp_path / "cache"
    write_document(root, document({"mod.time_plain": row(["x", 1.0], [["1", "2"]])}, number=8))
    for _ in range(2):
        same(root, cache)
    _add_last(root)
    same(root, cache)


def test_entries_that_are_packed_go(tmp_path: Path) -> None:
    """Everything is kept once: packed entries are removed, those of a new file and with samples are not."""
    root, cache = write_tree(tmp_path / "results", commits=40), tmp_path / "cache"
    load(root, cache=cache)
    load(root, cache=cache, samples=True)
    load(root, cache=cache)
    write_document(root, document(rows_of(50, "mod.time_plain"), number=50))
    load(root, cache=cache)
    names = [path.name for path in cache.rglob("*") if path.is_file()]
    kinds = {kind: sum(name.endswith(kind) for name in names) for kind in (".values", ".spread", ".pack", ".part")}
    assert kinds == {".values": 1, ".spread": 40, ".pack": 1, ".part": 0}


@pytest.mark.parametrize("keep", [0, 5, 60, 0.2, 0.5, 0.9, 0.999])
def test_a_pack_cut_short_is_as_good_as_none(tmp_path: Path, keep: float) -> None:
    """However much of it is left."""
    root, cache = write_tree(tmp_path / "results", commits=5), tmp_path / "cache"
    same(root, cache)
    [path] = packs(cache)
    content = path.read_bytes()
    path.unlink()  # who has it mapped keeps it
    path.write_bytes(content[: int(keep * len(content)) if keep < 1 else int(keep)])
    same(root, cache)
    same(root, cache)


def test_each_wrong_byte_is_noticed(tmp_path: Path) -> None:
    """Wherever a pack has something, a flipped bit leaves the table right."""
    root, cache = write_tree(tmp_path / "results", commits=2), tmp_path / "cache"
    plain = load(root, cache=False)
    load(root, cache=cache)
    [path] = packs(cache)
    content = path.read_bytes()
    places = np.flatnonzero(np.frombuffer(content, np.uint8))
    for place in [*range(0, 60, 7), *places[:: max(1, len(places) // 150)].tolist()]:
        path.unlink()
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        pd.testing.assert_frame_equal(load(root, cache=cache), plain, check_exact=True)
        path.unlink(missing_ok=True)
        path.write_bytes(content)


def test_zeros_in_place_of_values_are_noticed(tmp_path: Path) -> None:
    """What a crash may leave of a file that was not yet on the disk."""
    root, cache = write_tree(tmp_path / "results", commits=5), tmp_path / "cache"
    load(root, cache=cache)
    [path] = packs(cache)
    content = bytearray(path.read_bytes())
    content[4096:8192] = bytes(4096)
    path.unlink()
    path.write_bytes(content)
    same(root, cache)


def test_another_code_another_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other code packed is not used."""
    root, cache = write_tree(tmp_path / "results", commits=5), tmp_path / "cache"
    same(root, cache)
    monkeypatch.setattr(parse_cache, "_parser_digest", lambda: b"another".ljust(32))
    same(root, cache)


def test_who_writes_into_the_table_does_not_write_into_the_cache(tmp_path: Path) -> None:
    """The table's columns are the caller's own."""
    root, cache = write_tree(tmp_path / "results", commits=5), tmp_path / "cache"
    load(root, cache=cache)
    table = load(root, cache=cache)
    table["value"].to_numpy()
    table.loc[:, "value"] = 7.0
    table.loc[:, "series"] = 0
    load(root, cache=cache)["value"].array[:] = 3.0
    same(root, cache)


def test_the_folder_may_go_while_its_pack_is_in_use(tmp_path: Path) -> None:
    """A table stays as it is when the cache is deleted."""
    root, cache = write_tree(tmp_path / "results", commits=5), tmp_path / "cache"
    plain = load(root, cache=cache)
    table = load(root, cache=cache)
    packs(cache)[0].unlink()
    pd.testing.assert_frame_equal(table, plain)


def _load_often(root: Path, cache: Path) -> None:
    parse_cache._WORTHWHILE_BYTES = parse_cache._WORTH_A_PACK = 0  # type: ignore[misc]
    plain = load(root, cache=False)
    for number in range(10):
        if number % 3 == 2:
            for path in cache.rglob("*.pack"):
                path.unlink(missing_ok=True)
        pd.testing.assert_frame_equal(load(root, cache=cache), plain)


def test_several_processes_at_once(tmp_path: Path) -> None:
    """Each of them sees the table that there is, while packs come and go."""
    root, cache = write_tree(tmp_path / "results", commits=5), tmp_path / "cache"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_load_often, args=(root, cache)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
