"""The peers' table, from a small table of results."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mlxcache.runner.peers_table import BYTES_PER_TOKEN, as_text, peers_table


def _row(benchmark: str, params: str, value: float, index: int = 1) -> dict[str, object]:
    samples = None if benchmark.startswith("limits") else np.array([value, value * 2, value * 3])
    return {
        "machine": "m",
        "env": "e",
        "commit": "abcdef0123",
        "commit_index": index,
        "benchmark": benchmark,
        "params": params,
        "value": value,
        "samples": samples,
        "status": "ok",
    }


def test_each_step_has_its_caches_and_the_limit() -> None:
    """Ours, the peers with our time over theirs, and bytes over bandwidth; only the newest commit."""
    table = pd.DataFrame(
        [
            _row("peers.Decode.time_step", "'mlxcache', 1024", 400e-6),
            _row("peers.Decode.time_step", "'KVCache', 1024", 500e-6),
            _row("peers.Decode.time_step", "'KVCache', 1024", 900e-6, index=0),
            _row("limits.Limits.track_copy_bandwidth", "", 10.0),
        ]
    )
    (row,) = peers_table(table).to_dict("records")
    assert (row["step"], row["commit"]) == ("decode 1024", "abcdef01")
    assert row["mlxcache"] == pytest.approx(600e-6)
    assert row["KVCache"] == pytest.approx(750e-6)
    assert row["limit"] == pytest.approx(BYTES_PER_TOKEN / 10e9)
    assert "750 (0.80)" in as_text(peers_table(table))


def test_no_peers_is_an_error_that_says_what_to_run() -> None:
    """A tree without the suite's peers says how to get them."""
    with pytest.raises(ValueError, match="mlxcache bench --bench peers"):
        peers_table(pd.DataFrame([_row("decode.Decode.time_step", "'int32', 64, 128", 1.0)]))
