"""One results file of any version, whole or damaged."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from result_trees import COLUMNS, commit, document, row

from mlxcache.history.asv.columns import FAILED, OK, SKIPPED, ParsedFile
from mlxcache.history.asv.facts import default_unit, stable_params
from mlxcache.history.asv.results import parse_results

NAME = "0000000a-env.json"


def parse(content: Any, *, name: str = NAME, spread: bool = False) -> ParsedFile:
    """Parse a document, or raw bytes."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return parse_results(data, name, spread=spread)


def reasons(parsed: ParsedFile) -> str:
    """All that the parser had to say."""
    return "\n".join(f"{fault.row}: {fault.reason}" for fault in parsed.faults)


def rows(parsed: ParsedFile) -> list[list[Any]]:
    """The layout, decoded."""
    return [json.loads(line) for line in parsed.layout.splitlines()]


def test_format_2() -> None:
    """A row of format 2 gives values, status, interval, samples and its benchmark's name and parameters."""
    parsed = parse(document({"time_x": row([1.0, None, math.nan], [["1", "2", "3"]])}))
    assert parsed.faults == []
    assert parsed.head.commit == commit(1)
    assert parsed.head.env == "venv-py3.12"
    assert parsed.head.machine == "m1"
    assert parsed.head.durations == {"<build>": 2.5}
    assert parsed.status.tolist() == [OK, FAILED, SKIPPED]
    np.testing.assert_array_equal(parsed.values, [1.0, math.nan, math.nan])
    np.testing.assert_allclose(parsed.ci_low[0], 0.9)
    assert parsed.n_samples.tolist() == [10, 10, 10]
    assert rows(parsed) == [["time_x", "v1", [["1", "2", "3"]]]]
    assert parsed.row_started_ms.tolist() == [1_700_000_000_000]


def test_format_1() -> None:
    """Rows of format 1 may be numbers, null, or objects with or without parameters and statistics."""
    stats = {"ci_99": [0.5, 1.5], "q_25": 0.9, "q_75": 1.1, "repeat": 5, "number": 1, "mean": 1.0}
    old = {
        "version": 1,
        "commit_hash": commit(1),
        "date": 1_500_000_000_000,
        "params": {"machine": "m1"},
        "python": "3.6",
        "requirements": ["numpy"],
        "benchmark_version": {"time_object": "abc"},
        "started_at": {"time_object": 5},
        "profiles": {"time_object": "eJw="},
        "results": {
            "track_scalar": 3,
            "track_failed": None,
            "time_object": {"result": [1.0], "stats": [stats]},
            "time_params": {"result": [1.0, None], "params": [["1", "2"]], "stats": [stats, None]},
            "time_null": {"result": None, "params": [["1", "2"]]},
            "time_list": [4.0],
        },
    }
    parsed = parse(old, name="00000001-py3.6-numpy.json")
    assert parsed.faults == []
    assert parsed.head.env == "py3.6-numpy"  # early files do not name it
    assert parsed.head.requirements == {"numpy": ""}
    assert parsed.status.tolist() == [OK, FAILED, OK, OK, FAILED, FAILED, FAILED, OK]
    assert parsed.values[[0, 2, 3, 7]].tolist() == [3.0, 1.0, 1.0, 4.0]
    assert parsed.ci_low[2] == 0.5
    assert parsed.n_samples[2] == 5
    assert [line[1] for line in rows(parsed)] == [None, None, "abc", None, None, None]


def test_infinite_statistics() -> None:
    """asv writes infinite intervals where there were few samples; they are kept."""
    cells = row([1.0])
    cells[5], cells[6] = [-math.inf], [math.inf]
    parsed = parse(document({"time_x": cells}))
    assert parsed.faults == []
    assert (parsed.ci_low[0], parsed.ci_high[0]) == (-math.inf, math.inf)


def test_samples() -> None:
    """Samples are read on request, with nulls for parameters that have none."""
    cells = row([1.0, 2.0, 3.0], [["1", "2", "3"]], samples=[[1.0, 1.5], None, [3.0]])
    spread = parse(document({"time_x": cells}), spread=True).spread
    assert spread is not None
    assert spread.samples.tolist() == [1.0, 1.5, 3.0]
    assert spread.offsets.tolist() == [0, 2, 2, 3]
    np.testing.assert_allclose(spread.q_25, [0.95, 1.9, 2.85])


@pytest.mark.parametrize("api", [0, 3, "2", None, True, 2.5, [2]])
def test_unknown_version(api: Any) -> None:
    """A file of an unknown format is read by its shape, and that is reported."""
    content = document({"time_x": row([1.0])}, version=api)
    parsed = parse(content)
    assert parsed.values.tolist() == [1.0]
    assert (api is True) or "expected 1 or 2" in reasons(parsed)


@pytest.mark.parametrize(
    ("cells", "said", "lost"),
    [
        ([[1.0, 2.0], [["1", "2", "3"]]], "2 values, expected 3 (3): cannot tell whose", 2),
        ([[1.0, 2.0]], "2 values, expected 1 (no parameters)", 2),
        ([["fast"]], "value 'fast', expected a finite number", 1),
        ([[[1.0]]], "value a list of 1, expected a finite number", 1),
        ([[1e400]], "value inf, expected a finite number", 1),
        ([[10**400]], "expected a finite number", 1),
        ([[1.0], "12"], "\"params\" is '12', expected a list of lists of strings", 1),
        ([[1.0], [["1"], 2]], '"params" is a list of 2, expected', 1),
        ([[1.0], [[1]]], '"params" is a list of 1, expected', 1),
        ([{"a": 1.0}], "value an object of 1", 1),
        ([None, [[str(i) for i in range(200)]] * 3], "taken for damage", 200**3),
    ],
)
def test_rows_that_cannot_be_used(cells: list[Any], said: str, lost: int) -> None:
    """A row whose values have no certain meaning is left out with a reason, and the others are kept."""
    parsed = parse(document({"time_bad": cells, "time_good": row([5.0])}))
    assert said in reasons(parsed)
    assert {fault.row for fault in parsed.faults} == {"time_bad"}
    assert sum(fault.n_values for fault in parsed.faults) == lost
    assert parsed.values[parsed.status == OK].tolist() == [5.0]


@pytest.mark.parametrize(
    ("position", "cell", "said"),
    [
        (5, [1.0, 2.0], '"stats_ci_99_a" is a list of 2, expected a list of 1: ignored'),
        (5, ["a"], '"stats_ci_99_a" holds something else than numbers'),
        (6, "wide", "\"stats_ci_99_b\" is 'wide'"),
        (10, [[10]], '"stats_repeat" holds something else than numbers'),
        (2, ["v"], '"version" is a list of 1, expected a string'),
        (11, [["a"]], '"samples" holds a list of 1, expected a list of numbers'),
    ],
)
def test_damaged_statistics_do_not_cost_the_value(position: int, cell: Any, said: str) -> None:
    """Statistics, versions or samples that are damaged are ignored and reported; the value counts."""
    cells = row([1.0], samples=[[1.0]])
    cells[position] = cell
    parsed = parse(document({"time_x": cells}), spread=True)
    assert parsed.values.tolist() == [1.0]
    assert said in reasons(parsed)
    assert sum(fault.n_values for fault in parsed.faults) == 0


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not valid JSON"),
        (b'{"results": {"a": [[1.0', "truncated or damaged"),
        (b"null", "not an asv results file: expected an object"),
        (b"[1, 2]", "got a list"),
        (b'{"a": 1}', "got ['a']"),
        (b'{"results": 3}', "not an asv results file"),
        (b"[" * 100_000, "not"),
        (b"\xff\xfe{\x00}\x00", "invalid UTF-8 at byte 0 of 6"),
    ],
)
def test_files_that_cannot_be_used(data: bytes, said: str) -> None:
    """What is no results file is a fault of the file, with where and what."""
    parsed = parse(data)
    assert said in reasons(parsed)
    assert len(parsed.values) == 0
    assert all(fault.row == "" for fault in parsed.faults)


def test_invalid_utf8_costs_the_rows_it_touches() -> None:
    """A bad byte in a benchmark's name leaves out that row; the file's other rows are read."""
    content = document({"time_bad": row([1.0, 2.0], [["1", "2"]]), "time_good": row([5.0])})
    data = json.dumps(content).encode().replace(b"time_bad", b"time_\xffad")
    parsed = parse(data)
    assert parsed.values[parsed.status == OK].tolist() == [5.0]
    assert sum(fault.n_values for fault in parsed.faults) == 2
    assert "time_\\udcffad: its name, version or parameters are damaged text" in reasons(parsed)
    reasons(parsed).encode()


def test_head_without_a_place() -> None:
    """Values whose commit or environment nobody knows are all left out, and counted."""
    content = document({"time_x": row([1.0, 2.0], [["1", "2"]])}, commit_hash=None)
    lost = parse(content, name="renamed.json")
    assert (len(lost.values), sum(fault.n_values for fault in lost.faults)) == (0, 2)
    assert '"commit_hash" is null and the file name holds none' in reasons(lost)
    found = parse(content, name="0123abcd-env.json")
    assert found.head.commit == "0123abcd"
    assert len(found.values) == 2


@pytest.mark.parametrize("date", [None, "today", math.nan, math.inf, 1e30, [1]])
def test_no_date(date: Any) -> None:
    """A date that is none is reported and the values are kept."""
    parsed = parse({**document({"time_x": row([1.0])}), "date": date})
    assert parsed.head.date_ms is None
    assert '"date" is' in reasons(parsed)
    assert len(parsed.values) == 1


@pytest.mark.parametrize("columns", [None, "result", 7, [], ["params"], [["result"]], {}])
def test_damaged_column_names(columns: Any) -> None:
    """Without the names of the cells no value is taken from a row of format 2, and every row is reported."""
    parsed = parse({**document({"time_x": row([1.0])}), "result_columns": columns})
    assert len(parsed.values) == 0
    assert "time_x" in {fault.row for fault in parsed.faults}


def test_columns_in_another_order() -> None:
    """Cells are found by name, whatever their order; unknown and repeated names are reported."""
    content = document({"time_x": [["x"], "v9", [], [3.0]]})
    content["result_columns"] = ["news", "version", "params", "result", "result"]
    parsed = parse(content)
    assert parsed.values.tolist() == [3.0]
    assert rows(parsed) == [["time_x", "v9", []]]
    assert "'news', which is not known" in reasons(parsed)
    assert "names 'result' twice" in reasons(parsed)


def test_all_columns_of_asv_are_known() -> None:
    """What asv itself writes is not reported as unknown."""
    parsed = parse({**document({}), "result_columns": COLUMNS})
    assert parsed.faults == []


def test_addresses() -> None:
    """Parameters that differ by a memory address only are told apart by their order, as newer asv does."""
    params = [["<function f at 0x7f3a>", "<function f at 0x7f3b>", "<class 'a.B'>", "'at 0x12'"]]
    assert stable_params(params) == [["<function f> (0)", "<function f> (1)", "<class 'a.B'>", "'at 0x12'"]]


def test_default_units() -> None:
    """Without benchmarks.json the unit follows from the name, as in asv."""
    names = ["a.B.time_x", "timeraw_x", "peakmem_x", "a.mem_x", "track_x", "timely", "other_x"]
    assert [default_unit(name) for name in names] == [
        "seconds", "seconds", "bytes", "bytes", "unit", "", ""
    ]  # fmt: skip


def test_a_benchmark_named_twice_is_reported() -> None:
    """JSON keeps the last of two equal keys; the first one's values are counted as left out."""
    text = json.dumps(document({"time_x": row([1.0, 2.0], [["1", "2"]]), "time_y": row([3.0])}))
    parsed = parse(text.replace('"time_y"', '"time_x"').encode())
    assert parsed.values.tolist() == [3.0]
    assert [(f.row, f.n_values) for f in parsed.faults] == [("time_x", 2)]
    assert "twice in this file" in reasons(parsed)


def test_any_key_named_twice_is_reported() -> None:
    """Two environments, and two whole sets of results: the last one counts, and the first one's loss is told."""
    text = json.dumps(document({"time_x": row([1.0])}))
    parsed = parse(
        ('{"env_name": "other", "results": {"time_z": [[1.0, 2.0], [["1", "2"]]]},' + text[1:]).encode()
    )
    assert parsed.head.env == "venv-py3.12"
    assert [f.n_values for f in parsed.faults] == [0, 2]
    assert '"results" is in one object twice' in reasons(parsed)


def test_text_that_looks_like_keys_is_no_repetition() -> None:
    """Quotes and colons in parameters, and a layout of one's own, are fine."""
    choices = [['{"a": 1, "a": 2}', "'b': c", '" : ']]
    content = document({"time_x": row([1.0, 2.0, 3.0], choices)})
    assert parse(content).faults == []
    assert parse(json.dumps(content, indent=1, separators=(" , ", " : ")).encode()).faults == []
