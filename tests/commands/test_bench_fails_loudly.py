"""`mlxcache bench` on what measures nothing: status 2 with the reason, never 0 and never 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlxcache.cli import main
from tests.tiny_project import BENCHMARKS, EXISTING, commit, git, make_project

pytestmark = pytest.mark.usefixtures("own_home")

SKIPPING = """
class Suite:
    def setup(self):
        raise NotImplementedError("needs a GPU")

    def time_x(self):
        pass

def time_control():
    sum(range(50))
"""


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the project that the test makes, in which it runs."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_run_that_measures_has_status_0(inside: Path) -> None:
    """The comparison for all below."""
    make_project(inside)
    assert main(["bench", *EXISTING]) == 0
    (file,) = (inside / "results").glob("*/*-existing*.json")
    assert "bench.time_sum" in json.loads(file.read_text())["results"]


def test_no_matching_benchmark(inside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """asv ends with 1, which would read as a regression."""
    make_project(inside)
    assert main(["bench", *EXISTING, "--bench", "no_such"]) == 2
    assert "no benchmark ran: nothing matches --bench" in capfd.readouterr().err


def test_no_environment(inside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An interpreter that is not there."""
    make_project(inside)
    assert main(["bench", "-E", "virtualenv:3.2", "HEAD^!"]) == 2
    told = capfd.readouterr().err
    assert "no environment could be made: install an interpreter" in told
    assert "No executable found for python 3.2" in told


def test_an_empty_range(inside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing to measure is not a success."""
    make_project(inside)
    assert main(["bench", "HEAD..HEAD"]) == 2
    assert "no commit was selected: the range is empty" in capfd.readouterr().err


def test_a_suite_that_skips_itself(inside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """asv ends with 0, and the control, which never skips, does not make it green."""
    make_project(inside, SKIPPING)
    assert main(["bench", *EXISTING]) == 2
    assert "gave no value: all 1 benchmarks skipped themselves" in capfd.readouterr().err


def test_a_suite_that_cannot_be_imported(inside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An import error is no measurement."""
    make_project(inside, "import no_such_module\n\ndef time_x():\n    pass\n")
    assert main(["bench", *EXISTING]) == 2
    assert "mlxcache bench: " in capfd.readouterr().err


def test_a_failing_benchmark(inside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What did not fail is kept, the status tells."""
    make_project(inside, BENCHMARKS + "\n\ndef time_broken():\n    raise RuntimeError('broken')\n")
    assert main(["bench", *EXISTING]) == 2
    assert "what had finished is kept" in capfd.readouterr().err
    (file,) = (inside / "results").glob("*/*-existing*.json")
    assert "bench.time_sum" in json.loads(file.read_text())["results"]


def test_earlier_results_do_not_make_a_run_green(inside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Only what this run measured counts: here it measured a benchmark that skips itself."""
    make_project(inside, BENCHMARKS + SKIPPING.replace("Suite", "Skips").partition("def time_control")[0])
    assert main(["bench", *EXISTING, "--bench", "time_sum"]) == 0
    capfd.readouterr()
    assert main(["bench", *EXISTING, "--bench", "Skips"]) == 2
    assert "skipped themselves" in capfd.readouterr().err


def test_the_controls_alone_are_a_measurement(inside: Path) -> None:
    """Whoever asks for them gets them."""
    make_project(inside)
    assert main(["bench", *EXISTING, "--bench", "control"]) == 0


def test_a_shallow_clone(
    inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ranges end early in it; --shallow says that this is known."""
    make_project(inside)
    commit(inside, "second", tiny_py="VALUE = 2\n")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", inside.as_uri(), str(clone))
    monkeypatch.chdir(clone)
    assert main(["bench", *EXISTING]) == 2
    told = capfd.readouterr().err
    assert "is a shallow clone" in told
    assert "git fetch --unshallow" in told
    assert main(["bench", *EXISTING, "--shallow"]) == 0


def test_a_damaged_configuration(inside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """No traceback, but the file's name."""
    make_project(inside)
    (inside / "asv.conf.json").write_text("{")
    assert main(["bench", *EXISTING]) == 2
    assert "asv.conf.json" in capfd.readouterr().err


@pytest.mark.slow
def test_a_project_that_cannot_be_built(inside: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A real environment, a build that fails; and in a range, the commit that builds is measured all the same."""
    fails = "import os, sys; sys.exit(os.path.exists('broken'))"
    build, matrix = [f'python -c "{fails}"'], {"req": {"pip+asv_runner": ["0.3.2"]}}
    make_project(inside, build_command=build, matrix=matrix)
    commit(inside, "broken", broken="")
    assert main(["bench", "HEAD^!", "--rounds", "1"]) == 2
    assert "the project could not be built, so no benchmark ran" in capfd.readouterr().err
    assert not list((inside / "results").glob("*/*-virtualenv*.json"))
    (inside / "broken").unlink()
    commit(inside, "mended")
    assert main(["bench", "HEAD~2..HEAD", "--rounds", "1"]) == 2
    told = capfd.readouterr().err
    assert f"commit {git(inside, 'rev-parse', 'HEAD~1')[:10]} gave no value: all" in told
    assert len(list((inside / "results").glob("*/*-virtualenv*.json"))) == 2
