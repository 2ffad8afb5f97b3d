"""The cache on disk: never wrong, and of no consequence but speed."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest
from result_trees import document, row, write_document, write_tree

from mlxcache.history import load
from mlxcache.history.asv.results import parse_results
from mlxcache.history.loading import parse_cache


@pytest.fixture(autouse=True)
def cache_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files have entries as well."""
    monkeypatch.setattr(parse_cache, "_WORTHWHILE_BYTES", 0)


def entries(folder: Path) -> list[Path]:
    """The entries of a cache."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def everything(root: Path, cache: Path | bool) -> pd.DataFrame:
    """The table with all that there is."""
    return load(root, samples=True, quartiles=True, timing=True, cache=cache)


def make(root: Path) -> Path:
    """A tree with samples, faults and skipped values."""
    write_tree(root)
    rows = {
        "time_s": row([1.0, float("nan")], [["1", "2"]], samples=[[0.5, 1.5], None]),
        "time_bad": row(["x", None], [["1", "2"]]),
    }
    write_document(root, document(rows, number=8))
    return root


def test_same_table_with_and_without(tmp_path: Path) -> None:
    """The table and its problems are the same without a cache, with an empty one and with a full one."""
    root, cache = make(tmp_path / "results"), tmp_path / "cache"
    plain = everything(root, False)
    assert not cache.exists()
    for _ in range(2):
        cached = everything(root, cache)
        pd.testing.assert_frame_equal(plain, cached)
        assert cached.attrs["problems"] == plain.attrs["problems"]
        assert cached.facts.sources == plain.facts.sources
    assert len(entries(cache)) == 4


def test_full_cache_parses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every file known nothing is parsed, and with one new file that one is."""
    root, cache = make(tmp_path / "results"), tmp_path / "cache"
    load(root, cache=cache)
    parsed = []
    real = parse_results

    def counted(data: bytes, filename: str, *, spread: bool) -> object:
        parsed.append(filename)
        return real(data, filename, spread=spread)

    monkeypatch.setattr(parse_cache, "parse_results", counted)
    load(root, cache=cache)
    assert parsed == []
    new = write_document(root, document({"time_new": row([1.0])}, number=9))
    load(root, cache=cache)
    assert parsed == [new.name]


def test_changed_content_same_size_and_time(tmp_path: Path) -> None:
    """A file that changed is read again even when its size and time are the same."""
    root, cache = tmp_path / "results", tmp_path / "cache"
    path = write_document(root, document({"time_x": row([1.0])}))
    times = path.stat()
    assert load(root, cache=cache).value.tolist() == [1.0]
    path.write_text(path.read_text().replace("[[1.0]", "[[2.0]"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert load(root, cache=cache).value.tolist() == [2.0]
    assert len(entries(cache)) == 1  # the old content's entry is gone


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "folder"])
def test_damaged_entries_are_parsed_again(tmp_path: Path, damage: str) -> None:
    """An entry that is damaged in any way is as good as none, and is replaced."""
    root, cache = make(tmp_path / "results"), tmp_path / "cache"
    plain = load(root, cache=cache)
    for path in entries(cache):
        content = bytearray(path.read_bytes())
        if damage == "flipped":
            content[len(content) // 2] ^= 1
        path.unlink()
        if damage == "folder":
            path.mkdir()
            continue
        path.write_bytes({"empty": b"", "cut": content[:-3], "text": b"x" * 500}.get(damage, bytes(content)))
    pd.testing.assert_frame_equal(load(root, cache=cache), plain)


def test_each_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """Whichever byte of an entry is wrong, the table is right."""
    root, cache = tmp_path / "results", tmp_path / "cache"
    write_document(root, document({"time_x": row([1.0])}))
    plain = load(root, cache=cache)
    [path] = entries(cache)
    content = path.read_bytes()
    for position in range(0, len(content), 7):
        path.write_bytes(content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :])
        pd.testing.assert_frame_equal(load(root, cache=cache), plain)


def test_another_parser_another_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an older version of the parser made is not used."""
    root, cache = tmp_path / "results", tmp_path / "cache"
    write_document(root, document({"time_x": row([1.0])}))
    load(root, cache=cache)
    before = entries(cache)
    monkeypatch.setattr(parse_cache, "_parser_digest", lambda: b"another")
    load(root, cache=cache)
    assert entries(cache) != before


def test_unwritable_cache(tmp_path: Path) -> None:
    """A cache folder that cannot be made costs speed only."""
    root = make(tmp_path / "results")
    (tmp_path / "file").write_text("")
    assert len(load(root, cache=tmp_path / "file")) == len(load(root, cache=False))


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder follows the variables that name it, most specific first."""
    monkeypatch.setenv("MLXCACHE_CACHE_DIR", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert parse_cache.default_folder() == Path("/a")
    monkeypatch.delenv("MLXCACHE_CACHE_DIR")
    assert parse_cache.default_folder() == Path("/b/mlxcache")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert parse_cache.default_folder() == Path.home() / ".cache/mlxcache"


def test_forgotten_folders_are_removed(tmp_path: Path) -> None:
    """Entries of trees that were not read for a month go."""
    cache = tmp_path / "cache"
    load(make(tmp_path / "one"), cache=cache)
    [old] = (cache / "parsed").iterdir()
    os.utime(old, (0, 0))
    load(make(tmp_path / "two"), cache=cache)
    assert not old.exists()
    assert entries(cache)
