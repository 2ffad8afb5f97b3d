"""The make targets that the workflows use and that need no environment."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mlxcache.history.repository.full_history import is_shallow
from tests.tiny_project import ROOT, commit, git, make_project

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make on PATH")


def make(folder: Path, *arguments: str, **environment: str) -> str:
    """Run our Makefile in another folder; what it prints."""
    done = subprocess.run(
        ["make", "-s", "-f", str(ROOT / "Makefile"), *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return done.stdout


def test_the_branch_of_results_is_laid_out_in_any_of_its_states(tmp_path: Path) -> None:
    """An empty folder before it is there; its newest state, or the one that all shards were told."""
    source = make_project(tmp_path / "source")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(source), str(clone))
    make(clone, "results-tree")
    assert list((clone / "results-tree" / "results").iterdir()) == []
    assert (clone / "results-tree" / ".commit").read_text() == ""
    git(source, "checkout", "-q", "--orphan", "benchmark-results")
    (source / ".gitignore").unlink()
    states = [commit(source, str(number), results__a_json=f"{number}") for number in (1, 2)]
    make(clone, "results-tree")
    assert (clone / "results-tree" / "results" / "a_json").read_text() == "2"
    assert (clone / "results-tree" / ".commit").read_text().strip() == states[1]
    make(clone, "results-tree", f"RESULTS_COMMIT={states[0]}")
    assert (clone / "results-tree" / "results" / "a_json").read_text() == "1"
    assert (clone / "results-tree" / ".commit").read_text().strip() == states[0]
    assert not is_shallow(clone)


def test_an_origin_that_cannot_be_asked_is_an_error(tmp_path: Path) -> None:
    """Never "no branch yet": that would have everything measured again."""
    source = make_project(tmp_path / "source")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(source), str(clone))
    git(clone, "remote", "set-url", "origin", "file:///nowhere")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        make(clone, "results-tree")
    assert "origin cannot be asked for benchmark-results" in failed.value.stderr
    assert "there is no branch" not in failed.value.stderr
    assert not (clone / "results-tree").exists()


def test_a_token_goes_with_the_question(tmp_path: Path) -> None:
    """As a header for the forge's own address, and not on any command line."""
    source = make_project(tmp_path / "source")
    asked = tmp_path / "bin" / "git"
    asked.parent.mkdir()
    asked.write_text(
        f'#!/bin/sh\nenv | grep GIT_CONFIG >> "{tmp_path}/env"\necho "$@" >> "{tmp_path}/args"\nexit 2\n'
    )
    asked.chmod(0o755)
    make(source, "results-tree", GH_TOKEN="secret", PATH=f"{asked.parent}{os.pathsep}{os.environ['PATH']}")
    told = (tmp_path / "env").read_text()
    assert "GIT_CONFIG_KEY_0=http.https://github.com/.extraheader" in told
    assert "GIT_CONFIG_VALUE_0=Authorization: Basic eC1hY2Nlc3MtdG9rZW46c2VjcmV0" in told
    assert "secret" not in (tmp_path / "args").read_text()


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A folder in which make finds everything set up."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "ready").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "a/b"}, "https://a.github.io/b/"),
        (
            {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "a/b", "SITE": "https://x.org/"},
            "https://x.org/",
        ),
        (
            {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "a/b", "SITE": ""},
            "https://a.github.io/b/",
        ),
        ({"GITHUB_SERVER_URL": "https://codeberg.org", "GITHUB_REPOSITORY": "a/b"}, ""),
    ],
)
def test_the_sites_address_is_known_or_given(ready: Path, environment: dict[str, str], address: str) -> None:
    """An empty variable of the repository is none; another forge's pages are elsewhere."""
    said = make(ready, "-n", "notify", f"BIN={ready}", "READY=ready", **environment)
    assert f'--page "{address}"' in said


def test_a_pull_request_is_compared_by_what_a_hosted_runner_repeats(ready: Path) -> None:
    """Ratios within one process and memory, within a budget; 1, 3 and 4 are verdicts and 2 is not."""
    said = make(ready, "-n", "compare", f"BIN={ready}", "READY=ready")
    assert "--bench 'ratios|decode\\.Relative|prefill\\.Relative|footprint' --budget 20" in said
    (ready / "mlxcache").write_text('#!/bin/sh\n[ "$1" = machine ] || exit "$STATUS"\n')
    (ready / "mlxcache").chmod(0o755)
    for status in (0, 1, 3, 4):
        make(ready, "compare", f"BIN={ready}", "READY=ready", STATUS=str(status))
    with pytest.raises(subprocess.CalledProcessError):
        make(ready, "compare", f"BIN={ready}", "READY=ready", STATUS="2")


def test_the_python_that_wheels_exist_for_is_taken_first(ready: Path) -> None:
    """Homebrew's python3 is newer than some releases of MLX know; it is taken only where there is no other."""
    for name in ("python3", "python3.12"):
        (ready / name).write_text("#!/bin/sh\nexit 0\n")
        (ready / name).chmod(0o755)
    path = f"{ready}{os.pathsep}/usr/bin{os.pathsep}/bin"
    said = make(ready, "-n", "setup", "READY=none", PATH=path)
    assert "python3.12 -m venv" in said
