"""Trees damaged at random: reading never fails, names the file, and accounts for every value."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from result_trees import count_values, document, row, write_benchmarks, write_document

from mlxcache.history import load

PARAMS = [["1", "2"], ["'a \"b\"'", "<function f at 0x7f00>", "(1, 'x')"]]
damage = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def make(root: Path) -> list[Path]:
    """A tree of one file in each format; the first has all there may be in it."""
    write_benchmarks(
        root,
        {
            "time_a": {"version": "v1"},
            "time_b": {"params": PARAMS, "param_names": ["n", "kind"], "version": "v1"},
        },
    )
    rows = {
        "time_a": row([1.5], samples=[[1.0, 2.0]]),
        "time_b": row([1.0, float("nan"), None, 4.0, 5.0, 6.0], PARAMS),
        "time_c": row(None, PARAMS),
    }
    new = write_document(root, document(rows))
    old = document({}, number=2, version=1)
    del old["result_columns"]
    old["results"] = {
        "time_a": 2.5,
        "time_b": {
            "result": [1.0] * 6,
            "params": PARAMS,
            "stats": [{"ci_99": [0.5, 1.5], "q_25": 0.9, "q_75": 1.1, "repeat": 3, "number": 1}] * 6,
        },
    }
    return [new, write_document(root, old)]


def check(root: Path, damaged: Path, *, intact: Path) -> None:
    """The tree can be read, what is wrong names a file that was damaged, and intact files are complete."""
    df = load(root, samples=True, quartiles=True, timing=True, show_progress=False)
    problems = df.attrs["problems"]
    assert {problem.file for problem in problems} <= {str(damaged), str(damaged.parent / "machine.json")}
    assert int((df.file == str(intact)).sum()) == count_values(intact)
    assert all(problem.reason for problem in problems)
    "\n".join(map(str, problems)).encode()  # can be printed
    df.to_string(max_rows=3).encode()


@damage
@given(which=st.booleans(), at=st.floats(0, 1), data=st.binary(max_size=6), cut=st.booleans())
def test_mutated_bytes(which: bool, at: float, data: bytes, cut: bool) -> None:
    """Bytes overwritten or the end cut off anywhere: no crash, and a file that is no JSON is named."""
    with tempfile.TemporaryDirectory() as folder:
        files = make(Path(folder))
        damaged, intact = files[which], files[not which]
        content = damaged.read_bytes()
        position = int(at * len(content))
        content = content[:position] + data + (b"" if cut else content[position + len(data) :])
        damaged.write_bytes(content)
        check(Path(folder), damaged, intact=intact)
        try:
            document_ = json.loads(content)
            usable = isinstance(document_, dict) and "results" in document_
        except (ValueError, RecursionError):
            usable = False
        if not usable:
            problems = load(folder).attrs["problems"]
            assert str(damaged) in {problem.file for problem in problems}


def paths_in(item: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where anything is in a document."""
    found = [prefix] if prefix else []
    children = item.items() if isinstance(item, dict) else enumerate(item) if isinstance(item, list) else ()
    for key, child in children:
        found += paths_in(child, (*prefix, key))
    return found


@damage
@given(which=st.booleans(), seed=st.integers(0, 2**20), replacement=json_values, how=st.sampled_from("rdl"))
def test_mutated_types_and_lengths(which: bool, seed: int, replacement: Any, how: str) -> None:
    """Any part replaced by any JSON, removed, or made longer: no crash, and every value is accounted for."""
    with tempfile.TemporaryDirectory() as folder:
        files = make(Path(folder))
        damaged, intact = files[which], files[not which]
        content = json.loads(damaged.read_text())
        *parents, last = random.Random(seed).choice(paths_in(content))
        holder = content
        for key in parents:
            holder = holder[key]
        if how == "r":
            holder[last] = replacement
        elif how == "d":
            del holder[last]
        elif isinstance(holder[last], list):
            holder[last].append(replacement)
        damaged.write_text(json.dumps(content))
        check(Path(folder), damaged, intact=intact)
        if parents[:1] == ["results"] and len(parents) > 1 and isinstance(content["results"], dict):
            df = load(folder)
            lost = sum(p.n_values for p in df.attrs["problems"] if p.file == str(damaged))
            in_table = int((df.file == str(damaged)).sum())
            assert in_table + lost == expected_count(content)


def expected_count(content: dict[str, Any]) -> int:
    """Values in a document that may be damaged: each entry of a list, else as its parameters say."""
    total = 0
    for cells in content["results"].values():
        if isinstance(cells, list) and "result_columns" in content:
            named = dict(zip(content["result_columns"], cells, strict=False))
            total += count_cells(named.get("result"), named.get("params"))
        elif isinstance(cells, dict):
            total += count_cells(cells.get("result"), cells.get("params"))
        else:
            total += count_cells(cells if isinstance(cells, list) else [cells], None)
    return total


def count_cells(result: Any, params: Any) -> int:
    """Values of one row."""
    if isinstance(result, list):
        return len(result)
    if result is not None:
        return 1
    if params is None:
        return 1
    if not isinstance(params, list) or not all(
        isinstance(choices, list) and all(isinstance(value, str) for value in choices) for choices in params
    ):
        return 1
    total = 1
    for choices in params:
        total *= len(choices)
    return total


@damage
@given(replacement=json_values, name=st.sampled_from(["machine.json", "benchmarks.json"]))
def test_damaged_facts(replacement: Any, name: str) -> None:
    """Whatever machine.json and benchmarks.json hold, all values are read, and what is no object is named."""
    with tempfile.TemporaryDirectory() as folder:
        files = make(Path(folder))
        path = files[0].parent / name if name == "machine.json" else Path(folder) / name
        path.write_text(json.dumps(replacement))
        df = load(folder)
        assert len(df) == sum(map(count_values, files))
        if not isinstance(replacement, dict):
            assert [problem.file for problem in df.attrs["problems"]] == [str(path)]


@damage
@given(entry=json_values, key=st.sampled_from(["unit", "param_names", "params", "version", "type", None]))
def test_damaged_benchmark_entries(entry: Any, key: str | None) -> None:
    """Whatever an entry of benchmarks.json holds, all values are read."""
    with tempfile.TemporaryDirectory() as folder:
        files = make(Path(folder))
        path = Path(folder) / "benchmarks.json"
        content = json.loads(path.read_text())
        if key is None:
            content["time_b"] = entry
        else:
            content["time_b"][key] = entry
        path.write_text(json.dumps(content))
        df = load(folder)
        assert len(df) == sum(map(count_values, files))
        df.to_string(max_rows=3).encode()
