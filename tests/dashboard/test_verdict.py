"""The comment on a pull request: verdict first, nothing hidden, nothing injected, never too long."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mlxcache.cli import main
from mlxcache.history.comparing.verdicts import Verdict
from mlxcache.reports.comment import LIMIT, Figure, NotDone, comment, marker
from mlxcache.reports.comparison import ReportError, read_json, to_json

from .comparisons import comparison, row, undecided


def first_line(text: str) -> str:
    """What a reader sees first."""
    return text.splitlines()[0]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (
            [row("a.time_x", 0.12), row("b.time_y")],
            "### 🔺 Regression: 1 of 2 series got worse, `a.time_x` by +12.0 %",
        ),
        (
            [row("a.time_x", 0.12), row("b.time_y", 0.05)],
            "### 🔺 Regression: 2 of 2 series got worse, most of all `a.time_x` by +12.0 %",
        ),
        ([row("a.time_x")], "### ✅ No regression in 1 series"),
        ([row("a.time_x", -0.2), row("b")], "### ✅ No regression in 2 series, 1 got better"),
        ([undecided(), row("b")], "### ❔ Inconclusive: 1 of 2 series cannot be told from noise yet"),
    ],
)
def test_the_first_line_is_the_verdict(rows: list[dict[str, object]], line: str) -> None:
    """A reader may stop after it."""
    assert first_line(comment(comparison(*rows))) == line


def test_the_table_says_whose_change_it_is() -> None:
    """New here, already on trunk and recovered are told apart, with magnitude and interval."""
    text = comment(
        comparison(
            row("a.time_new", 0.12),
            row("b.time_old", already_on_base="+8.0% since 1234abcd (confirmed, confidence 0.99)"),
            row("c.time_back", -0.1, already_on_base="+11.0% since 9876dcba (candidate, confidence 0.80)"),
            row("d.time_both", 0.05, already_on_base="+8.0% since 1234abcd"),
            row("e.time_fast", -0.3),
        )
    )
    lines = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert "| **+12.0 %** | +11.0 % to +13.0 % | 1.00 ms → 1.12 ms | new here |" in lines["a.time_new"]
    assert "| already on trunk (+8.0% since 1234abcd (confirmed" in lines["b.time_old"]
    assert lines["c.time_back"].endswith("| recovered |")
    assert "new here, and more on trunk" in lines["d.time_both"]
    assert lines["e.time_fast"].endswith("| better |")


def test_inconclusive_says_what_it_would_take() -> None:
    """More rounds where rounds were measured, a measurement where there were none; and that it is not fine."""
    text = comment(comparison(undecided()))
    assert "1 benchmark still open: about 60 rounds instead of 20 would settle all, or a quieter runner." in text
    assert "Inconclusive does not mean fine" in text
    assert "-5.0 % to +12.0 %" in text
    assert "measuring both commits in turn (`--measure`)" in comment(comparison(undecided(), measured=False))


def test_what_did_not_run_on_head_is_in_plain_sight() -> None:
    """A benchmark that broke is no pass."""
    text = comment(comparison(row(), verdict=Verdict.INCONCLUSIVE, lost=["gone.time_a", "gone.time_b"]))
    assert first_line(text) == "### ❔ Inconclusive: 2 series of base gave no value on head"
    assert "**Ran on base, gave no value on head:** `gone.time_a`, `gone.time_b`." in text


def test_figure_noise_reproduction_and_details_are_there() -> None:
    """One command reproduces the verdict, for the benchmarks that it rests on."""
    text = comment(
        comparison(row("mod.time_x", 0.1, params="'int32', 64"), noise=["the control moved within 3.0%"]),
        figures=[Figure("https://example.org/a b.svg", "history")],
        details="https://example.org/run/1",
    )
    assert "![history](https://example.org/a%20b.svg)" in text
    assert "**Noise of the runner:** the control moved within 3.0%" in text
    assert "mlxcache compare aaaaaaaaaaaa bbbbbbbbbbbb --measure --bench " in text
    assert "'\"'\"'int32'\"'\"'" in text
    assert "[Full results](https://example.org/run/1)" in text
    assert "<details>" in text


def test_nothing_measured_is_neither_green_nor_a_regression() -> None:
    """The reason stands in the comment."""
    text = comment(NotDone("head abc cannot be built in env1: no compiler"))
    assert first_line(text) == "### ⛔ Not measured: there is no verdict on this change"
    assert "head abc cannot be built" in text
    assert marker() in text


def test_the_marker_ends_the_comment_and_tells_comments_apart() -> None:
    """A workflow finds its own comment by it, and a key cannot end the HTML comment."""
    assert comment(comparison(row())).endswith(f"\n{marker()}\n")
    assert marker("m1 --> <b>") == "<!-- mlxcache verdict m1--b -->"
    assert comment(comparison(row()), key="m1").endswith("<!-- mlxcache verdict m1 -->\n")


@pytest.mark.parametrize("how_many", [1, 50, 500, 5_000])
def test_any_number_of_benchmarks_fits(how_many: int) -> None:
    """65,536 is GitHub's limit; regressions are shown before anything else, and what is left out is counted."""
    rows = [row(f"module.Suite{i}.time_{'x' * 120}", 0.05 + i / 1e6, params="'é', 4") for i in range(how_many)]
    rows += [undecided(f"open.time_{i}", note="n" * 300) for i in range(how_many)]
    rows += [row(f"same.time_{i}") for i in range(how_many)]
    text = comment(comparison(*rows, notices=["n" * 400] * how_many, lost=["l" * 400] * how_many))
    assert len(text.encode()) <= LIMIT < 65_536
    assert first_line(text).startswith(f"### 🔺 Regression: {how_many} of {3 * how_many} series got worse")
    assert marker() in text
    if how_many > 100:
        assert "of them regressions): no room here" in text


def test_a_benchmark_of_absurd_length_fits_too() -> None:
    """Names are clipped in the middle, and the command leaves such a name out."""
    text = comment(comparison(row("m." + "y" * 100_000, 0.5, params="p" * 100_000)))
    assert len(text.encode()) <= LIMIT
    assert "--bench" not in text


NASTY = "a|b`c``<script>alert(1)</script>\n### @all [x](https://e.org) -->"


def test_names_and_remarks_cannot_become_markup() -> None:
    """Pipes, backticks, HTML, headings, mentions and the end of the marker stay text."""
    text = comment(
        comparison(
            row(NASTY, 0.2, params=NASTY, note=NASTY, already_on_base=NASTY, machine=NASTY, env=NASTY),
            undecided(NASTY, note=NASTY),
            notices=[NASTY],
            noise=[NASTY],
            lost=[NASTY],
        ),
        figures=[Figure("javascript:alert(1)", NASTY), Figure("https://e.org/)<b>", "")],
    )
    outside = _without_code(text)
    assert "<script>" not in outside
    assert "@all" not in outside
    assert "https://e.org)" not in outside.replace("https://e.org/%29%3Cb%3E)", "")
    assert "javascript:" not in text
    assert [line for line in text.splitlines() if line.startswith("#")] == [first_line(text)]
    assert outside.count("-->") == 1
    assert outside.rstrip().endswith(marker())


def _without_code(text: str) -> str:
    """The text less its inline code and code blocks, as GitHub would parse them."""
    kept, fence = [], ""
    for line in text.splitlines():
        if fence:
            fence = "" if line == fence else fence
            continue
        if line.startswith("```"):
            fence = line[: len(line) - len(line.lstrip("`"))]
            continue
        out, index = "", 0
        while index < len(line):
            if line[index] == "`" and (index == 0 or line[index - 1] != "\\"):
                run = len(line[index:]) - len(line[index:].lstrip("`"))
                end = line.find("`" * run, index + run)
                while end >= 0 and line[end + run : end + run + 1] == "`":
                    end = line.find("`" * run, end + run + 1)
                if end >= 0:
                    index = end + run
                    continue
            out += line[index]
            index += 1
        kept.append(out)
    return "\n".join(kept)


def test_json_is_read_back_as_it_was(tmp_path: Path) -> None:
    """Open intervals and missing values survive, and the comment is the same."""
    before = comparison(
        row("a", 0.1), undecided(low=-math.inf, high=math.inf, value_head=math.nan), noise=["x"], lost=["l"]
    )
    path = tmp_path / "comparison.json"
    path.write_text(to_json(before))
    after = read_json(path)
    assert not isinstance(after, NotDone)
    assert comment(after) == comment(before)
    path.write_text(to_json(NotDone("why")))
    assert read_json(path) == NotDone("why")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "no verdict in it"),
        ('{"verdict": "fine"}', "no verdict in it"),
        ('{"verdict": "no regression", "series": []}', "at least one series"),
        ('{"verdict": "no regression", "series": [1]}', "series 1 is 1, expected an object"),
        ('{"verdict": "no regression", "series": [{"machine": 3}]}', 'series 1: "machine" is 3'),
    ],
)
def test_what_is_no_comparison_is_named(tmp_path: Path, text: str, message: str) -> None:
    """The file and the field are in the message."""
    path = tmp_path / "comparison.json"
    path.write_text(text)
    with pytest.raises(ReportError, match=message):
        read_json(path)


def test_the_command_prints_the_comment_with_the_comparisons_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0, 1, 3 as compared; 2 for what was not measured or cannot be read, with a comment all the same."""
    path = tmp_path / "comparison.json"
    for outcome, status in (
        (comparison(row()), 0),
        (comparison(row("a", 0.1)), 1),
        (comparison(undecided()), 3),
        (NotDone("no environment"), 2),
    ):
        path.write_text(to_json(outcome))
        assert main(["verdict", str(path), "--key", "k"]) == status
        assert marker("k") in capsys.readouterr().out
    assert main(["verdict", str(tmp_path / "none.json")]) == 2
    told = capsys.readouterr()
    assert "cannot be read" in told.err
    assert first_line(told.out).startswith("### ⛔ Not measured")


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ((comparison(row()), comparison(row(machine="m2"))), 0),
        ((comparison(row()), comparison(row("a", 0.2, machine="m2"))), 1),
        ((comparison(row()), comparison(row(machine="m2"), verdict="inconclusive")), 3),
        ((comparison(row()), comparison(row(machine="m2"), verdict="inconclusive", lost=["b"])), 4),
        ((comparison(row()), NotDone("the Mac was away")), 2),
        ((comparison(row("a", 0.2)), NotDone("the Mac was away")), 1),
        ((comparison(row()), comparison(row())), 2),
    ],
    ids=["quiet", "one slower", "one open", "one lost", "one not done", "slower and not done", "the same twice"],
)
def test_several_comparisons_are_one_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], outcomes: tuple[object, ...], status: int
) -> None:
    """The worst of them decides, and one that was not made is never a pass."""
    paths = [tmp_path / f"{number}.json" for number in range(len(outcomes))]
    for path, outcome in zip(paths, outcomes, strict=True):
        path.write_text(to_json(outcome))  # type: ignore[arg-type]
    assert main(["verdict", *map(str, paths)]) == status
    text = capsys.readouterr().out
    assert ("the Mac was away" in text) == any(isinstance(outcome, NotDone) for outcome in outcomes)
    assert text.startswith("### ✅") == (status == 0)


def test_comparisons_of_other_commits_are_no_one_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The two commits have to be the same."""
    text = to_json(comparison(row(machine="m2")))
    (tmp_path / "a.json").write_text(to_json(comparison(row())))
    (tmp_path / "b.json").write_text(text.replace("b" * 40, "c" * 40))
    assert main(["verdict", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 2
    assert "expected the same two commits" in capsys.readouterr().err


def test_what_stays_open_in_a_pass_is_in_its_first_line() -> None:
    """Twenty-nine of thirty series are said to be fine, and the thirtieth to be open."""
    rows = [row(f"m.time_{k}") for k in range(29)]
    assert first_line(comment(comparison(*rows, undecided()))).endswith(
        "No regression in 29 of 30 series, 1 cannot be told from noise"
    )
