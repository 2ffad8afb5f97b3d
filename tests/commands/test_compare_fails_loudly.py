"""`mlxcache compare` on what it cannot judge: no green verdict on what did not run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mlxcache.cli import main
from mlxcache.history.comparing.lost import lost_in_rounds
from mlxcache.history.repository.full_history import is_shallow
from mlxcache.remeasure.rounds import MeasureError, Rounds
from tests.tiny_project import commit, git, make_project

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of two commits, in which the test runs."""
    folder = make_project(tmp_path / "project")
    commit(folder, "second", tiny_py="VALUE = 2\n")
    monkeypatch.chdir(folder)
    return folder


def rounds(*benchmarks: str, head: tuple[str, ...] | None = None, version: str = "1") -> pd.DataFrame:
    """Rounds of equal values for these benchmarks; `head` names those that ran there too."""
    rows = [
        {
            "machine": "m1",
            "env": "e1",
            "benchmark": name,
            "params": "",
            "version": version if side == "head" else "1",
            "unit": "seconds",
            "round": number,
            "side": side,
            "value": 1.0 + number / 1000,
            "samples": 10,
        }
        for name in benchmarks
        for side in ("base", "head")
        for number in range(10)
        if side == "base" or head is None or name in head
    ]
    return pd.DataFrame(rows)


def measured(monkeypatch: pytest.MonkeyPatch, answer: pd.DataFrame | Exception) -> None:
    """Let the measuring end with this."""

    def measure(*_: Any, **__: Any) -> Rounds:
        if isinstance(answer, Exception):
            raise answer
        return Rounds(answer)

    monkeypatch.setattr("mlxcache.commands.compare.measure", measure)


def test_a_shallow_clone_has_no_verdict(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, and the JSON says that there is none."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", project.as_uri(), str(clone))
    monkeypatch.chdir(clone)
    assert is_shallow(".")
    assert main(["compare", "HEAD", "HEAD", "--format", "json"]) == 2
    told = capsys.readouterr()
    assert json.loads(told.out)["verdict"] is None
    assert "`git fetch --unshallow` gets the rest" in told.err


@pytest.mark.parametrize(
    "reason",
    [
        "head 1234 cannot be built in env1: no compiler",
        "asv found no usable environment in asv.conf.json; `asv check` says more",
        "no benchmark matches no_such",
        "not one value was measured: every benchmark was skipped",
    ],
)
def test_what_measuring_could_not_do_is_the_comment(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reason: str
) -> None:
    """A build error, no environment, no benchmark, a skipped suite: status 2, the reason in every format."""
    measured(monkeypatch, MeasureError(reason))
    for form in ("text", "json", "markdown"):
        assert main(["compare", "HEAD~1", "HEAD", "--measure", "--format", form]) == 2
        told = capsys.readouterr()
        assert reason in told.err
        assert form == "text" or reason in told.out


def test_a_benchmark_that_broke_on_head_is_not_green(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are as fast as they were; what is lost is named and the verdict is open."""
    measured(monkeypatch, rounds("b.time_good", "b.time_broken", head=("b.time_good",)))
    assert main(["compare", "HEAD~1", "HEAD", "--measure"]) == 4
    out = capsys.readouterr().out
    assert out.splitlines()[2] == "broken or lost on head (1): b.time_broken"
    assert "1 series ran on base and gave no value on head, so nothing is known about it: b.time_broken" in out
    measured(monkeypatch, rounds("b.time_good"))
    assert main(["compare", "HEAD~1", "HEAD", "--measure"]) == 0


def test_a_changed_benchmark_is_told_from_a_lost_one() -> None:
    """New code or another environment is a reason not to compare, and no reason to doubt head."""
    frame = pd.concat([rounds("b.time_same"), rounds("b.time_new_code", version="2")])
    lost = lost_in_rounds(frame)
    assert (lost.missing, lost.elsewhere) == ((), ("b.time_new_code",))
    assert "cannot be compared, since the benchmark's own code" in lost.notices()[0]


def test_a_dead_runners_shard_is_missed(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stored results of head lack half of the suite: the verdict on the other half is not the whole."""
    for revision, names in (("HEAD~1", ("b.time_a", "b.time_b")), ("HEAD", ("b.time_a",))):
        name = git(project, "rev-parse", revision)
        folder = project / "results" / "m1"
        folder.mkdir(parents=True, exist_ok=True)
        document = {
            "commit_hash": name,
            "env_name": "e1",
            "date": 1_700_000_000_000,
            "params": {"machine": "m1"},
            "python": "3.12",
            "requirements": {},
            "env_vars": {},
            "result_columns": ["result", "params", "version"],
            "results": {benchmark: [[0.001], [], "1"] for benchmark in names},
            "durations": {},
            "version": 2,
        }
        (folder / f"{name[:8]}-e1.json").write_text(json.dumps(document))
    assert main(["compare", "HEAD~1", "HEAD"]) == 4
    assert "nothing is known about it: b.time_b" in capsys.readouterr().out
    assert main(["compare", "HEAD~1", "HEAD", "--bench", "time_a"]) in (0, 3)
    assert "time_b" not in capsys.readouterr().out
