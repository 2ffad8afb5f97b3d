"""What is on the pages, read as files."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import html5lib
import pandas as pd
import pytest

from mlxcache.cli import main
from mlxcache.dashboard.output import LIST_NAME, Output, SiteError
from mlxcache.dashboard.site import build_site
from mlxcache.history import change_points, load
from mlxcache.history.loading import parse_cache
from mlxcache.history.loading.history import History
from tests.dashboard.site_trees import HOSTILE, commit, judged, write_benchmarks, write_file, write_story


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _all_pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


@pytest.mark.parametrize("name", ["story", "hostile"])
def test_pages_are_valid_html(name: str, request: pytest.FixtureRequest) -> None:
    """A strict HTML5 parser finds no error, ids are unique, every local link has a target."""
    site: Path = request.getfixturevalue(name)
    for page in _all_pages(site):
        parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
        tree = parser.parse(_text(page))
        ids = [node.get("id") for node in tree.iter() if node.get("id")]
        assert len(ids) == len(set(ids)), page.name
        for node in tree.iter():
            target = node.get("href") or node.get("src") or ""
            local = target.partition("#")[0]
            if local and not local.startswith(("http:", "https:")):
                assert (page.parent / local).exists(), (page.name, target)


@pytest.mark.parametrize("name", ["story", "hostile"])
def test_pages_name_no_other_host(name: str, request: pytest.FixtureRequest) -> None:
    """Nothing on a page points to another host, and the policy in each forbids it."""
    site: Path = request.getfixturevalue(name)
    for page in _all_pages(site):
        text = _text(page)
        assert not re.search(r"(src|href)=\"(https?:)?//", text), page.name
        assert "default-src 'none'" in text


def test_no_name_is_markup_anywhere(hostile: Path) -> None:
    """In pages, data, feed and JSON a name that looks like markup is escaped."""
    for path in [*_all_pages(hostile), *hostile.rglob("data/*.js"), hostile / "feed.xml"]:
        text = _text(path)
        assert "<script>alert" not in text, path.name
        assert "<img src=x" not in text, path.name
        assert "</script><img" not in text, path.name


def test_no_cell_of_a_csv_file_is_a_formula(hostile: Path) -> None:
    """A spreadsheet that opens the files runs nothing; the name is still there."""
    for path in hostile.rglob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                for cell in row:
                    assert not cell.startswith(("=", "@")), (path.name, cell)
    assert "'=cmd|" in _text(hostile / "csv" / "benchmarks.csv")


def test_changes_are_exported_as_json_and_feed(story: Path) -> None:
    """Both list the same changes, each with a page that exists."""
    listed = json.loads(_text(story / "changes.json"))["changes"]
    assert {entry["benchmark"] for entry in listed} == {"step.time_work", "bump.time_work", "gain.time_work"}
    assert all((story / entry["page"]).is_file() for entry in listed)
    assert {entry["state"] for entry in listed} >= {"candidate", "recovered"}
    assert all(entry["still_measured"] for entry in listed)
    feed = ElementTree.fromstring((story / "feed.xml").read_bytes())
    space = {"a": "http://www.w3.org/2005/Atom"}
    entries = feed.findall("a:entry", space)
    assert len(entries) == len(listed)
    assert all(entry.find("a:updated", space) is not None for entry in entries)
    step = next(entry for entry in listed if entry["benchmark"] == "step.time_work")
    assert step["after"] == commit(20)
    assert len(step["series"]) == 2


def test_every_change_is_drawn_at_once(story: Path) -> None:
    """Each page has its figure with axes, units, commits, both levels and the range, without a script."""
    pages = list((story / "changes").glob("*.html"))
    assert len(pages) == 4
    for page in pages:
        drawing = re.search(r'<svg class="plot".*?</svg>', _text(page), re.S)
        assert drawing is not None
        assert len(re.findall(r'class="level', drawing[0])) == 2
        assert 'class="range' in drawing[0]
        assert len(re.findall(r"<text ", drawing[0])) > 8
        assert "<title>" in drawing[0]
        assert re.search(r'aria-label="[^"]+ before and [^"]+ from ', drawing[0])
    assert {path.suffix for path in (story / "changes").iterdir()} == {".html", ".csv"}


def test_a_recovered_regression_is_listed_but_not_standing(story: Path) -> None:
    """The front page does not list it as slower and counts it; the list of changes has it."""
    front = _text(story / "index.html")
    slower = re.search(r'<section aria-labelledby="slower">.*?</section>', front, re.S)
    assert slower is not None
    assert "bump." not in slower[0]
    assert re.search(r"<strong>1</strong><span>recovered regression</span>", front)
    assert "bump." in _text(story / "changes.html")


def test_a_second_build_writes_only_what_changed(tmp_path: Path) -> None:
    """The same data writes no file of the site; a commit of something else leaves what tells of the rest alone."""
    results, site = write_story(tmp_path / "results"), tmp_path / "site"
    first = build_site(*judged(results), site)
    assert first.n_written == first.n_files > 20
    assert build_site(*judged(results), site).n_written == 0
    stamp = {path: path.stat().st_mtime_ns for path in site.rglob("*") if path.is_file()}
    write_file(results, 40, {"other.time_new": 1e-3})
    build_site(*judged(results), site)
    same = [path for path, when in stamp.items() if path.exists() and path.stat().st_mtime_ns == when]
    own = [path for path in stamp if path.parent.name == "data" and path.name.startswith("step")]
    assert len(own) == 1
    assert set(own) <= set(same)
    assert (site / "static" / "plotly-basic.min.js") in same


def test_a_warm_build_is_what_a_cold_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After files came and went, caches and an earlier site leave the same table, changes and files behind."""
    monkeypatch.setattr(parse_cache, "_WORTHWHILE_BYTES", 0)
    results, site, cache = write_story(tmp_path / "results", 24), tmp_path / "site", tmp_path / "cache"
    for step, numbers in enumerate([(), (24, 25), (26,), (27,)]):
        for number in numbers:
            worse = 1.0 + 0.5 * (number > 25)
            write_file(results, number, {"bump.time_work": 5e-4 * worse, "many.time_x": [1e-3] * 900},
                       params={"many.time_x": [[str(i) for i in range(900)]]})  # fmt: skip
        if step == 3:
            next(results.glob("*/00000005-*.json")).unlink()
        df = load(results, cache=cache)
        history = History.of(df)
        changes = change_points(history, cache=cache)
        build_site(history, changes, site)
        cold = load(results, cache=False)
        pd.testing.assert_frame_equal(df, cold)
        cold_changes = change_points(cold, cache=False)
        pd.testing.assert_frame_equal(changes, cold_changes)
        fresh = tmp_path / f"fresh-{step}"
        build_site(cold, cold_changes, fresh)
        made = [path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file() and path.name != LIST_NAME]
        assert len(made) > 15
        assert [path for path in made if (site / path).read_bytes() != (fresh / path).read_bytes()] == []
    assert any(cache.rglob("*.values.npz"))


def test_a_page_keeps_its_address_when_its_change_is_gone(tmp_path: Path) -> None:
    """A link that someone pasted leads to a page that says what became of the change."""
    results, site = write_story(tmp_path / "results"), tmp_path / "site"
    df, changes = judged(results)
    build_site(df, changes, site)
    page = next((site / "changes").glob("gain*.html"))
    kept = changes[changes["benchmark"] != "gain.time_work"].reset_index(drop=True)
    kept.set_aside = changes.set_aside
    build_site(df, kept, site)
    assert "was listed here" in _text(page)
    assert not page.with_suffix(".csv").exists()
    build_site(df, changes, site)
    assert "was listed here" not in _text(page)
    assert page.with_suffix(".csv").exists()


def test_files_that_are_not_ours_stay(tmp_path: Path) -> None:
    """Another tool's folder inside the site survives a build; a foreign index.html stops it."""
    results, site = write_story(tmp_path / "results", commits=8), tmp_path / "site"
    build_site(*judged(results), site)
    (site / "asv").mkdir()
    (site / "asv" / "index.html").write_text("asv")
    build_site(*judged(results), site)
    assert (site / "asv" / "index.html").read_text() == "asv"
    assert 'href="asv/index.html"' in _text(site / "data.html")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "index.html").write_text("mine")
    with pytest.raises(SiteError, match="did not write"):
        build_site(*judged(results), foreign)
    assert (foreign / "index.html").read_text() == "mine"


@pytest.mark.parametrize("first", [True, False])
def test_a_build_that_was_cut_short_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """The next one writes what a build into a new folder writes, and leaves nothing of the other behind."""
    results, site, fresh = write_story(tmp_path / "results"), tmp_path / "site", tmp_path / "fresh"
    df, changes = judged(results)
    if not first:
        build_site(df, changes, site)
    monkeypatch.setattr(Output, "finish", lambda out: out.text("changes/only-here.html", "<p>x"))
    none = changes.iloc[:0]
    none.set_aside = changes.set_aside
    build_site(df, none, site, title="Another title")
    monkeypatch.undo()
    for folder in (site, fresh):
        build_site(df, changes, folder)
    content = [
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (site, fresh)
    ]
    assert content[0] == content[1]


def _front(root: Path, site: Path) -> str:
    build_site(*judged(root), site)
    for page in _all_pages(site):
        html5lib.HTMLParser(strict=True).parse(_text(page))
    return _text(site / "index.html")


def test_an_empty_tree_says_that_it_is_empty(tmp_path: Path) -> None:
    """No results: a page that says so, and no links to pages that would be empty."""
    (tmp_path / "results").mkdir()
    front = _front(tmp_path / "results", tmp_path / "site")
    assert "There are no results to show." in front
    assert "explorer.html" not in front


def test_one_commit_is_too_early_to_tell(tmp_path: Path) -> None:
    """One commit cannot show a change, and that is what the page says instead of green."""
    write_benchmarks(tmp_path / "results", ["a.time_x"])
    write_file(tmp_path / "results", 1, {"a.time_x": 1e-3})
    front = _front(tmp_path / "results", tmp_path / "site")
    assert "Too early to tell." in front
    assert "Nothing is slower" not in front


def test_only_failures_are_not_called_fine(tmp_path: Path) -> None:
    """Where all results failed, the page says that nothing was measured."""
    for number in range(8):
        write_file(tmp_path / "results", number, {"a.time_x": None})
    front = _front(tmp_path / "results", tmp_path / "site")
    assert "Nothing was measured." in front
    assert "a.time_x" in _text(tmp_path / "site" / "data.html")


def test_four_hundred_machines_fit(tmp_path: Path) -> None:
    """The front page shows the most recent ones and links to all."""
    for number in range(400):
        write_file(tmp_path / "results", number % 7, {"a.time_x": 1e-3}, machine=f"runner-{number:03}")
    front = _front(tmp_path / "results", tmp_path / "site")
    assert "All 400 machines" in front
    assert front.count("runner-") < 40


def test_steady_series_are_fine(tmp_path: Path) -> None:
    """Without a change the answer is green and says over what."""
    for number in range(12):
        write_file(tmp_path / "results", number, {"a.time_x": 1e-3 * (1 + 0.001 * (number % 4))})
    front = _front(tmp_path / "results", tmp_path / "site")
    assert "Nothing is slower in the 1 series that can show it (one machine)." in front


def test_commits_without_a_subject_and_off_the_branch_are_shown(tmp_path: Path) -> None:
    """With a repository the range lists its commits, also an empty subject; links go to the remote."""
    repo = tmp_path / "repo"
    repo.mkdir()

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *identity, *arguments], cwd=repo, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    git("remote", "add", "origin", "git@example.org:some/project.git")
    names = []
    for number in range(24):
        subject = "" if number == 12 else f"Change <number> {number}"
        git("commit", "-q", "--allow-empty", "--allow-empty-message", "-m", subject)
        names.append(git("rev-parse", "HEAD"))
    for number, name in enumerate(names):
        if number == 11:
            continue  # so that the range holds two commits
        path = write_file(tmp_path / "results", number, {"a.time_x": 1e-3 * (1.5 if number >= 12 else 1)})
        content = json.loads(path.read_text())
        content["commit_hash"] = name
        path.write_text(json.dumps(content))
    df, changes = judged(tmp_path / "results", repo=repo)
    build_site(df, changes, tmp_path / "site", repo=repo)
    page = _text(next((tmp_path / "site" / "changes").glob("*.html")))
    assert "2 commits in the range" in page
    assert "(no subject)" in page
    assert "Change &lt;number&gt; 11" in page
    assert f"https://example.org/some/project/commit/{names[12]}" in page


def test_problems_are_listed_with_their_reason(tmp_path: Path) -> None:
    """A file that cannot be read is counted on the front page and named in the data page and its CSV."""
    write_benchmarks(tmp_path / "results", ["a.time_x"])
    write_file(tmp_path / "results", 1, {"a.time_x": 1e-3})
    (tmp_path / "results" / "m1" / "broken-env.json").write_text("{ not json")
    front = _front(tmp_path / "results", tmp_path / "site")
    assert "1 problem" in front
    assert "broken-env.json" in _text(tmp_path / "site" / "data.html")
    assert "broken-env.json" in _text(tmp_path / "site" / "csv" / "problems.csv")


def test_the_command_writes_a_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 0, a line that says what was done; 2 and the reason where it cannot be done."""
    results = write_story(tmp_path / "results", commits=8)
    arguments = ["dashboard", "--results", str(results), "--out", str(tmp_path / "site")]
    assert main([*arguments, "--title", "Mine", "--machine-name", "m1=M4 Max"]) == 0
    assert "index.html" in capsys.readouterr().out
    assert "Mine</title>" in _text(tmp_path / "site" / "index.html")
    assert "M4 Max" in _text(tmp_path / "site" / "index.html")
    assert main([*arguments, "--machine-name", "m1"]) == 2
    assert "expected NAME=SHORT" in capsys.readouterr().err
    assert main(["dashboard", "--results", str(tmp_path / "nowhere"), "--out", str(tmp_path / "s")]) == 2
    assert "nowhere" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["dashboard", "--results", str(results), "--out", str(tmp_path / "file")]) == 2
    assert "is a file" in capsys.readouterr().err


def test_a_damaged_list_of_files_is_no_obstacle(tmp_path: Path) -> None:
    """Whatever the list of an earlier build says, files outside of the site are never touched."""
    results, site = write_story(tmp_path / "results", commits=8), tmp_path / "site"
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    build_site(*judged(results), site)
    listed = json.loads(_text(site / LIST_NAME))
    listed["files"]["../outside.txt"] = "x"
    (site / LIST_NAME).write_text(json.dumps(listed))
    build_site(*judged(results), site)
    assert outside.read_text() == "mine"
    for damage in ({"version": 0}, {"notes": {"changes": {"../../outside": ["a", "b", "c"], "changes/x": 5}}}):
        listed["files"]["../outside.txt"] = "x"
        (site / LIST_NAME).write_text(json.dumps({**listed, **damage}))
        build_site(*judged(results), site)
        assert outside.read_text() == "mine"
        assert not (tmp_path.parent / "outside.html").exists()
    (site / LIST_NAME).write_text("[]")
    (site / "index.html").unlink()
    build_site(*judged(results), site)
    assert "Too early" in _text(site / "index.html") or "Nothing is slower" in _text(site / "index.html")


def test_hostile_names_have_pages(hostile: Path) -> None:
    """Each such benchmark has its change's page, under a name that any file system takes."""
    pages = list((hostile / "changes").glob("*.html"))
    assert len(pages) == len(HOSTILE)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,110}", page.name) for page in pages)


def test_where_changes_are_thousands_their_pages_are_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drawing, the interval, the range and the links stay; nothing is said twice."""
    monkeypatch.setattr("mlxcache.dashboard.pages.change_page._MANY", 0)
    build_site(*judged(write_story(tmp_path / "results")), tmp_path / "site")
    pages = sorted((tmp_path / "site" / "changes").glob("*.html"))
    assert len(pages) >= 3
    for page in pages:
        text = page.read_text()
        assert len(text) < 11_000, page.name
        assert 'class="plot"' in text
        assert "95 % interval" in text
        assert "explorer.html#" in text
        assert "compare.html#" in text
