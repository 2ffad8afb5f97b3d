"""Rules that join machines; without one, each is its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from result_trees import document, row, write_document

from mlxcache.history import load
from mlxcache.history.asv.machines import RuleError, as_rules, kind_of

M1 = {"arch": "arm64", "cpu": "Apple M1", "ram": "16"}


@pytest.mark.parametrize(
    ("rules", "kind"),
    [
        ([], "runner-17"),
        (["runner-.*=ci"], "ci"),
        (["runner=ci"], "runner-17"),
        ([r"runner-(\d)\d=ci\1"], "ci1"),
        (["cpu~Apple (M.)=apple-\\1"], "apple-M1"),
        (["nosuch~.*=x"], "runner-17"),
        (["cpu,arch"], "Apple M1, arm64"),
        (["cpu"], "Apple M1"),
        (["cpu,gpu"], "runner-17"),
        (["other=a", "runner-.*=b", ".*=c"], "b"),
    ],
)
def test_rules(rules: list[str], kind: str) -> None:
    """The first rule that applies says what a machine counts as."""
    assert kind_of("runner-17", M1, as_rules(rules)) == kind


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("", "no NAME after '='"),
        ("runner", "no NAME after '='"),
        ("run.*", "expected REGEX=NAME"),
        ("=ci", "REGEX is empty"),
        ("runner=", "NAME is empty"),
        ("run(=ci", "'run(' is no regular expression"),
        (r"runner=\3", "does not fit 'runner'"),
        ("cpu~=x", "REGEX is empty"),
    ],
)
def test_malformed_rules(rule: str, said: str) -> None:
    """A malformed rule is an error that shows the rule and what is wrong with it."""
    with pytest.raises(RuleError, match="machine rule") as caught:
        as_rules([rule])
    assert said in str(caught.value)
    assert repr(rule) in str(caught.value)


def make(root: Path) -> Path:
    """Three hosts, two of them of one kind."""
    facts: dict[str, dict[str, Any]] = {"host-1": M1, "host-2": M1, "big": {**M1, "cpu": "Apple M4"}}
    for number, (host, known) in enumerate(facts.items(), 1):
        content = document({"time_x": row([1.0])}, number=number, params={"machine": host, **known})
        write_document(root, content)
    return root


def test_apart_by_default(tmp_path: Path) -> None:
    """Without rules every host has series of its own."""
    df = load(make(tmp_path))
    assert df.series.nunique() == 3
    assert set(df.facts.machines) == {"host-1", "host-2", "big"}
    assert "host" not in df.columns


def test_joined_by_rule(tmp_path: Path) -> None:
    """Hosts that a rule joins share a series, and the column host tells them apart."""
    df = load(make(tmp_path), machine_rules=["cpu,arch"])
    assert df.series.nunique() == 2
    joined = df[df.machine == "Apple M1, arm64"]
    assert joined.host.tolist() == ["host-1", "host-2"]
    assert df.facts.machines["Apple M1, arm64"]["hosts"] == ["host-1", "host-2"]


def test_facts_without_machine_json(tmp_path: Path) -> None:
    """Where machine.json is missing, what the results say of the machine serves the rules as well."""
    make(tmp_path)
    for path in tmp_path.glob("*/machine.json"):
        path.unlink()
    df = load(tmp_path, machine_rules=["cpu"])
    assert set(df.machine) == {"Apple M1", "Apple M4"}
    assert {problem.file for problem in df.attrs["problems"]} == {
        str(tmp_path / name / "machine.json") for name in ("host-1", "host-2", "big")
    } | {str(tmp_path / "benchmarks.json")}
