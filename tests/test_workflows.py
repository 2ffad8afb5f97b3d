"""The workflows: thin, pinned, without rights that they do not use, and every step runs here too."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from mlxcache.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def jobs(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The jobs of a workflow by name."""
    return list(yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_allowed_that_a_job_does_not_ask_for(path: Path) -> None:
    """Permissions are empty above, every job names its own, its time limit, and runs that exclude each other."""
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {}
    for name, job in jobs(path):
        assert (workflow.get("concurrency") or job["concurrency"])["group"]
        assert job["permissions"], name
        assert 0 < job["timeout-minutes"] <= 300, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_with_their_tag_in_a_comment(path: Path) -> None:
    """A tag can be moved; and one action has one pin everywhere."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if "uses:" in line:
            assert re.search(r"uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_an_action_has_the_same_pin_everywhere() -> None:
    """Two pins of one action would be two things to review."""
    pins = {
        re.split(r"\s+", line.strip())[-3]
        for path in FILES
        for line in path.read_text().splitlines()
        if "uses:" in line
    }
    assert len({pin.partition("@")[0] for pin in pins}) == len(pins)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_steps_are_commands_that_run_here(path: Path) -> None:
    """Each runs a make target or a command of ours; no expression stands in a script, where it could be code."""
    for name, job in jobs(path):
        for step in job["steps"]:
            script = step.get("run", "")
            assert "${{" not in script, f"{name}: {script}"
            for target in re.findall(r"\bmake ([a-z-]+)", script):
                assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target
            for command in re.findall(r"\.venv/bin/mlxcache ([a-z]+)", script):
                assert command in COMMANDS, command


def test_options_in_the_workflows_are_known() -> None:
    """A renamed option shows here and not at night."""
    import argparse
    import importlib

    for path in FILES:
        for _, job in jobs(path):
            for step in job["steps"]:
                for call in re.findall(r"\.venv/bin/mlxcache ([^|>&;)]+)", step.get("run", "").replace("\n", " ")):
                    name, *rest = ("1" if word == "$NEWEST" else word for word in shlex.split(call))
                    parser = argparse.ArgumentParser()
                    command = importlib.import_module(f"mlxcache.commands.{name}")
                    command.configure(parser)
                    args, unknown = parser.parse_known_args(rest)
                    assert args is not None
                    passed = unknown if getattr(command, "PASSES_ARGUMENTS", False) else []
                    assert unknown == passed, f"{path.name}: mlxcache {call}"


STEPS = [(path.stem, name, job, step) for path in FILES for name, job in jobs(path) for step in job["steps"]]


def test_what_lies_in_an_artifact_is_read_flat_or_in_folders() -> None:
    """download-artifact lays out one match of a pattern flat and several in folders: no glob below its path."""
    for workflow, name, _, step in STEPS:
        path = step.get("with", {}).get("path", "") if "download-artifact@" in step.get("uses", "") else ""
        if path and "pattern" in step["with"]:
            scripts = "\n".join(s.get("run", "") for w, n, _, s in STEPS if (w, n) == (workflow, name))
            assert f"{path}/" not in scripts
            # Without any match there is no folder either.
            assert f"mkdir -p {path} &&" in scripts


def test_a_second_attempt_may_upload_again() -> None:
    """An artifact's name is taken for the whole run, so each upload says that it overwrites."""
    uploads = [step for *_, step in STEPS if "upload-artifact@" in step.get("uses", "")]
    assert uploads
    assert all(step["with"]["overwrite"] is True for step in uploads)


def test_a_second_attempt_shows_its_own_site() -> None:
    """upload-pages-artifact cannot overwrite: each attempt's has a name, which the job that deploys is told."""
    (upload,) = [step for *_, step in STEPS if "upload-pages-artifact@" in step.get("uses", "")]
    (deploy,) = [step for *_, step in STEPS if "deploy-pages@" in step.get("uses", "")]
    (outputs,) = {str(job["outputs"]["site"]) for _, name, job, _ in STEPS if name == "tell"}
    assert upload["with"]["name"] == outputs == "github-pages-${{ github.run_attempt }}"
    assert deploy["with"]["artifact_name"] == "${{ needs.tell.outputs.site }}"


def test_only_a_job_that_runs_takes_a_pull_requests_group() -> None:
    """A run of another label would enter a workflow's group, cancel what measures, and then skip its job."""
    for path in FILES:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        if (workflow.get("concurrency") or {}).get("cancel-in-progress") is True:
            assert not any("if" in job for _, job in jobs(path)), path.stem


def test_a_comparison_ends_in_time_and_never_in_silence() -> None:
    """The budget ends before the step's limit, that before the job's; running out of time is told."""
    for workflow, _, job, step in STEPS:
        match = re.search(r"make compare .*BUDGET=(\d+)", step.get("run", ""))
        if match:
            assert int(match[1]) < step["timeout-minutes"] < job["timeout-minutes"], workflow
            assert workflow != "bench-pr" or step["timeout-minutes"] <= 30
    (_, comment), *_ = jobs(ROOT / ".github" / "workflows" / "bench-comment.yml")
    assert comment["if"] == "github.event.workflow_run.conclusion != 'skipped'"


def test_releases_measure_nothing_twice() -> None:
    """They look at the branch first, and hand over only what is new."""
    scripts = " ".join(step.get("run", "") for workflow, *_, step in STEPS if workflow == "releases")
    assert "make results-tree" in scripts
    assert "--skip-existing-successful --collect shard" in scripts


def test_a_hosted_machine_measures_whole_commits() -> None:
    """A part of the suite without its own control is worth nothing on machines that differ by half."""
    assert not any("--shard" in step.get("run", "") for *_, step in STEPS)
    (matrix,) = [job["strategy"]["matrix"] for workflow, name, job, _ in STEPS[:] if workflow == "bench-main"
                 and name == "measure"][:1]  # fmt: skip
    assert list(matrix) == ["commits"]


def test_the_results_branch_is_read_with_a_token() -> None:
    """A private repository tells nothing without one, and the checkout keeps none."""
    for workflow, name, _, step in STEPS:
        if step.get("run") == "make results-tree" and (workflow, name) != ("bench-main", "tell"):
            assert step["env"]["GH_TOKEN"] == "${{ github.token }}", (workflow, name)


def test_an_own_mac_runs_no_strangers_code() -> None:
    """Only main, and branches of this very repository behind an environment, in workflows of their own."""
    with_own = {(workflow, name): job for workflow, name, job, _ in STEPS if "BENCH_RUNNER" in str(job["runs-on"])}
    assert set(with_own) == {("bench-own", "measure"), ("bench-pr-own", "compare")}
    pull = with_own["bench-pr-own", "compare"]
    assert "github.event.pull_request.head.repo.full_name == github.repository" in pull["if"]
    assert pull["environment"]
    for (workflow, _), job in with_own.items():
        assert "vars.BENCH_RUNNER != ''" in job["if"]
        triggers = yaml.safe_load((ROOT / ".github" / "workflows" / f"{workflow}.yml").read_text())[True]
        assert "push" not in triggers
        # setup-python wants a folder /Users/runner, which a Mac of one's own has not.
        assert not any("setup-python" in step.get("uses", "") for step in job["steps"])
        assert any("machine --check" in step.get("run", "") for step in job["steps"])


def test_the_site_keeps_what_its_next_build_needs() -> None:
    """Pages leave out files that begin with a dot; the folder comes from a cache before the site is built."""
    tell = [step for workflow, name, _, step in STEPS if (workflow, name) == ("bench-main", "tell")]
    order = [step.get("uses", "").partition("@")[0] or step.get("run", "") for step in tell]
    cache = order.index("actions/cache")
    assert (
        cache
        < order.index("make site RESULTS=results-tree/results")
        < order.index("actions/upload-pages-artifact")
    )
    assert tell[cache]["with"]["path"] == "site"


def test_history_is_whole_wherever_it_is_asked_for() -> None:
    """A shallow clone is checked out only by jobs that look at no history."""
    shallow = {
        f"{path.stem}.{name}"
        for path in FILES
        for name, job in jobs(path)
        for step in job["steps"]
        if str(step.get("uses")).startswith("actions/checkout@") and step.get("with", {}).get("fetch-depth") != 0
    }
    assert shallow == {"ci.workflows", "bench-comment.comment"}


def test_a_strangers_code_meets_no_secret_and_no_right_to_write() -> None:
    """What runs a pull request's code can read and nothing else; what may write runs main's code."""
    by_name = {path.stem: path.read_text(encoding="utf-8") for path in FILES}
    (_, compare), (_, count) = jobs(ROOT / ".github" / "workflows" / "bench-pr.yml")
    assert compare["permissions"] == count["permissions"] == {"contents": "read"}
    assert "secrets." not in "".join(by_name.values())
    assert "pull_request_target" not in "".join(by_name.values())
    assert "cache: pip" not in by_name["bench-pr"]
    assert "ref:" not in by_name["bench-comment"]
    assert [name for name, text in by_name.items() if "refs/pull/" in text] == ["bench-pr"]
    assert "cache: pip" not in by_name["bench-pr-own"]
