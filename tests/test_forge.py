"""The rehearsal's forge: expressions and artifacts as GitHub has them, and what it does not know is an error."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tiny_project import git, make_project
from tools.expressions import ExpressionError, evaluate, substitute
from tools.forge import Forge
from tools.pythons import find_python

CONTEXTS: dict[str, Any] = {
    "github": {
        "event": {"pull_request": {"labels": [{"name": "docs"}, {"name": "benchmark"}]}},
        "event_name": "push",
    },
    "needs": {"plan": {"result": "success", "outputs": {"groups": "[]"}}},
    "inputs": {},
    "vars": {"MAC": "my-mac"},
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("needs.plan.outputs.groups != '[]'", False),
        ("github.event_name == 'PUSH'", True),
        ("contains(github.event.pull_request.labels.*.name, 'benchmark')", True),
        ("contains(fromJSON('[\"OWNER\"]'), 'MEMBER')", False),
        ("startsWith('/benchmark now', '/benchmark') && !(1 == 2)", True),
        ("inputs.newest || '20'", "20"),
        ("vars.MAC != '' && 'own Mac' || ''", "own Mac"),
        ("vars.NONE == ''", True),
        ("${{ github.nothing.at.all }}", None),
        ("format('{0}/{1}', 'a', 'it''s')", "a/it's"),
    ],
)
def test_expressions_mean_what_they_mean_there(expression: str, value: Any) -> None:
    """Loose comparison without case, values out of && and ||, null for what is missing."""
    assert evaluate(expression, CONTEXTS, {}) == value


@pytest.mark.parametrize("expression", ["a.b", "hashFiles('x')", "1 ==", "(1", "1 2", "vars.MAC = 'x'", "'open"])
def test_what_is_not_understood_is_an_error(expression: str) -> None:
    """The rehearsal must not guess."""
    with pytest.raises(ExpressionError):
        evaluate(expression, CONTEXTS, {})


def test_values_in_a_text() -> None:
    """As they are written there."""
    assert substitute("a-${{ vars.MAC }}-${{ vars.X }}${{ 1 == 1 }}", CONTEXTS, {}) == "a-my-mac-true"


WORKFLOW = """
on: push
jobs:
  make:
    runs-on: linux
    strategy:
      matrix:
        part: ${{ fromJSON(vars.PARTS) }}
    steps:
      - run: mkdir out && echo $PART > out/value && touch out/.hidden
        env: { PART: "${{ matrix.part }}" }
      - uses: actions/upload-artifact@x
        if: always()
        with: { name: "part-${{ strategy.job-index }}", path: out, overwrite: OVERWRITE }
  join:
    needs: make
    if: ${{ !cancelled() }}
    runs-on: linux
    outputs:
      found: ${{ steps.look.outputs.found }}
    steps:
      - uses: actions/download-artifact@x
        with: { pattern: part-*, path: all }
      - id: look
        run: echo "found=$(cd all && find . -type f | sort | tr '\\n' ' ')" >> "$GITHUB_OUTPUT"
      - run: exit $STATUS
        env: { STATUS: "${{ vars.STATUS }}" }
      - run: sleep 60
        if: vars.SLOW == 'yes'
        timeout-minutes: 0.01
  after:
    needs: join
    runs-on: linux
    steps: [{ run: "true" }]
"""


@pytest.fixture
def forge(tmp_path: Path) -> Any:
    """Makes a forge with the workflow above."""
    made = []

    def make(overwrite: bool = True, **variables: str) -> Forge:
        workflows = tmp_path / "workflows"
        workflows.mkdir(exist_ok=True)
        (workflows / "w.yml").write_text(WORKFLOW.replace("OVERWRITE", str(overwrite).lower()))
        path = {"PATH": "/usr/bin:/bin"}
        made.append(
            Forge(tmp_path / "home", tmp_path / "origin", workflows, lambda label: path, lambda place: None)
        )
        made[-1].variables = {"STATUS": "0", **variables}
        return made[-1]

    yield make
    for each in made:
        each.api.close()


def test_one_artifact_lies_flat_and_several_in_folders(forge: Any) -> None:
    """As download-artifact does since version 5; hidden files stay behind."""
    one = forge(PARTS="[1]").start("w", "push")
    assert one.jobs["join"].outputs == {"found": "./value "}
    two = forge(PARTS="[1, 2]").start("w", "push")
    assert two.jobs["join"].outputs == {"found": "./part-0/value ./part-1/value "}
    assert two.conclusion == "success"


def test_a_failed_job_and_what_needs_it_run_again(forge: Any) -> None:
    """What comes after a failure is skipped; a second attempt leaves alone what went well."""
    used = forge(PARTS="[1]", STATUS="3")
    run = used.start("w", "push")
    assert [job.result for job in run.jobs.values()] == ["success", "failure", "skipped"]
    used.variables["STATUS"] = "0"
    assert used.again(run).conclusion == "success"
    assert [job.result for job in run.jobs.values()] == ["success"] * 3


@pytest.mark.parametrize(("overwrite", "result"), [(True, "success"), (False, "failure")])
def test_a_second_upload_of_a_name_needs_to_overwrite(forge: Any, overwrite: bool, result: str) -> None:
    """Else it is refused, also in a second attempt."""
    used = forge(overwrite, PARTS="[1]")
    run = used.start("w", "push")
    run.jobs["make"].result = "failure"
    assert used.again(run).jobs["make"].result == result


def test_a_step_out_of_time_is_a_failure(forge: Any) -> None:
    """And everything that it started is ended."""
    assert forge(PARTS="[1]", SLOW="yes").start("w", "push").jobs["join"].result == "failure"


def test_a_checkout_is_what_was_asked_for(tmp_path: Path) -> None:
    """A branch, a pull request's head, a commit; without depth 0 a shallow one."""
    origin = make_project(tmp_path / "origin")
    first = git(origin, "rev-parse", "HEAD")
    git(origin, "commit", "-q", "--allow-empty", "-m", "two")
    git(origin, "update-ref", "refs/pull/7/head", first)
    workflows = tmp_path / "w"
    workflows.mkdir()
    look = 'echo "head=$(git rev-parse HEAD) $(git rev-parse --is-shallow-repository)" >> "$GITHUB_OUTPUT"'
    for name, with_ in {"a": {}, "b": {"ref": "refs/pull/7/head"}, "c": {"ref": first, "fetch-depth": 0}}.items():
        steps = [
            {"uses": "actions/checkout@x", "with": with_},
            {"id": "s", "run": look},
        ]
        job = {"runs-on": "linux", "outputs": {"head": "${{ steps.s.outputs.head }}"}, "steps": steps}
        (workflows / f"{name}.yml").write_text(json.dumps({"jobs": {"j": job}}))
    forge = Forge(
        tmp_path / "home", origin, workflows, lambda label: {"PATH": "/usr/bin:/bin"}, lambda place: None
    )
    told = [forge.start(name, "push").jobs["j"].outputs["head"] for name in "abc"]
    forge.api.close()
    assert told == [f"{git(origin, 'rev-parse', 'HEAD')} true", f"{first} true", f"{first} false"]


@pytest.mark.parametrize(
    "place", [".pyenv/versions/3.99.1", ".local/share/uv/python/cpython-3.99.1-linux-x86_64-gnu"]
)
def test_a_python_is_found_in_the_accounts_home_though_home_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """HOME and PATH tell nothing of it on a bare machine; what lies there and does not run is none."""
    monkeypatch.setenv("HOME", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: SimpleNamespace(pw_dir=str(tmp_path / "account")))
    program = tmp_path / "account" / place / "bin" / "python"
    program.parent.mkdir(parents=True)
    for script in ("exit 127", "echo 3.9.9", "echo 3.99.1 experimental free-threading build"):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        assert find_python("3.99") is None
    program.write_text("#!/bin/sh\necho 3.99.1\n")
    assert find_python("3.99") == str(program)
