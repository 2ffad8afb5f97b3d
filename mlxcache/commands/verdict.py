"""`mlxcache verdict FILE`: what `mlxcache compare --format json` found, as a comment for a pull request.

A job that ran a stranger's code hands over the JSON; one that may write comments turns it into Markdown, so
that nothing in it can be more than text.

Exit status: that of the comparison (0 nothing slower, 1 something is slower, 2 it could not be done, 3 cannot
tell, 4 a benchmark broke or is gone).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from mlxcache.commands.selecting import needs, no_effect
from mlxcache.history.comparing.protocol import Comparison, NotDone, joined
from mlxcache.history.comparing.verdicts import Verdict
from mlxcache.reports.comment import NOT_DONE, Figure, comment, marker, render
from mlxcache.reports.comparison import ReportError, read_json
from mlxcache.reports.github import GitHub, GitHubError, MovedOnError
from mlxcache.reports.text import FORMATS

# Inconclusive must not block, and must not look like a pass either.
_CONCLUSIONS = {
    Verdict.NO_REGRESSION: "success",
    Verdict.REGRESSION: "failure",
    Verdict.INCONCLUSIVE: "neutral",
}

_NO_RESULT = "the job that measures ended before it had a result; its log says why"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="the output of `mlxcache compare --format json`; several of the same commits, such as of one machine "
        "each, become one verdict",
    )
    parser.add_argument("--format", choices=FORMATS, default="markdown")
    parser.add_argument(
        "--figure", action="append", default=[], metavar="URL", help="a published figure to show (three at most)"
    )
    parser.add_argument("--details", metavar="URL", help="where the full results are")
    parser.add_argument("--key", help="tells several comments on one pull request apart")
    parser.add_argument(
        "--post",
        type=Path,
        metavar="EVENT",
        help="comment on, and check, the pull request of the workflow run in this event ($GITHUB_EVENT_PATH)",
    )
    parser.add_argument(
        "--repository",
        metavar="OWNER/NAME",
        help="where to post (default: $GITHUB_REPOSITORY)",
    )


def run(args: argparse.Namespace) -> int:
    """Print it. A file that is no comparison is reported in the format asked for, as not measured."""
    try:
        if args.format != "markdown":
            no_effect(args, args.format, "--figure", "--details", "--key", "--post")
        needs(args, "--post", "--repository")
    except ValueError as error:
        print(f"mlxcache verdict: {error}", file=sys.stderr)
        return NOT_DONE
    args.details, args.key = args.details or "", args.key or ""
    args.repository = args.repository or os.environ.get("GITHUB_REPOSITORY", "")
    try:
        outcome = joined([_read(path, args) for path in args.files])
    except ValueError as error:
        print(f"mlxcache verdict: {error}", file=sys.stderr)
        outcome = NotDone(str(error))
    if args.format == "markdown":
        figures = [Figure(url, f"history, figure {number}") for number, url in enumerate(args.figure, 1)]
        body = comment(outcome, figures=figures, details=args.details, key=args.key)
        sys.stdout.write(body)
        if args.post:
            try:
                _post(args, outcome, body)
            except MovedOnError as error:
                print(f"mlxcache verdict: not posted: {error}", file=sys.stderr)
                return 0
            except (GitHubError, OSError, ValueError, KeyError) as error:
                print(f"mlxcache verdict: not posted: {error}", file=sys.stderr)
                return NOT_DONE
            # The check carries the verdict; the job that posted it did its work.
            return 0
    else:
        sys.stdout.write(render(outcome, args.format))
    return NOT_DONE if isinstance(outcome, NotDone) else outcome.exit_status


def _read(path: Path, args: argparse.Namespace) -> Comparison | NotDone:
    try:
        return read_json(path)
    except ReportError as error:
        print(f"mlxcache verdict: {error}", file=sys.stderr)
        return NotDone(str(error) if path.exists() or not args.post else _NO_RESULT)


def _post(args: argparse.Namespace, outcome: Comparison | NotDone, body: str) -> None:
    run = json.loads(args.post.read_text(encoding="utf-8"))["workflow_run"]
    github = GitHub(args.repository)
    pull = github.pull_request_of(run)
    if isinstance(outcome, Comparison) and outcome.head != pull.head:
        # A run by hand names its pull request only, and that may have a newer commit by now.
        raise MovedOnError(
            f"pull request {pull.number} is at {pull.head[:10]} and {outcome.head[:10]} was measured; ask again"
        )
    github.comment(pull.number, body, marker(args.key))
    conclusion = "failure"
    if isinstance(outcome, Comparison) and not (outcome.undone or outcome.lost):
        conclusion = _CONCLUSIONS[outcome.verdict]
    title = body.partition("\n")[0].lstrip("# ")
    github.check(pull.head, "benchmarks" + f" {args.key}" * bool(args.key), conclusion, title[:250], body)
