"""Rows laid out by series: the same whether they come in commit order or not."""

from __future__ import annotations

import numpy as np
import pytest

from mlxcache.history.loading.by_series import by_series, first_places


@pytest.mark.parametrize("dtype", [np.int32, np.float64])
def test_any_order_of_rows(dtype: type) -> None:
    """Rows in commit order and others end alike; equal commits keep their order, -1 is a series."""
    rng = np.random.default_rng(5)
    commits = np.sort(rng.integers(0, 40, 600)).astype(np.int32)
    series = rng.integers(-1, 30, 600).astype(np.int32)
    series[series == 7] = 8  # a number that no row has
    data = np.arange(600).astype(dtype)
    laid_out = by_series(series, commits, data)
    order = np.lexsort((commits, series))
    assert laid_out.commits.tolist() == commits[order].tolist()
    assert laid_out.data.tolist() == data[order].tolist()
    assert laid_out.numbers.tolist() == sorted(set(series.tolist()))
    for number, start, stop, repeats in zip(
        laid_out.numbers, laid_out.starts, laid_out.stops, laid_out.repeats, strict=True
    ):
        own = commits[series == number].tolist()
        assert laid_out.commits[start:stop].tolist() == own
        assert repeats == (len(set(own)) < len(own))
    shuffled = rng.permutation(600)
    other = by_series(series[shuffled], commits[shuffled], data[shuffled])
    assert other.numbers.tolist() == laid_out.numbers.tolist()
    assert other.commits.tolist() == laid_out.commits.tolist()
    assert sorted(other.data.tolist()) == sorted(data.tolist())


def test_no_rows() -> None:
    """An empty table has no series."""
    none = np.empty(0, np.int32)
    assert len(by_series(none, none, none).numbers) == 0


@pytest.mark.parametrize("numbers", [[0, 0, 2, 2, 5], [3, 1, 1, 0, 3], [900, 1, 2], [-4, 2], []])
def test_first_places_are_those_of_unique(numbers: list[int]) -> None:
    """In order, out of order, too large to count and negative."""
    array = np.array(numbers, np.int32)
    values, first = np.unique(array, return_index=True)
    found = first_places(array)
    assert (found[0].tolist(), found[1].tolist()) == (values.tolist(), first.tolist())
