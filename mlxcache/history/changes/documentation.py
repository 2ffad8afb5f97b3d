"""Which ranges of commits touch nothing that a benchmark could run.

A typo fixed in a README moves no number; when one seems to move there, it is noise
(shakacode/react_on_rails#4071).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from mlxcache.support.git import READ_ONLY, run_git

_DOCUMENTS = re.compile(
    r"(\.(md|rst|adoc|png|jpe?g|gif|svg|pdf|bib|cff)$)"
    r"|((^|/)(docs?|documentation|\.github|\.circleci|results)/)"
    r"|((^|/)(licen[cs]e|copying|notice|authors|contributors|changelog|changes|news|readme|codeowners|citation)"
    r"(\.txt)?$)"
    r"|((^|/)\.(gitignore|gitattributes|mailmap|editorconfig|readthedocs\.ya?ml|git-blame-ignore-revs)$)",
    re.IGNORECASE,
)


def is_documentation(path: str) -> bool:
    """Whether a file of this path is read by people or by CI and by no benchmark."""
    return _DOCUMENTS.search(path) is not None


def _git(repo: str | os.PathLike[str], *arguments: str, lines: Iterable[str]) -> str | None:
    try:
        done = run_git(repo, *arguments, given="".join(f"{line}\n" for line in lines), environment=READ_ONLY)
    except OSError:
        return None
    return done.text if done.ok else None


def documentation_only(repo: str | os.PathLike[str], ranges: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those ranges (commit before, commit after) between which only documentation differs.

    Two git calls for any number of ranges. A range with a commit that the repository lacks is not among them.
    """
    wanted = sorted(set(ranges))
    commits = sorted({commit for pair in wanted for commit in pair})
    answer = _git(repo, "cat-file", "--batch-check=%(objectname)", lines=[f"{c}^{{tree}}" for c in commits])
    if answer is None:
        return set()
    trees = {
        commit: line
        for commit, line in zip(commits, answer.splitlines(), strict=False)
        if re.fullmatch(r"[0-9a-f]{40,64}", line)
    }
    known = [pair for pair in wanted if pair[0] in trees and pair[1] in trees]
    # diff-tree prints the pair that it was asked for and then the paths.
    asked = [f"{trees[before]} {trees[after]}" for before, after in known]
    listing = _git(repo, "diff-tree", "-r", "--name-only", "-z", "--stdin", lines=asked)
    if listing is None:
        return set()
    paths: dict[str, list[str]] = {}
    current: list[str] = []
    for item in re.split(r"[\0\n]", listing):
        if re.fullmatch(r"[0-9a-f]{40,64} [0-9a-f]{40,64}", item):
            current = paths.setdefault(item, [])
        elif item:
            current.append(item)
    return {
        pair
        for pair, key in zip(known, asked, strict=True)
        if key in paths and paths[key] and all(map(is_documentation, paths[key]))
    }
