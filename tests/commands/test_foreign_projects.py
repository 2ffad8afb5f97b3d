"""Measuring in another project, with asv for real: what is measured is what was asked, or there is no verdict."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mlxcache.reports.comparison import ReportError, read_json
from mlxcache.support.sessions import members
from tests.commands.micro_project import BENCH, Micro
from tests.tiny_project import ROOT, git

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_home")]


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: what costs time is making them, not installing a file."""
    return tmp_path_factory.mktemp("env")


@pytest.fixture
def micro(tmp_path: Path, environments: Path, monkeypatch: pytest.MonkeyPatch) -> Micro:
    """The project on a branch, with nothing on it yet; a temporary folder in which nothing may be left."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    made = Micro(tmp_path / "micro", environments)
    git(made.folder, "checkout", "-q", "-b", "pr")
    return made


def test_a_head_that_cannot_be_imported_is_no_verdict(micro: Micro, environments: Path) -> None:
    """Status 2 with file and side; the tip of another branch is never measured in its place."""
    head = micro.commit("broken", {"micro/__init__.py": "import nothere_xyz\n"})
    told = micro.compare("--bench", "track_work", check=2)
    assert "cannot be imported on head" in told.stderr
    assert "benchmarks/bench.py: ModuleNotFoundError: No module named 'nothere_xyz'" in told.stderr
    (status,) = environments.glob("compare/head/*/asv-install-status.json")
    assert json.loads(status.read_text())["commit_hash"] == head
    micro.commit("worse", {"micro/__init__.py": "WORK = 3000\n"})
    found = micro.run(
        "bisect", "bench.track_work", "--good", micro.base, "--bad", "HEAD", "--rounds", "4", check=3
    )
    assert f"{head[:10]} cannot be measured: " in found.stderr
    assert head in found.stdout  # a suspect, since nobody can know


def test_what_head_lost_is_named_at_once(micro: Micro) -> None:
    """Removed, with other parameters, or in a file that head cannot import: status 4, above everything else."""
    suite = BENCH + "\n\ndef track_sized(n):\n    return n\n\n\ntrack_sized.params = [{}]\n"
    micro.base = micro.commit(
        "sized",
        {"benchmarks/bench.py": suite.format("1, 2"), "benchmarks/more.py": "def track_m():\n    return 1\n"},
    )
    micro.commit(
        "head",
        {
            "benchmarks/bench.py": suite.format("1, 3").replace("def track_other", "def track_renamed"),
            "benchmarks/more.py": "def track_m(:\n    return 1\n",
        },
    )
    told = micro.compare(check=4)
    line = told.stdout.splitlines()[2]
    assert line.startswith("broken or lost on head (3): ")
    assert all(name in line for name in ("bench.track_other", "bench.track_sized(2)", "more.track_m"))
    assert "benchmarks/more.py cannot be imported on head: SyntaxError" in told.stdout


@pytest.mark.parametrize(
    ("files", "lost"),
    [
        ({"benchmarks/bench.py": ""}, "removed or renamed"),
        ({"micro/__init__.py": "OTHER = 3\n"}, "gave no value on head"),
        (
            {"benchmarks/bench.py": BENCH.replace("micro.WORK", "1 / 0")},
            "its code changed, and head's fails on both",
        ),
    ],
    ids=["an-empty-suite", "only-head-fails", "heads-benchmark-fails"],
)
def test_a_comparison_in_which_all_is_lost_says_what(micro: Micro, files: dict[str, str], lost: str) -> None:
    """Status 4 and not 2: that head lost it is an answer, which a comment can tell."""
    micro.commit("head", files)
    told = json.loads(micro.compare("--bench", "track_work", "--format", "json", check=4).stdout)
    assert told["lost"] == ["bench.track_work"]
    assert lost in " ".join(told["notices"])


def test_a_file_that_base_cannot_import_hides_nothing(micro: Micro) -> None:
    """The pull request adds a function and its benchmark to an old file, and slows an old benchmark of it."""
    micro.commit(
        "new",
        {
            "micro/__init__.py": "WORK = 3000\n\n\ndef fresh():\n    return 1\n",
            "benchmarks/bench.py": BENCH.replace("import micro", "import micro\nfrom micro import fresh")
            + "\n\ndef track_fresh():\n    return fresh()\n",
        },
    )
    told = micro.compare(check=1)
    assert "bench.track_work" in told.stdout
    assert "new on head, so there is nothing to compare with: bench.track_fresh" in told.stdout
    assert "cannot import name 'fresh'" in told.stdout


def test_setup_cache_runs_once_a_commit_and_belongs_to_it(micro: Micro, tmp_path: Path) -> None:
    """Whatever the number of rounds and benchmarks; each side has the one that its own commit made."""
    ran = tmp_path / "ran"
    suite = f"""
import micro


class Cached:
    def setup_cache(self):
        with open({str(ran)!r}, "a") as file:
            file.write(f"{{micro.WORK}} ")
        return micro.WORK

    def track_one(self, cache):
        return cache

    def track_two(self, cache):
        return cache
"""
    micro.base = micro.commit("cached", {"benchmarks/bench.py": suite})
    micro.commit("head", {"micro/__init__.py": "WORK = 5000\n"})
    told = micro.compare("--format", "json", check=1)
    assert sorted(ran.read_text().split()) == ["2000", "5000"]
    rows = json.loads(told.stdout)["series"]
    assert [(row["value_base"], row["value_head"]) for row in rows] == [(2000.0, 5000.0)] * 2


def test_two_measurements_in_one_clone_wait_for_each_other(micro: Micro) -> None:
    """Each reports its own commit; the second says for whom it waits."""
    micro.commit("3000", {"micro/__init__.py": "WORK = 3000\n"})
    git(micro.folder, "checkout", "-q", "-b", "five", micro.base)
    micro.commit("5000", {"micro/__init__.py": "WORK = 5000\n"})
    command = [sys.executable, "-m", "mlxcache", "compare", "main", "pr", "--measure", "--format", "json"]
    with subprocess.Popen(
        [*command, "--rounds", "12"],
        cwd=micro.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as first:
        assert first.stderr is not None
        while "round 1 of" not in first.stderr.readline():
            pass
        second = micro.run("compare", "main", "five", "--measure", "--rounds", "4", "--format", "json", check=1)
        out, _ = first.communicate()
    values = [json.loads(text)["series"][0]["value_head"] for text in (out, second.stdout)]
    assert values == [3000.0, 5000.0]
    assert "waiting for process" in second.stderr


def test_a_comparison_proves_what_ran(micro: Micro, tmp_path: Path) -> None:
    """For each side the commit, its suite, environment and seed; a proof of anything else is refused."""
    head = micro.commit("same", {})
    told = micro.compare("--format", "json", check=0)
    path = tmp_path / "comparison.json"
    path.write_text(told.stdout)
    read_json(path)
    facts = json.loads(told.stdout)
    assert {(each["side"], each["installed"]) for each in facts["proof"]} == {("base", micro.base), ("head", head)}
    assert all(each["suite_tree"] and each["env"] and each["seed"] == 0 for each in facts["proof"])
    facts["proof"][1]["installed"] = micro.base
    path.write_text(json.dumps(facts))
    with pytest.raises(ReportError, match="something else was measured"):
        read_json(path)


def test_which_way_is_worse_is_what_the_benchmark_declares(micro: Micro) -> None:
    """A fifth fewer hits is a regression, a fifth more is none; the same for a rate by its unit."""
    suite = (
        BENCH + "\n\ntrack_work.unit, track_work.higher_is_better = 'hits', True\ntrack_other.unit = 'words/s'\n"
    )
    suite = suite.replace("return 7", "return micro.WORK")
    micro.base = micro.commit("hits", {"benchmarks/bench.py": suite})
    micro.commit("fewer", {"micro/__init__.py": "WORK = 1600\n"})
    told = micro.compare(check=1)
    assert "2 series compared, 2 regression" in told.stdout
    assert "2,000 hits -> 1,600 hits" in told.stdout
    micro.commit("more", {"micro/__init__.py": "WORK = 2400\n"})
    micro.compare(check=0)


def test_uncommitted_changes_are_told_and_not_measured(micro: Micro) -> None:
    """Neither the package's nor the suite's; a new benchmark that git does not know counts as one."""
    micro.commit("same", {})
    (micro.folder / "micro/__init__.py").write_text("WORK = 9999\n")
    (micro.folder / "benchmarks/bench.py").write_text(BENCH.replace("return 7", "return 70"))
    (micro.folder / "benchmarks/fresh.py").write_text("def track_fresh():\n    return 1\n")
    (micro.folder / "notes.txt").write_text("mine\n")
    told = micro.compare(check=0)
    (line,) = [line for line in told.stdout.splitlines() if "uncommitted" in line]
    assert all(name in line for name in ("micro/__init__.py", "benchmarks/bench.py", "benchmarks/fresh.py"))
    assert "notes.txt" not in line


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"install_command": ["python {conf_dir}/absent.py"]}, "base .* cannot be built in virtualenv.*absent.py"),
        ({"environment_type": "uv"}, "no usable environment.*uv"),
        ({"environment_type": "no-such-type"}, "no usable environment.*no-such-type"),
        ({"pythons": ["3.1"]}, "no usable environment.*No executable found for python 3.1"),
        ({"repo": "/no/such/place"}, "/no/such/place"),
        ({"benchmark_dir": "nowhere"}, "there is no benchmark suite"),
    ],
)
def test_what_asv_says_is_in_the_message(
    tmp_path: Path, environments: Path, config: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed build, a missing tool, Python, repository or suite: status 2, with the reason and the side."""
    if config.get("environment_type") == "uv":
        path = [each for each in os.environ["PATH"].split(os.pathsep) if not (Path(each) / "uv").exists()]
        monkeypatch.setenv("PATH", os.pathsep.join(path))
    made = Micro(tmp_path / "micro", environments, **config)
    made.commit("two", {})
    told = made.compare(check=2)
    assert re.search(message, told.stderr, re.DOTALL), told.stderr


def test_a_missing_python_of_several_is_told(tmp_path: Path, environments: Path) -> None:
    """The others are measured, and the reader knows of the one that is not."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    made = Micro(tmp_path / "micro", environments, pythons=[here, "3.1"])
    made.commit("two", {})
    assert "No executable found for python 3.1" in made.compare(check=0).stdout


def test_a_suite_that_reads_the_checkout_is_refused(micro: Micro) -> None:
    """Both sides would run the code beside the suite and not what was installed."""
    trick = "import os, sys\nsys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))\n"
    micro.commit("trick", {"benchmarks/bench.py": trick + BENCH})
    assert "the suite imports micro from the checkout beside it" in micro.compare(check=2).stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_leaves_nothing_behind(micro: Micro, number: signal.Signals, tmp_path: Path) -> None:
    """No process, no temporary folder, no worktree, no lock; `tools/signals.py` does this a hundred times."""
    micro.commit(
        "slow", {"benchmarks/bench.py": BENCH + "\n\ndef track_long():\n    import time\n    time.sleep(30)\n"}
    )
    before = git(micro.folder, "worktree", "list")
    running = subprocess.Popen(
        [sys.executable, "-m", "mlxcache", "compare", "main", "HEAD", "--measure", "--bench", "long|work"],
        cwd=micro.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert running.stderr is not None
    while "measuring" not in running.stderr.readline():
        pass
    (driver,) = _drivers(running.pid)
    running.send_signal(number)
    running.communicate(timeout=30)
    assert running.returncode == (-number if number == signal.SIGKILL else 128 + number)
    left = tmp_path / "tmp"
    deadline = time.monotonic() + 40
    while (_lives(driver) or members(driver)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(driver)
    assert not members(driver)
    assert list(left.iterdir()) == []
    assert git(micro.folder, "worktree", "list") == before


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _drivers(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children]
