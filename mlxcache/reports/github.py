"""Talks to GitHub through its own command-line program `gh`, which is on every hosted runner.

Only what the workflows need: one comment a pull request that is updated, a check, and issues by label. Texts go
in through files, never through a shell.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# What GITHUB_TOKEN writes under; a comment by anybody else is not ours, whatever marker it holds.
BOT: Final = "github-actions[bot]"
# Longer than any answer takes: a hanging connection must not use up the job's time in silence.
PATIENCE_S: Final = 120.0
_TITLE: Final = re.compile(r"pull request #?(\d+)$")


class GitHubError(RuntimeError):
    """`gh` is missing, or GitHub refused; the message has its words."""


class MovedOnError(GitHubError):
    """The pull request is closed or has a newer commit: nothing is wrong, and there is nothing to say."""


@dataclass(frozen=True)
class PullRequest:
    """A pull request and the commit that its head is at now."""

    number: int
    head: str


@dataclass(frozen=True)
class GitHub:
    """One repository, "owner/name"."""

    repository: str

    def pull_request_of(self, run: Mapping[str, Any]) -> PullRequest:
        """The pull request that a workflow run (the payload's `workflow_run`) was about.

        A fork's run says nothing of its pull request that could be trusted, so its commit has to be the head of
        the one that is found. A run that was started by hand names it in its title, which no foreign code wrote.

        Raises MovedOnError if it is closed or has a newer commit, GitHubError if the run names none.
        """
        if run.get("event") == "workflow_dispatch":
            match = _TITLE.search(str(run.get("display_title", "")))
            if match is None:
                raise GitHubError(f"the run's title {run.get('display_title')!r} names no pull request")
            found = self._api(f"repos/{self.repository}/pulls/{match[1]}")
            return PullRequest(int(match[1]), str(found["head"]["sha"]))
        source = run.get("head_repository")
        if source is None:
            raise MovedOnError("the fork that the run's commit came from is gone, and its pull request is closed")
        owner = str(source["owner"]["login"])
        query = {"state": "open", "head": f"{owner}:{run['head_branch']}", "per_page": "100"}
        pulls = self._api(f"repos/{self.repository}/pulls", query)
        numbers = [int(pull["number"]) for pull in pulls if pull["head"]["sha"] == run["head_sha"]]
        if len(numbers) != 1:
            raise MovedOnError(
                f"{len(numbers)} open pull requests have {str(run['head_sha'])[:10]} as their head; expected one. "
                "It was closed, or a newer commit was pushed, whose own run will comment"
            )
        return PullRequest(numbers[0], str(run["head_sha"]))

    def comment(self, number: int, body: str, marker: str) -> None:
        """Write our comment with this marker, or change it if it is there."""
        mine = [
            old
            for old in self._pages(f"repos/{self.repository}/issues/{number}/comments")
            if marker in str(old.get("body")) and _is_ours(old)
        ]
        if mine:
            self._send("PATCH", f"repos/{self.repository}/issues/comments/{mine[0]['id']}", {"body": body})
        else:
            self._send("POST", f"repos/{self.repository}/issues/{number}/comments", {"body": body})

    def check(self, head: str, name: str, conclusion: str, title: str, summary: str) -> None:
        """Put a finished check on a commit; conclusion is "success", "failure" or "neutral"."""
        facts = {"name": name, "head_sha": head, "status": "completed", "conclusion": conclusion}
        self._send(
            "POST",
            f"repos/{self.repository}/check-runs",
            {**facts, "output": {"title": title, "summary": summary}},
        )

    def issues(self, label: str) -> list[dict[str, Any]]:
        """Open issues of ours with this label: number, title and body."""
        found = self._pages(f"repos/{self.repository}/issues", {"state": "open", "labels": label})
        return [
            {"number": issue["number"], "title": issue["title"], "body": issue.get("body") or ""}
            for issue in found
            if "pull_request" not in issue and _is_ours(issue)
        ]

    def open_issue(self, title: str, body: str, label: str) -> None:
        """Open an issue."""
        self._send("POST", f"repos/{self.repository}/issues", {"title": title, "body": body, "labels": [label]})

    def change_issue(self, number: int, title: str, body: str, *, close: bool = False) -> None:
        """Rewrite an issue; closed as completed if it is over."""
        facts = {"title": title, "body": body}
        closing = {"state": "closed", "state_reason": "completed"} if close else {}
        self._send("PATCH", f"repos/{self.repository}/issues/{number}", {**facts, **closing})

    def _api(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        fields = [word for name, value in (query or {}).items() for word in ("-f", f"{name}={value}")]
        return json.loads(_gh(["api", "--method", "GET", path, *fields]))

    def _pages(self, path: str, query: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        page = 1
        while True:
            got = self._api(path, {**(query or {}), "per_page": "100", "page": str(page)})
            found += got
            if len(got) < 100:
                return found
            page += 1

    def _send(self, method: str, path: str, content: Mapping[str, Any]) -> None:
        _gh(["api", "--method", method, path, "--input", "-"], json.dumps(content))


def _is_ours(post: Mapping[str, Any]) -> bool:
    user = post.get("user")  # none where the account is gone
    return user is not None and user["login"] == BOT


def _gh(arguments: Sequence[str], text: str = "") -> str:
    try:
        done = subprocess.run(
            ["gh", *arguments], input=text, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    except FileNotFoundError:
        raise GitHubError("gh, GitHub's command-line program, was not found on PATH; install it") from None
    except subprocess.TimeoutExpired:
        raise GitHubError(f"gh {' '.join(arguments[:4])} did not answer within {PATIENCE_S:g} s") from None
    except OSError as error:
        raise GitHubError(f"gh cannot be run: {error.strerror or error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise GitHubError(f"gh {' '.join(arguments[:4])} failed: {said[-1] if said else 'no message'}")
    return done.stdout
