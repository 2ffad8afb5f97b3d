"""One question of `git bisect run`: is the commit in BISECT_HEAD good or bad?

python -m mlxcache.remeasure.bisect_step QUESTION.json
"""

from __future__ import annotations

import sys
from pathlib import Path

from mlxcache.history.repository.revisions import resolve_commit
from mlxcache.remeasure.bisect import Answer, Question, answer
from mlxcache.remeasure.rounds import MeasureError


def main(arguments: list[str]) -> int:
    """The exit status is the answer."""
    try:
        question = Question.from_json(Path(arguments[0]).read_text(encoding="utf-8"))
        head = resolve_commit(".", "BISECT_HEAD")
    except (MeasureError, OSError, ValueError, TypeError) as error:
        print(f"mlxcache bisect: {error}", file=sys.stderr)
        return Answer.ABORT
    found = answer(question, head)
    print(f"{head[:10]} is {found.name.lower()}", file=sys.stderr)
    return int(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
