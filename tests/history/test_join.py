"""Joining two results files: what is there stays, gaps are filled, everything else is told."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from result_trees import document, row
from test_damaged_trees import json_values, paths_in

from mlxcache.history.merging.join import JoinError, join_results, same, to_format_2

NAN = math.nan
cells = st.lists(st.sampled_from([NAN, None, 1.0, 2.0]), min_size=4, max_size=4)
PARAMS = [["1", "2"], ["'a'", "'b'"]]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(mine=cells, theirs=cells)
def test_each_value(mine: list[Any], theirs: list[Any]) -> None:
    """Value by value: NaN gives way, the same is the same, and all else stays and is a conflict."""
    first, second = document({"t": row(mine, PARAMS)}), document({"t": row(theirs, PARAMS)})
    untouched = copy.deepcopy(second)
    joined = join_results(first, second)
    assert same(second, untouched)
    found = (joined.document or first)["results"]["t"]
    result = found[0] if found[0] is not None else [None] * 4
    expected = [b if same(a, NAN) else a for a, b in zip(mine, theirs, strict=True)]
    assert same(result, expected)
    differ = [not same(a, b) and not same(a, NAN) and not same(b, NAN) for a, b in zip(mine, theirs, strict=True)]
    assert len(joined.conflicts) == sum(differ)
    if found[5] is not None:  # the interval came with its value
        assert [low is None or same(low, NAN) for low in found[5]] == [
            value is None or same(value, NAN) for value in expected
        ]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**20), replacement=json_values, swap=st.booleans(), old=st.booleans())
def test_damaged_documents(seed: int, replacement: Any, swap: bool, old: bool) -> None:
    """Whatever a file holds, joining ends with an outcome or a JoinError, and never loses an intact row."""
    intact = document({"time_kept": row([1.0, NAN, 3.0, 4.0], PARAMS), "time_b": row([2.0])})
    damaged = document({"time_kept": row([1.0, 2.0, 3.0, 4.0], PARAMS), "time_c": row([2.0])})
    if old:
        del damaged["result_columns"]
        kept = {"result": [1.0] * 4, "params": PARAMS, "stats": [None] * 4}
        damaged["results"] = {"time_kept": kept, "time_c": 1}
    damaged = copy.deepcopy(damaged)
    *parents, last = random.Random(seed).choice(paths_in(damaged))
    holder: Any = damaged
    for key in parents:
        holder = holder[key]
    holder[last] = replacement
    with contextlib.suppress(JoinError):
        joined = join_results(damaged, intact) if swap else join_results(intact, damaged)
        if joined.document is not None:
            json.dumps(joined.document)
            assert {"time_kept", "time_b"} <= set(joined.document["results"])


def test_format_2_is_returned_as_it_is() -> None:
    """A document of format 2 is not changed."""
    content = document({"t": row([1.0])})
    assert to_format_2(content) == content


@pytest.mark.parametrize(("key", "value"), [("commit_hash", "f" * 40), ("env_name", "other")])
def test_other_commit_or_environment(key: str, value: str) -> None:
    """Files of different commits or environments are not joined, whatever their names."""
    with pytest.raises(JoinError, match=key):
        join_results(document({}), {**document({}), key: value})


def test_circumstances_are_noted() -> None:
    """Facts that differ between runners are kept as they were and noted with both."""
    joined = join_results(document({}), {**document({"t": row([1.0])}), "python": "3.13"})
    assert joined.notes == ["\"python\" differs: kept as it was ('3.13' here and '3.12' there)"]
    assert joined.document is not None
    assert joined.document["python"] == "3.12"
