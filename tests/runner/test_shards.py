"""Splitting a suite: each benchmark in exactly one shard, controls in all, the same split everywhere."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxcache.cli import main
from mlxcache.runner.shards import Shard, Took, choose, known_durations, split, typical
from tests.tiny_project import EXISTING, make_project

NAMES = st.lists(st.text("abc.", min_size=1, max_size=4), unique=True, max_size=30)


@given(NAMES, st.integers(1, 8), st.randoms(use_true_random=False))
def test_each_benchmark_is_in_exactly_one_shard(names: list[str], count: int, random: object) -> None:
    """Whatever is known of durations, and in whatever order the names come."""
    seconds = {name: float(len(name)) for name in names[::2]}
    lists = split(names, seconds, count)
    assert len(lists) == count
    assert Counter(name for found in lists for name in found) == Counter(names)
    shuffled = list(names)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert split(shuffled, seconds, count) == lists


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=40), st.integers(1, 6))
def test_the_longest_shard_is_near_the_best_possible(seconds: list[float], count: int) -> None:
    """Graham's bound: no shard exceeds 4/3 of what any split could reach."""
    known = {f"b{i}": s for i, s in enumerate(seconds)}
    loads = [sum(known[name] for name in found) for found in split(known, known, count)]
    longest = sorted(seconds, reverse=True)
    pair = longest[count - 1] + longest[count] if len(longest) > count else 0.0
    best = max(sum(seconds) / count, longest[0], pair)
    assert max(loads) <= 4 / 3 * best * count / max(count - 1, 1) if count > 1 else max(loads) <= best + 1e-6


def test_unknown_durations_count_as_the_median() -> None:
    """A suite without any history is split by number."""
    assert [len(found) for found in split([f"b{i}" for i in range(9)], {}, 3)] == [3, 3, 3]
    lists = split(["a", "b", "new"], {"a": 10.0, "b": 2.0}, 2)
    assert lists == [["a"], ["b", "new"]]


def test_controls_run_in_every_shard() -> None:
    """Each runner's machine has its own speed, which only a control beside the others tells."""
    names = ["a.time_x", "control.Control.time_spin", "b.time_y"]
    chosen = [choose(names, Shard(i, 2), {})[0] for i in (1, 2)]
    assert chosen == [["a.time_x", "control.Control.time_spin"], ["b.time_y", "control.Control.time_spin"]]


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/2/3"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    """The message says what is expected."""
    with pytest.raises(ValueError, match=r"--shard: got .*, expected i/n"):
        Shard.parse(text)


def test_a_commit_that_is_being_measured_does_not_change_the_split() -> None:
    """The second shard sees what the first one wrote, and must not act on it."""
    before = [Took("a", "old", 5.0, True), Took("b", "old", 1.0, True), Took("c", "old", 9.0, False)]
    after = [*before, Took("a", "new", 0.1, True), Took("c", "new", 0.1, True)]
    assert typical(after, ["new"]) == typical(before, ["new"]) == {"a": 5.0, "b": 1.0, "c": 9.0}
    assert typical(after)["c"] == 0.1


def test_durations_are_this_machines_where_it_has_some(tmp_path: Path) -> None:
    """Damaged files and files of old formats are passed over."""
    for machine, seconds in (("m1", 1.0), ("m2", 9.0)):
        (tmp_path / machine).mkdir()
        results = {"a": [[1.0], [], "1", 0, seconds], "b": [[1.0], [], "1", 0, None]}
        if machine == "m2":
            results["c"] = [[1.0], [], "1", 0, 7.0]
        document = {
            "commit_hash": "c1",
            "date": 1,
            "result_columns": ["result", "params", "version", "started_at", "duration"],
            "results": results,
        }
        (tmp_path / machine / "c1-env.json").write_text(json.dumps(document))
    (tmp_path / "m1" / "broken-env.json").write_text("{")
    (tmp_path / "m1" / "old-env.json").write_text('{"results": {"a": 1.0}}')
    assert typical(known_durations(tmp_path, "m1")) == {"a": 1.0, "c": 7.0}


def test_shards_of_a_real_run_join_to_the_whole_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """asv runs each benchmark in one shard, the control in both, and benchmarks.json knows them all."""
    make_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    ran = []
    for shard in ("1/2", "2/2"):
        assert main(["bench", *EXISTING, "--shard", shard, "--results", f"shard-{shard[0]}"]) == 0
        (file,) = Path(f"shard-{shard[0]}").glob("*/*-existing*.json")
        ran.append(set(json.loads(file.read_text())["results"]))
        known = set(json.loads(Path(f"shard-{shard[0]}/benchmarks.json").read_text())) - {"version"}
    assert ran[0] & ran[1] == {"bench.time_control"}
    assert ran[0] | ran[1] == known
    assert "shard 2/2: 1 of 3 benchmarks" in capfd.readouterr().out
    assert main(["merge", "shard-1", "shard-2", "--into", "joined"]) == 0
    (file,) = Path("joined").glob("*/*-existing*.json")
    assert set(json.loads(file.read_text())["results"]) == known
    assert main(["bench", *EXISTING, "--shard", "9/9", "--bench", "time_sum"]) == 2
    assert "shard 9/9 has no benchmark" in capfd.readouterr().err
