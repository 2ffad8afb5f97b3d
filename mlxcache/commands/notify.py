"""`mlxcache notify`: the issues that confirmed regressions need; --apply opens, rewrites and closes them.

Exit status: 0, or 2 if it could not be done.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from mlxcache.commands.selecting import add_results, chosen, control_of, only
from mlxcache.history.answering.account import account_of
from mlxcache.history.changes.change_table import change_points
from mlxcache.history.changes.confirmations import read_confirmations
from mlxcache.reports.github import GitHub, GitHubError
from mlxcache.reports.issues import Action, plan


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_results(parser, repo=".")
    parser.add_argument("--issues", type=Path, metavar="FILE", help="our open issues as JSON, instead of asking")
    parser.add_argument(
        "--repository",
        default=os.environ.get("GITHUB_REPOSITORY", ""),
        metavar="OWNER/NAME",
        help="whose issues (default: $GITHUB_REPOSITORY)",
    )
    parser.add_argument("--label", default="performance", help="the issues' label (default: %(default)s)")
    parser.add_argument("--page", default="", metavar="URL", help="the published site, to link to")
    parser.add_argument("--apply", action="store_true", help="do it; without this it is only printed")


def run(args: argparse.Namespace) -> int:
    """Print what is to be done, and do it if asked to."""
    try:
        if args.apply and not args.repository:
            raise ValueError("--apply needs --repository OWNER/NAME")
        if args.page and not args.page.startswith("https://"):
            raise ValueError(f"--page: got {args.page!r}, expected an address that begins with https://")
        history = chosen(args, param_columns=False)
        confirmations, problems = read_confirmations(args.results)
        found = change_points(history, control=control_of(args), repo=args.repo, confirmations=confirmations)
        history, changes = only(args, history, found)
        order = {name: commit.index for name, commit in history.commits.items()}
        github = GitHub(args.repository)
        if args.issues:
            issues = json.loads(args.issues.read_text(encoding="utf-8"))
        else:
            issues = github.issues(args.label) if args.repository else []
        account = account_of(history, changes)
        actions = plan(changes, issues, order, args.page, account)
        for line in (account.sentence, *account.remarks()):
            print(f"note: {line}", file=sys.stderr)
        for problem in problems:
            print(f"note: {problem}", file=sys.stderr)
        print(json.dumps([asdict(action) for action in actions], indent=2))
        if args.apply:
            for action in actions:
                _apply(github, action, args.label)
    except (GitHubError, ValueError, OSError) as error:
        print(f"mlxcache notify: {error}", file=sys.stderr)
        return 2
    return 0


def _apply(github: GitHub, action: Action, label: str) -> None:
    if action.number is None:
        github.open_issue(action.title, action.body, label)
    else:
        github.change_issue(action.number, action.title, action.body, close=action.kind == "close")
