"""Which way is worse, and which commits cannot have changed anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from frames import commit_file, git
from result_trees import document, row, write_benchmarks, write_document

from mlxcache.cli import main
from mlxcache.history.changes.documentation import documentation_only, is_documentation
from mlxcache.history.loading.direction import (
    Basis,
    Better,
    assumed_notice,
    better_of,
    direction_of,
    higher_is_better,
)

RATES = """
ops/s|GB/s|tokens per second|MiB / sec|GFLOPS|Mbps|hit rate|Hz|queries per minute|events/min|records/h
calls/ms|lookups/us|lookups/µs|ops|TPS|QPS|RPS|kHz|GHz|MLUPS|cells/ns|tokens per day|gflopss|GFLOP s^-1
tokens s-1|1/ms|/s|s⁻¹|accuracy (%)|accuracy in %|speed-up|ns/day|simulated years per day|tokens/s/GPU
tokens/(s*core)|frames/J|FLOPS/W|tokens/$|GFLOPS/core|kIOPS|GTEPS|requests_per_second|requests-per-minute
req/100ms|rows a second|instructions per cycle|bytes/cycle|Gbits per second|QPM|rpm|Mpps|txn/min
samples per millisecond|pts (higher is better)|dB ↑
"""
COSTS = """
seconds|bytes|calls|ms|MiB|s/token|bytes/call|ns/op|us per step|errors/s|cache misses per hour
J/inference|$/Mtoken|dropped frames per second|miss rate|error rate|loss|cycles/byte|watts|J/s
flops/token|MB/request|latency (ms)|instructions|timeouts/min|h|min|cpi|GB (lower is better)
"""
UNKNOWN = "|unit|share|ratio|%|x|foo|tokens/step|ms/s|maps|steps"


@pytest.mark.parametrize("unit", RATES.strip().replace("\n", "|").split("|"))
def test_rates_and_gains_are_better_high(unit: str) -> None:
    """Work for time of any base, for energy or money, rates and gains by name."""
    assert better_of(unit) == Better(True, Basis.UNIT)


@pytest.mark.parametrize("unit", COSTS.strip().replace("\n", "|").split("|"))
def test_costs_are_better_low(unit: str) -> None:
    """Times, sizes, what a piece of work costs, and harm, also where it comes by the second."""
    assert better_of(unit) == Better(False, Basis.UNIT)


@pytest.mark.parametrize("unit", UNKNOWN.split("|"))
def test_what_no_unit_tells_is_assumed_and_said(unit: str) -> None:
    """Less is taken to be better, and there is a sentence that names unit and benchmark."""
    assert better_of(unit) == Better(False, Basis.ASSUMED)
    said = assumed_notice([("m.track_x", unit), ("m.time_y", "seconds")])
    assert (repr(unit) if unit else "unit none") in said
    assert "track_x.direction" in said
    assert "1 benchmark;" in said
    assert not assumed_notice([("m.time_y", "seconds"), ("m.track_x", "ops/h")])


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("m.track_accuracy", "%", Better(True, Basis.NAME)),
        ("m.C.track_hitRate", "unit", Better(True, Basis.NAME)),
        ("m.track_accuracy_loss", "%", Better(False, Basis.NAME)),
        ("m.time_accuracy", "seconds", Better(False, Basis.UNIT)),
        ("accuracy.track_x", "%", Better(False, Basis.ASSUMED)),
        ("m.track_accuracy", "foo", Better(False, Basis.ASSUMED)),
    ],
)
def test_a_name_tells_where_the_unit_is_bare(name: str, unit: str, expected: Better) -> None:
    """Per cent of what is in the benchmark's own name; its module, or a unit of a meaning, do not count."""
    assert better_of(unit, {"name": name}) == better_of(unit, None, name) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"direction": "higher"}, True),
        ({"better": "Lower"}, False),
        ({"goal": "maximize"}, True),
        ({"higher_is_better": True}, True),
        ({"lower_is_better": True}, False),
        ({"direction": "sideways"}, True),
        ({"direction": 3}, True),
        ({}, True),
    ],
)
def test_the_benchmarks_own_word_comes_first(facts: dict[str, object], expected: bool) -> None:
    """An attribute that makes sense beats the unit ("ops/s" here), one that does not is ignored."""
    assert higher_is_better("ops/s", facts) is expected


def test_direction_of_a_change() -> None:
    """Sign and preference together."""
    assert direction_of(0.1, False) == direction_of(-0.1, True) == "regression"
    assert direction_of(-0.1, False) == direction_of(0.1, True) == "improvement"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("README.md", True),
        ("docs/conf.py", True),
        ("CHANGELOG", True),
        ("LICENSE.txt", True),
        (".github/workflows/ci.yml", True),
        ("results/m1/abc-env.json", True),
        ("src/changes.py", False),
        ("news.py", False),
        ("requirements.txt", False),
        ("benchmarks/time_docs.py", False),
        ("pyproject.toml", False),
    ],
)
def test_documentation_is_known_by_path(path: str, expected: bool) -> None:
    """What people and CI read; nothing that a benchmark could import or be built from."""
    assert is_documentation(path) is expected


@pytest.mark.parametrize("command", ["regressions", "compare", "dashboard"])
def test_commands_say_what_they_assume(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each answer names the unit for which less was taken to be better, and is silent where all is known."""
    git(tmp_path, "init", "-q")
    commits = [commit_file(tmp_path, "code.py", str(number)) for number in range(7)]
    words = {
        "compare": ["compare", commits[0], commits[-1], "--exact-base"],
        "dashboard": ["dashboard", "--out", str(tmp_path / "site")],
    }.get(command, [command])
    for unit in ("furlongs", "ops/min"):
        results = tmp_path / unit.partition("/")[0]
        write_benchmarks(results, {"m.track_x": {"type": "track", "unit": unit}})
        for number, name in enumerate(commits):
            content = document({"m.track_x": row([1.0 + number % 2 / 100])}, number=number, commit_hash=name)
            write_document(results, content)
        assert main([*words, "--results", str(results), "--repo", str(tmp_path)]) != 2
        said = capsys.readouterr().out
        if command == "dashboard":
            said = "".join(path.read_text() for path in (tmp_path / "site").glob("*.html"))
        assert ("furlongs" in said and "less is taken to be better" in said) == (unit == "furlongs")


def test_ranges_of_documentation(tmp_path: Path) -> None:
    """A range counts if nothing else differs between its ends.

    Names with blanks and newlines are read right.
    """
    git(tmp_path, "init", "-q")
    code = commit_file(tmp_path, "code.py", "1")
    words = commit_file(tmp_path, "docs/a b.rst", "1")
    more = commit_file(tmp_path, "README.md", "1")
    mixed = commit_file(tmp_path, "code.py", "2")
    empty = git(tmp_path, "commit-tree", "-p", mixed, "-m", "same tree", f"{mixed}^{{tree}}")
    ranges = [(code, words), (code, more), (words, more), (more, mixed), (code, mixed), (mixed, empty)]
    assert documentation_only(tmp_path, [*ranges, (code, "0" * 40)]) == set(ranges[:3])


def test_without_a_repository_nothing_is_known(tmp_path: Path) -> None:
    """No error: a change is then judged as if it touched code."""
    assert documentation_only(tmp_path, [("a" * 40, "b" * 40)]) == set()
    assert documentation_only(tmp_path, []) == set()
