"""The peers' table, from a small table of results."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mlxcache.runner.peers_table import as_text, peers_table


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
    # 32 layers, K and V of 8 heads of 128 float16: 131,072 bytes read and as many written
    assert row["limit"] == pytest.approx(2 * 131_072 / 10e9)
    assert "750 (0.80)" in as_text(peers_table(table))


def test_a_chunk_moves_as_many_bytes_as_it_has_tokens() -> None:
    """128 tokens take 128 times a token's limit; a machine whose bandwidth was not measured has none."""
    table = pd.DataFrame(
        [
            _row("peers.Prefill.time_chunk", "'mlxcache', 128", 5e-3),
            _row("peers.Ring.time_step", "'mlxcache', 256", 4e-4) | {"machine": "other"},
            _row("limits.Limits.track_copy_bandwidth", "", 10.0),
        ]
    )
    chunk, ring = peers_table(table).to_dict("records")
    assert chunk["limit"] == pytest.approx(128 * 2 * 131_072 / 10e9)
    assert np.isnan(ring["limit"])
    lines = as_text(peers_table(table)).splitlines()
    assert [line.split()[-1] for line in lines if line.lstrip().startswith(("prefill", "ring"))] == [
        "3.36e+03",
        "-",
    ]


def test_no_peers_is_an_error_that_says_what_to_run() -> None:
    """A tree without the suite's peers says how to get them."""
    with pytest.raises(ValueError, match="mlxcache bench --bench peers"):
        peers_table(pd.DataFrame([_row("decode.Decode.time_step", "'int32', 64, 128", 1.0)]))
