"""Which commits are measured, in part, failed or missing."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from mlxcache.commands.coverage import to_measure
from mlxcache.history.repository.commits import RepositoryError
from mlxcache.history.repository.coverage import coverage
from mlxcache.history.repository.revisions import first_parent_line
from tests.tiny_project import commit, git, make_project


def table(**commits: dict[str, str]) -> pd.DataFrame:
    """Rows for commits by name: benchmark to status; "c1@m2" is of machine m2."""
    rows = [
        {"machine": name.partition("_on_")[2] or "m1", "commit": name.partition("_on_")[0], "benchmark": benchmark}
        | {"status": status}
        for name, found in commits.items()
        for benchmark, status in found.items()
    ]
    return pd.DataFrame(rows, columns=["machine", "commit", "benchmark", "status"])


FULL = {"a": "ok", "b": "ok"}


def test_commits_are_sorted_into_four_lists() -> None:
    """Measured, in part, failed, missing; each commit in exactly one of them."""
    df = table(
        c1=FULL,
        c2={"a": "ok", "control.time_x": "ok"},
        c3=FULL,
        c4={"a": "failed", "b": "failed", "control.time_x": "ok"},
        c5=FULL,
    )
    (found,) = coverage(df, ["c0", "c1", "c2", "c3", "c4", "c5"])
    assert found.measured == ("c1", "c3", "c5")
    assert found.partial == ("c2",)
    assert found.failed == ("c4",)
    assert found.missing == ("c0",)
    assert found.to_measure() == ("c0", "c2")
    assert found.to_measure(retry_failed=True) == ("c0", "c2", "c4")


def test_what_is_new_or_gone_is_no_gap() -> None:
    """Benchmarks come and go with the suite; a gap is what both neighbours have."""
    (found,) = coverage(
        table(c1={"a": "ok", "old": "ok"}, c2={"a": "ok"}, c3={"a": "ok", "new": "ok"}), ["c1", "c2", "c3"]
    )
    assert found.partial == ()


def test_a_commit_that_failed_is_not_measured_in_part_as_well() -> None:
    """It stands in one list, also where it lacks what both neighbours have."""
    (found,) = coverage(table(c1=FULL, c2={"a": "failed"}, c3=FULL), ["c1", "c2", "c3"])
    assert (found.failed, found.partial, found.to_measure()) == (("c2",), (), ())


def test_the_newest_commit_lacks_what_its_neighbour_has() -> None:
    """A runner that died in the middle of the newest commit's shard is noticed at once."""
    (found,) = coverage(table(c1=FULL, c2=FULL, c3={"a": "ok"}), ["c1", "c2", "c3"])
    assert found.partial == ("c3",)


def test_a_commit_that_skipped_everything_is_measured() -> None:
    """An old commit will lack tomorrow what it lacks today; the control alone is no measurement."""
    (found,) = coverage(table(c1={"a": "skipped"}, c2={"control.time_x": "ok"}), ["c1", "c2"])
    assert found.measured == ("c1",)
    assert found.missing == ("c2",)


def test_to_measure_is_what_no_machine_has_newest_first() -> None:
    """One machine of a fleet is enough, and without any all commits are missing."""
    line = ["c1", "c2", "c3"]
    found = coverage(table(c1=FULL, c2_on_m2=FULL), line)
    assert to_measure(found, line) == ["c3"]
    assert to_measure([], line) == ["c3", "c2", "c1"]


def test_the_line_follows_first_parents(tmp_path: Path) -> None:
    """Commits of a merged branch are not on it; the newest of the line can be asked for."""
    make_project(tmp_path)
    first = git(tmp_path, "rev-parse", "HEAD")
    git(tmp_path, "checkout", "-q", "-b", "side")
    commit(tmp_path, "aside", side_py="")
    git(tmp_path, "checkout", "-q", "main")
    second = commit(tmp_path, "second", tiny_py="VALUE = 2\n")
    git(tmp_path, "merge", "-q", "--no-ff", "-m", "merge", "side")
    merge = git(tmp_path, "rev-parse", "HEAD")
    assert first_parent_line(tmp_path, "main") == [first, second, merge]
    assert first_parent_line(tmp_path, "main", 2) == [second, merge]
    assert first_parent_line(tmp_path, f"{first}..main") == [second, merge]


@pytest.mark.parametrize("name", ["nowhere", "--all", "a..nowhere"])
def test_a_range_that_git_does_not_know_is_named(tmp_path: Path, name: str) -> None:
    """An option is no range either."""
    make_project(tmp_path)
    with pytest.raises(RepositoryError, match="range: "):
        first_parent_line(tmp_path, name)
