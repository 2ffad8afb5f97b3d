"""What is known of a history is said once, and never more than that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from result_trees import document, row, write_benchmarks, write_document

from mlxcache import cli
from mlxcache.history import change_points, read
from mlxcache.history.answering.account import Account, account_of
from mlxcache.history.comparing.exit_status import ExitStatus
from mlxcache.reports.issues import plan


def tree(root: Path, values: dict[str, list[Any]], *, machine: str = "m1", env: str = "e") -> Path:
    """One commit a value, in order; None is a result that failed."""
    write_benchmarks(root, {name: {"version": "v1"} for name in values})
    for number in range(max(map(len, values.values()))):
        rows = {name: row([own[number]]) for name, own in values.items() if number < len(own)}
        write_document(root, document(rows, number=number + 1, machine=machine, env=env))
    return root


def account(root: Path) -> Account:
    """What is known of a tree."""
    history = read(root, cache=False)
    return account_of(history, change_points(history, cache=False))


def steady(n: int, level: float = 1.0) -> list[Any]:
    """Values that differ by a thousandth in turn."""
    return [level * (1 + 0.001 * (i % 3)) for i in range(n)]


def test_quiet_series_that_are_long_enough_are_nothing_slower(tmp_path: Path) -> None:
    """The sentence says for how many series it speaks, and the smallest change that would have been seen."""
    found = account(tree(tmp_path, {"b.time_x": steady(12), "b.time_new": steady(2)}))
    assert found.status is ExitStatus.NOTHING_SLOWER
    assert found.sentence == "No standing regressions in the 1 series that can show one (one machine)"
    assert "1 of 2 series could show a change, 1 have too few commits; a change of 0." in found.remarks()[0]


def test_a_machine_that_is_too_new_makes_it_cannot_tell(tmp_path: Path) -> None:
    """Five commits, the last three ten times slower, are no all-clear because another machine is fine."""
    tree(tmp_path, {"b.time_x": steady(12)})
    tree(tmp_path, {"b.time_x": [1.0, 1.0, 10.0, 10.0, 10.0]}, machine="m2")
    found = account(tmp_path)
    assert found.status is ExitStatus.CANNOT_TELL
    assert any("m2: nothing can be told yet" in line for line in found.remarks())


def test_a_step_stands(tmp_path: Path) -> None:
    """A regression is status 1, whatever else is unknown or broken."""
    found = account(tree(tmp_path, {"b.time_x": [*steady(12), *steady(12, 1.5)], "b.time_y": [1.0, None]}))
    assert found.status is ExitStatus.SLOWER
    assert len(found.standing) == 1
    assert found.sentence.startswith("1 standing regression")


def test_what_gives_no_value_any_more_is_named_with_its_commits(tmp_path: Path) -> None:
    """Failed since the fourth commit, after three values; one that never worked is no loss."""
    found = account(tree(tmp_path, {"b.time_x": [*steady(9), None, None], "b.time_never": [None] * 11}))
    assert found.status is ExitStatus.BROKEN
    (broken,) = found.broken
    assert (broken.name, broken.n_commits, broken.last_good[:8], broken.since[:8]) == (
        "b.time_x", 2, "00000009", "0000000a"
    )  # fmt: skip


def test_one_failure_in_the_middle_breaks_nothing(tmp_path: Path) -> None:
    """What gives values again is not broken."""
    assert account(tree(tmp_path, {"b.time_x": [*steady(6), None, *steady(6)]})).broken == ()


def test_the_terminal_and_json_say_the_account(tmp_path: Path, capsys: Any) -> None:
    """Sentence, status and what is broken are the same in both forms and in the exit status."""
    results = str(tree(tmp_path, {"b.time_x": [*steady(9), None, None]}))
    assert cli.main(["regressions", "--results", results]) == 4
    text = capsys.readouterr().out
    assert "Gives no value any more (1)" in text
    assert cli.main(["regressions", "--results", results, "--format", "json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == 4
    assert text.startswith(told["answer"])
    assert told["broken"][0]["benchmark"] == "b.time_x"


def test_machines_named_anew_are_one_by_a_rule(tmp_path: Path, capsys: Any) -> None:
    """Without the rule nothing can be told; with it the step is found."""
    write_benchmarks(tmp_path, {"b.time_x": {"version": "v1"}})
    for number in range(24):
        content = document({"b.time_x": row([1.3 if number >= 12 else 1.0])}, number=number + 1)
        content["params"]["machine"] = f"fv-az{number}"
        write_document(tmp_path, content)
    assert cli.main(["regressions", "--results", str(tmp_path)]) == 3
    assert "Cannot tell: no series has more than 1 commit" in capsys.readouterr().out
    assert cli.main(["regressions", "--results", str(tmp_path), "--machine-rule", "fv-az.*=hosted"]) == 1
    assert cli.main(["compare", "00000001", "00000018", "--results", str(tmp_path), "--exact-base"]) == 2


@pytest.mark.parametrize(("option", "value"), [("--env", "py4"), ("--machine", "m9")])
def test_a_choice_that_fits_nothing_names_what_there_is(
    tmp_path: Path, capsys: Any, option: str, value: str
) -> None:
    """A typo is no empty answer."""
    results = str(tree(tmp_path, {"b.time_x": steady(8)}))
    assert cli.main(["regressions", "--results", results, option, value]) == 2
    assert f"{option}: {value!r} fits none of the results; there are: " in capsys.readouterr().err


def test_an_environment_can_be_chosen(tmp_path: Path) -> None:
    """A regression in one that nobody asked for does not count."""
    tree(tmp_path, {"b.time_x": [*steady(12), *steady(12, 1.5)]}, env="old")
    tree(tmp_path, {"b.time_x": steady(24)}, env="new")
    assert cli.main(["regressions", "--results", str(tmp_path), "--env", "new"]) == 0
    assert cli.main(["regressions", "--results", str(tmp_path), "--env", "old"]) == 1


def everywhere(root: Path, capsys: Any) -> tuple[int, dict[str, Any], str, str]:
    """The status, `changes.json`, the front page and the feed of one tree."""
    status = cli.main(["regressions", "--results", str(root)])
    out = root.parent / "site"
    assert cli.main(["dashboard", "--results", str(root), "--out", str(out)]) == 0
    capsys.readouterr()
    told = json.loads((out / "changes.json").read_text())
    return status, told, (out / "index.html").read_text(), (out / "feed.xml").read_text()


@pytest.mark.parametrize(
    ("values", "status", "words"),
    [
        ({"b.time_x": steady(20)}, 0, "Nothing is slower in the 1 series"),
        ({"b.time_x": [*steady(12), *steady(12, 1.5)]}, 1, "1 benchmark is slower than before"),
        ({"b.time_x": [*steady(9), None, None], "b.time_y": steady(11)}, 4, "1 benchmark gives no value any more"),
        ({"b.time_x": steady(4)}, 3, "Too early to tell"),
        (
            {f"b.time_{k}": [*steady(12), *steady(12, 1.5)] for k in range(6)},
            3,
            "All benchmarks got worse at once",
        ),
    ],
    ids=["quiet", "slower", "broken", "short", "alike"],
)
def test_the_site_its_feed_and_its_json_say_what_the_terminal_says(
    tmp_path: Path, capsys: Any, values: dict[str, list[Any]], status: int, words: str
) -> None:
    """One account: the exit status, the front page's sentence, the feed's subtitle and the JSON agree."""
    found, told, page, feed = everywhere(tree(tmp_path / "results", values), capsys)
    assert found == told["status"] == status
    assert words in page
    assert f"<subtitle>{told['answer']}" in feed


def test_all_benchmarks_at_once_are_no_all_clear_and_a_control_decides(tmp_path: Path) -> None:
    """Without a control nobody can tell; one that stood still says it was the code."""
    moved = {f"b.time_{k}": [*steady(12), *steady(12, 1.5)] for k in range(6)}
    assert account(tree(tmp_path / "none", moved)).status is ExitStatus.CANNOT_TELL
    still = account(tree(tmp_path / "still", {**moved, "b.time_control": steady(24)}))
    assert (still.status, len(still.standing)) == (ExitStatus.SLOWER, 6)
    along = account(tree(tmp_path / "along", {**moved, "b.time_control": [*steady(12), *steady(12, 1.5)]}))
    assert along.status is ExitStatus.NOTHING_SLOWER
    assert along.n_judged == 6  # a control is no series of the project


def test_what_was_set_aside_is_counted(tmp_path: Path) -> None:
    """With the reason, beside the sentence."""
    found = account(tree(tmp_path, {f"b.time_{k}": [*steady(12), *steady(12, 1.5)] for k in range(6)}))
    assert "set aside: 1 of all benchmarks of a machine at once" in found.remarks()


def test_what_broke_has_an_issue_until_it_gives_values_again(tmp_path: Path) -> None:
    """One for each commit since which it is so; closed by nobody who has not looked at these series."""
    broken = account(tree(tmp_path / "a", {"b.time_x": [*steady(9), None, None], "b.time_y": steady(11)}))
    (opened,) = plan(broken.standing, [], {}, account=broken)
    assert (opened.kind, opened.title) == ("open", "No value since 0000000acc: b.time_x")
    issue = {"number": 7, "title": opened.title, "body": opened.body}
    assert plan(broken.standing, [issue], {}, account=broken) == []
    mended = account(tree(tmp_path / "b", {"b.time_x": [*steady(9), None, None, *steady(3)]}))
    (closed,) = plan(mended.standing, [issue], {}, account=mended)
    assert (closed.kind, closed.number) == ("close", 7)
    other = account(tree(tmp_path / "c", {"b.time_y": steady(12)}))
    assert plan(other.standing, [issue], {}, account=other) == []
