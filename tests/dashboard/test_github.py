"""Comments, checks and issues, against a `gh` that remembers what it was asked."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mlxcache.cli import main
from mlxcache.reports.comment import marker
from mlxcache.reports.comparison import NotDone, to_json
from mlxcache.reports.github import BOT, GitHub, GitHubError, MovedOnError, PullRequest
from mlxcache.reports.issues import plan

from .comparisons import HEAD, comparison, row

FAKE = """#!{python}
import json, sys
from pathlib import Path
home = Path({home!r})
arguments = sys.argv[1:]
method, path = arguments[2], arguments[3]
fields = dict(word.split("=", 1) for word in arguments[4:] if "=" in word)
with (home / "asked.jsonl").open("a") as file:
    text = sys.stdin.read() if "--input" in arguments else "null"
    file.write(json.dumps([method, path, json.loads(text)]) + "\\n")
answers = json.loads((home / "answers.json").read_text())
if path not in answers and method == "GET":
    sys.exit("HTTP 404: Not Found")
found = answers.get(path)
if isinstance(found, list):
    start = 100 * (int(fields.get("page", 1)) - 1)
    found = found[start : start + 100]
print(json.dumps(found))
"""


class Gh:
    """A folder with a `gh` that gives these answers by path, and what it was asked to change."""

    def __init__(self, home: Path) -> None:
        self.home = home
        program = home / "gh"
        program.write_text(FAKE.format(python=sys.executable, home=str(home)))
        program.chmod(0o755)

    def answers(self, **found: Any) -> None:
        """Answers by path below the repository, with "__" for "/"."""
        table = {f"repos/o/r/{path.replace('__', '/')}": answer for path, answer in found.items()}
        (self.home / "answers.json").write_text(json.dumps(table))
        (self.home / "asked.jsonl").unlink(missing_ok=True)

    def changes(self) -> list[tuple[str, str, Any]]:
        """What was sent, without questions."""
        lines = (self.home / "asked.jsonl").read_text().splitlines()
        return [(m, p, c) for m, p, c in map(json.loads, lines) if m != "GET"]


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gh:
    """It comes first on PATH."""
    home = tmp_path / "bin"
    home.mkdir()
    monkeypatch.setenv("PATH", str(home), prepend=os.pathsep)
    return Gh(home)


RUN = {
    "event": "pull_request",
    "head_sha": "c" * 40,
    "head_branch": "topic",
    "head_repository": {"owner": {"login": "stranger"}},
    "display_title": "Some pull request 99",
}


def test_a_forks_pull_request_is_found_by_its_commit(gh: Gh) -> None:
    """Not by anything that the fork could have written."""
    gh.answers(pulls=[{"number": 7, "head": {"sha": "c" * 40}}, {"number": 8, "head": {"sha": "d" * 40}}])
    assert GitHub("o/r").pull_request_of(RUN) == PullRequest(7, "c" * 40)
    gh.answers(pulls=[{"number": 7, "head": {"sha": "d" * 40}}])
    with pytest.raises(GitHubError, match="0 open pull requests have cccccccccc as their head"):
        GitHub("o/r").pull_request_of(RUN)


def test_accounts_that_are_gone_are_nobody(gh: Gh) -> None:
    """A deleted fork has no open pull request, and a deleted user's comment is not ours."""
    with pytest.raises(MovedOnError, match="the fork that the run's commit came from is gone"):
        GitHub("o/r").pull_request_of({**RUN, "head_repository": None})
    gh.answers(issues__7__comments=[{"id": 1, "user": None, "body": marker()}])
    GitHub("o/r").comment(7, "new", marker())
    assert gh.changes() == [("POST", "repos/o/r/issues/7/comments", {"body": "new"})]


def test_a_run_by_hand_names_its_pull_request(gh: Gh) -> None:
    """In the title that our own workflow gave it."""
    gh.answers(pulls__12={"number": 12, "head": {"sha": "e" * 40}})
    run = {**RUN, "event": "workflow_dispatch", "display_title": "Benchmarks of pull request 12"}
    assert GitHub("o/r").pull_request_of(run) == PullRequest(12, "e" * 40)
    for title in ("x", "pull request 12, but not all of it", "pull request 12\npushed by 3x"):
        with pytest.raises(GitHubError, match="names no pull request"):
            GitHub("o/r").pull_request_of({**run, "display_title": title})


def test_only_the_bots_own_issues_are_ours(gh: Gh) -> None:
    """Others' issues with our label, of accounts that are gone, and pull requests are left alone; on any page."""
    ours, others = {"login": BOT}, {"login": "stranger"}
    posts = [{"number": number, "title": f"t{number}", "body": None, "user": others} for number in range(1, 101)]
    posts[4] |= {"user": ours, "pull_request": {"url": "u"}}
    posts[5] |= {"user": None}
    posts.append({"number": 101, "title": "t101", "body": None, "user": ours})
    gh.answers(issues=posts)
    assert GitHub("o/r").issues("perf") == [{"number": 101, "title": "t101", "body": ""}]


def test_a_gh_that_hangs_is_missing_or_no_program_is_an_error(
    gh: Gh, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With words, and within bounded time."""
    monkeypatch.setattr("mlxcache.reports.github.PATIENCE_S", 0.3)
    (gh.home / "gh").write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(GitHubError, match=r"gh api --method GET .* did not answer within 0\.3 s"):
        GitHub("o/r").issues("x")
    (gh.home / "gh").write_bytes(b"\x7fELF nonsense")
    with pytest.raises(GitHubError, match="gh cannot be run"):
        GitHub("o/r").issues("x")
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(GitHubError, match=r"gh, .* was not found on PATH"):
        GitHub("o/r").issues("x")


def test_a_verdict_stands_on_the_commit_that_was_measured(
    gh: Gh, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run by hand names the pull request only; where that has a newer commit, nothing is posted."""
    measured = comparison(row("a.time_x", 0.2))
    file, event = tmp_path / "comparison.json", tmp_path / "event.json"
    file.write_text(to_json(measured))
    run = {**RUN, "event": "workflow_dispatch", "display_title": "Benchmarks of pull request 12"}
    event.write_text(json.dumps({"workflow_run": run}))
    post = ["verdict", str(file), "--post", str(event), "--repository", "o/r"]
    gh.answers(pulls__12={"number": 12, "head": {"sha": "f" * 40}}, issues__12__comments=[])
    assert main(post) == 0
    assert gh.changes() == []
    assert f"is at ffffffffff and {measured.head[:10]} was measured; ask again" in capsys.readouterr().err
    gh.answers(pulls__12={"number": 12, "head": {"sha": measured.head}}, issues__12__comments=[])
    assert main(post) == 0
    assert [change[1].rpartition("/")[2] for change in gh.changes()] == ["comments", "check-runs"]


def comments(*bodies: tuple[str, str]) -> list[dict[str, Any]]:
    """Comments by (login, body), numbered from 1."""
    return [{"id": i, "user": {"login": who}, "body": body} for i, (who, body) in enumerate(bodies, 1)]


def test_a_comment_is_updated_and_not_repeated(gh: Gh) -> None:
    """Ours is found by its marker, on any page; somebody else's with the same marker is left alone."""
    gh.answers(issues__7__comments=comments(("eve", marker()), *[("x", "")] * 120, (BOT, f"old {marker()}")))
    GitHub("o/r").comment(7, "new", marker())
    assert gh.changes() == [("PATCH", "repos/o/r/issues/comments/122", {"body": "new"})]
    gh.answers(issues__7__comments=comments(("eve", marker()), (BOT, marker("other"))))
    GitHub("o/r").comment(7, "new", marker())
    assert gh.changes() == [("POST", "repos/o/r/issues/7/comments", {"body": "new"})]


@pytest.mark.parametrize(
    ("outcome", "conclusion"),
    [
        (comparison(row()), "success"),
        (comparison(row("a", 0.2)), "failure"),
        (comparison(row(), verdict="inconclusive"), "neutral"),
        (comparison(row(), verdict="inconclusive", lost=["b"]), "failure"),
        (NotDone("no environment"), "failure"),
    ],
)
def test_the_verdict_is_posted_as_comment_and_check(gh: Gh, tmp_path: Path, outcome: Any, conclusion: str) -> None:
    """Inconclusive does not block and is no pass; not measured is a failure."""
    gh.answers(pulls=[{"number": 7, "head": {"sha": HEAD}}], issues__7__comments=[])
    (tmp_path / "comparison.json").write_text(to_json(outcome))
    (tmp_path / "event.json").write_text(json.dumps({"workflow_run": {**RUN, "head_sha": HEAD}}))
    arguments = ["--post", str(tmp_path / "event.json"), "--repository", "o/r"]
    assert main(["verdict", str(tmp_path / "comparison.json"), *arguments]) == 0
    (_, path, sent), (_, checks, check) = gh.changes()
    assert path == "repos/o/r/issues/7/comments"
    assert marker() in sent["body"]
    assert checks == "repos/o/r/check-runs"
    assert check["conclusion"] == conclusion
    assert check["head_sha"] == HEAD
    assert not check["output"]["title"].startswith("#")


def test_a_job_that_died_is_told(gh: Gh, tmp_path: Path) -> None:
    """Without an artifact the comment says that there is no verdict, and the check fails."""
    gh.answers(pulls=[{"number": 7, "head": {"sha": "c" * 40}}], issues__7__comments=[])
    (tmp_path / "event.json").write_text(json.dumps({"workflow_run": RUN}))
    arguments = ["--post", str(tmp_path / "event.json"), "--repository", "o/r"]
    assert main(["verdict", str(tmp_path / "none.json"), *arguments]) == 0
    (_, _, sent), (_, _, check) = gh.changes()
    assert "ended before it had a result" in sent["body"]
    assert str(tmp_path) not in sent["body"]
    assert check["conclusion"] == "failure"


def test_a_pull_request_that_moved_on_gets_no_comment(
    gh: Gh, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its newer commit has a run of its own: nothing failed."""
    gh.answers(pulls=[])
    (tmp_path / "comparison.json").write_text(to_json(comparison(row())))
    (tmp_path / "event.json").write_text(json.dumps({"workflow_run": RUN}))
    arguments = ["--post", str(tmp_path / "event.json"), "--repository", "o/r"]
    assert main(["verdict", str(tmp_path / "comparison.json"), *arguments]) == 0
    assert "not posted: 0 open pull requests" in capsys.readouterr().err
    assert gh.changes() == []


def test_a_refusal_is_reported(gh: Gh, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2 with GitHub's words."""
    gh.answers()
    (tmp_path / "comparison.json").write_text(to_json(comparison(row())))
    (tmp_path / "event.json").write_text(json.dumps({"workflow_run": RUN}))
    arguments = ["--post", str(tmp_path / "event.json"), "--repository", "o/r"]
    assert main(["verdict", str(tmp_path / "comparison.json"), *arguments]) == 2
    assert "not posted: gh api --method GET repos/o/r/pulls failed: HTTP 404" in capsys.readouterr().err


def change(after: str = "b" * 40, benchmark: str = "m.time_x", **given: Any) -> dict[str, Any]:
    """One row of a table of changes, confirmed and standing unless told otherwise."""
    return {
        "machine": "m1",
        "env": "e1",
        "benchmark": benchmark,
        "params": "",
        "version": "1",
        "unit": "seconds",
        "before": "a" * 40,
        "after": after,
        "direction": "regression",
        "magnitude": 0.1,
        "ci95_low": 0.08,
        "ci95_high": 0.12,
        "state": "confirmed",
        "confirmed": True,
        "recovered_at": "",
        "value_before": 0.001,
        "value_after": 0.0011,
        "range_commits": 1,
        **given,
    }


ORDER = {"b" * 40: 10, "c" * 40: 12, "d" * 40: 40}


def planned(rows: list[dict[str, Any]], issues: list[dict[str, Any]] | None = None) -> list[Any]:
    """The plan for these changes."""
    return plan(pd.DataFrame(rows, columns=list(change())), issues or [], ORDER)


def as_issue(action: Any, number: int = 5) -> dict[str, Any]:
    """The issue that an action made."""
    return {"number": number, "title": action.title, "body": action.body}


def test_a_confirmed_regression_opens_one_issue_a_change() -> None:
    """Two series at one commit are one change; a candidate and an improvement are none."""
    actions = planned(
        [
            change(),
            change(benchmark="m.time_y", magnitude=0.3),
            change("d" * 40),
            change("e" * 40, state="candidate", confirmed=False),
            change("f" * 40, direction="improvement"),
        ]
    )
    assert [(action.kind, action.title) for action in actions] == [
        ("open", "Slower since bbbbbbbbbb: m.time_y +30.0 % and 1 more"),
        ("open", "Slower since dddddddddd: m.time_x +10.0 %"),
    ]
    assert "mlxcache bisect m.time_y --change bbbbbbbbbbbb" in actions[0].body


def test_the_same_change_updates_its_issue_and_only_if_something_is_new() -> None:
    """It may move a little as more commits are measured; far away it is another change."""
    (opened,) = planned([change()])
    assert planned([change()], [as_issue(opened)]) == []
    (moved,) = planned([change("c" * 40)], [as_issue(opened)])
    assert (moved.kind, moved.number) == ("update", 5)
    (other,) = planned([change("d" * 40)], [as_issue(opened)])
    assert other.kind == "open"


def test_a_recovered_change_closes_its_issue() -> None:
    """Once all of its series are back, saying where; what is merely not listed stays open."""
    (opened,) = planned([change(), change(benchmark="m.time_y")])
    back = [change(state="recovered", recovered_at="d" * 40)]
    assert planned(back, [as_issue(opened)]) == []
    back.append(change(benchmark="m.time_y", state="recovered", recovered_at="d" * 40))
    (closed,) = planned(back, [as_issue(opened)])
    assert (closed.kind, closed.number) == ("close", 5)
    assert closed.body.startswith("Recovered at `dddddddddd`.")
    assert planned([], [as_issue(opened)]) == []


def test_a_series_that_recovered_from_another_change_closes_nothing() -> None:
    """The issue's own change is what has to be gone, and it is not listed for the moment."""
    (opened,) = planned([change("d" * 40)])
    before = change("b" * 40, state="recovered", recovered_at="c" * 40)
    assert planned([before], [as_issue(opened)]) == []
    assert planned([before, change("d" * 40)], [as_issue(opened)]) == []
    after = change("d" * 40, state="recovered", recovered_at="e" * 40)
    (closed,) = planned([before, after], [as_issue(opened)])
    assert closed.body.startswith("Recovered at `eeeeeeeeee`.")


def test_the_title_of_an_issue_is_one_line_in_the_words_of_the_unit() -> None:
    """A name with a line break would differ from what GitHub keeps, and memory does not get slower."""
    (action,) = planned([change(benchmark="m.peakmem_\nx", unit="bytes")])
    assert action.title == "Larger since bbbbbbbbbb: m.peakmem_ x +10.0 %"


def test_issues_that_are_not_ours_to_read_are_left_alone() -> None:
    """No marker, or a damaged one."""
    for body in ("", "<!-- mlxcache change {} -->", '<!-- mlxcache change {"series": 3} -->'):
        assert planned([], [{"number": 1, "title": "t", "body": body}]) == []
