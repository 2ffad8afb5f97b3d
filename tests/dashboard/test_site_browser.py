"""The pages in a real browser, from disk and without a network (see `browser` in conftest)."""

from __future__ import annotations

import http.server
import itertools
import re
import threading
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from mlxcache.dashboard.drawings.numbers import TIMES
from mlxcache.dashboard.site import build_site
from tests.dashboard.site_trees import judged, write_file, write_suite


def _change_page(site: Path, start: str = "step.") -> Path:
    return next(path for path in sorted((site / "changes").glob("*.html")) if path.name.startswith(start))


def _pages(site: Path) -> list[Path]:
    return [*sorted(site.glob("*.html")), _change_page(site, "")]


def test_front_page_answers_in_its_first_heading(browser: Any, story: Path) -> None:
    """The heading says how many are slower; the list says since when and by how much, with a way to the page."""
    browser.open(story / "index.html")
    assert browser.driver.find_element(By.TAG_NAME, "h1").text == "1 benchmark is slower than before."
    listed = browser.driver.find_elements(By.CSS_SELECTOR, "[aria-labelledby=slower] .change")
    assert len(listed) == 1
    assert "step.time_work" in listed[0].text
    assert "slower" in listed[0].text
    assert re.search(r"(29|30|31)\.\d %", listed[0].text)
    browser.picture("front-light")
    listed[0].find_element(By.TAG_NAME, "a").click()
    browser.wait("location.pathname.includes('/changes/')")
    assert "step.time_work" in browser.driver.find_element(By.TAG_NAME, "h1").text


def test_change_page_shows_figure_table_and_text_to_paste(browser: Any, story: Path) -> None:
    """The figure is as wide as the page, both parameter sets are in the table, the text names both commits."""
    browser.open(_change_page(story))
    width, points = browser.run(
        "const svg = document.querySelector('svg.plot');"
        " return [svg.getBoundingClientRect().width, svg.querySelectorAll('.point circle').length]"
    )
    assert width > 900
    assert points == 40
    table = browser.driver.find_element(By.CSS_SELECTOR, "main table").text
    assert "size=10 " in table
    assert "size=1000 " in table
    issue = browser.driver.find_element(By.ID, "issue").get_attribute("value")
    assert "`00000013dd`" in issue
    assert "`00000014dd`" in issue
    browser.picture("change-light")


def test_a_drawing_is_saved_as_it_looks(browser: Any, story: Path) -> None:
    """A click gives a PNG, or an SVG with its colours written into it, for it leaves the style sheet behind."""
    browser.open(_change_page(story))
    browser.run(
        "window.saved = []; HTMLAnchorElement.prototype.click = function () {"
        " window.saved.push([this.download, this.href]); }"
    )
    for kind in ("svg", "png"):
        browser.driver.find_element(By.CSS_SELECTOR, f"[data-save={kind}]").click()
    browser.wait("window.saved.length === 2")
    (svg_name, svg), (png_name, png) = browser.run("return window.saved")
    assert svg_name.endswith(".svg")
    assert png_name.endswith(".png")
    assert png.startswith("data:image/png;base64,")
    assert len(png) > 10_000
    assert "stroke%3A" in svg
    assert "class%3D" not in svg


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_follow_the_system_and_the_button(browser: Any, story: Path, dark: bool) -> None:
    """The page takes the system's scheme, drawings too; the button turns it and the choice stays."""

    def brightness(what: str = "getComputedStyle(document.body).backgroundColor") -> int:
        return sum(map(int, re.findall(r"\d+", browser.run(f"return {what}"))[:3]))

    browser.open(_change_page(story), dark=dark)
    browser.run("localStorage.clear()")
    browser.open(_change_page(story), dark=dark)
    assert (brightness() < 300) == dark
    assert (
        brightness("getComputedStyle(document.querySelector('svg.plot .said')).fill") > 300
    ) == dark or not dark
    browser.picture(f"change-{'dark' if dark else 'light'}")
    browser.driver.find_element(By.ID, "theme").click()
    assert (brightness() < 300) != dark
    browser.open(story / "index.html", dark=dark)
    assert (brightness() < 300) != dark
    browser.run("localStorage.clear()")


LINES = "document.getElementById('chart').data.filter(t => t.customdata && Number.isInteger(t.customdata[0]?.[0]))"


def test_explorer_finds_by_parameter_and_draws_on_click(browser: Any, story: Path) -> None:
    """A parameter by its name narrows the list; a click shows what was searched for, its values in the table."""
    browser.open(story / "explorer.html")
    browser.driver.find_element(By.ID, "find").send_keys("step size=1000")
    options = browser.driver.find_elements(By.CSS_SELECTOR, "#series li")
    assert [option.text.splitlines()[0] for option in options] == ["step.time_work"]
    options[0].click()
    browser.wait(f"{LINES}.length === 1 && Explorer.view().parts[0].b === 'step.time_work'")
    assert "size=1000" in browser.driver.find_element(By.ID, "constants").text
    assert options[0].get_attribute("aria-selected") == "true"
    browser.run("document.querySelector('#values summary').click()")
    browser.wait("document.querySelectorAll('#values tbody tr').length === 40")
    browser.picture("explorer")


def test_explorer_finds_commits(browser: Any, story: Path) -> None:
    """The beginning of a hash leads to that commit's page."""
    browser.open(story / "explorer.html")
    browser.driver.find_element(By.ID, "find").send_keys("00000014")
    option = browser.driver.find_element(By.CSS_SELECTOR, "#series li")
    assert option.text.startswith("Commit 00000014")
    option.click()
    browser.wait("location.pathname.includes('/commits/00000014')")
    assert "step.time_work" in browser.driver.find_element(By.TAG_NAME, "main").text


def test_facets_show_some_values_all_or_one(browser: Any, story: Path) -> None:
    """Each parameter's values are chosen by name; labels have only what varies, the rest stands once above."""
    browser.open(story / "explorer.html", "#b=step.time_work")
    browser.wait(f"{LINES}.length === 2")
    labels = [node.text for node in browser.driver.find_elements(By.CSS_SELECTOR, "#chosen .label")]
    assert labels == ["size=10", "size=1000"]
    assert "step.time_work" in browser.driver.find_element(By.ID, "constants").text
    browser.run("document.querySelector('#facets input[data-value=\"10\"]').click()")
    browser.wait(f"{LINES}.length === 1 && location.hash.includes('size=1000')")
    browser.run("document.querySelector('#facets .all').click()")
    browser.wait(f"{LINES}.length === 2 && !location.hash.includes('size=')")


def test_explorer_address_keeps_the_view(browser: Any, story: Path) -> None:
    """Benchmarks, parameters, scale and range come back from the address alone, in a page that is opened anew."""
    browser.open(story / "explorer.html", "#b=step.time_work;size=10&b=bump.time_work&y=log&q=step")
    browser.wait(f"{LINES}.length === 2 && document.getElementById('chart').layout.yaxis.type === 'log'")
    browser.run("return Plotly.relayout('chart', {'xaxis.range[0]': 9.8, 'xaxis.range[1]': 30.2})")
    browser.wait("location.hash.includes('r=')")
    address = browser.run("return location.hash")
    assert "r=0000000addd" in address.replace("%2C", ",")
    assert "~0000001eddd" in address
    browser.open(story / "explorer.html", address)
    browser.wait(f"{LINES}.length === 2")
    assert browser.run("return document.getElementById('chart').layout.yaxis.type") == "log"
    low, high = browser.run("return document.getElementById('chart').layout.xaxis.range")
    assert (round(low), round(high)) == (10, 30)
    assert browser.driver.find_element(By.ID, "find").get_attribute("value") == "step"


def test_a_link_means_the_same_after_a_backfill(browser: Any, tmp_path: Path) -> None:
    """Older commits move every index; the range of an old link still shows the commits that it named."""
    for number in range(10, 20):
        write_file(tmp_path / "results", number, {"a.time_x": 1e-3})
    build_site(*judged(tmp_path / "results"), tmp_path / "site")
    address = "#b=a.time_x&r=0000000c~0000000f"
    shown = "Explorer.axis().places.map(i => Math.round(i))"
    for backfill in (False, True):
        if backfill:
            for number in range(5):
                write_file(tmp_path / "results", number, {"a.time_x": 1e-3})
            build_site(*judged(tmp_path / "results"), tmp_path / "site")
        browser.open(tmp_path / "site" / "explorer.html", address)
        browser.wait(f"{LINES}.length === 1")
        low, high = browser.run("return document.getElementById('chart').layout.xaxis.range")
        ticks = browser.run("return document.getElementById('chart').layout.xaxis.ticktext")
        assert ticks[0].startswith("0000000c"[:7])
        assert ticks[-1].startswith("0000000f"[:7])
        assert round(high) - round(low) == 3
        assert len(browser.run(f"return {shown}")) == (15 if backfill else 10)


@pytest.mark.parametrize(
    ("fragment", "said", "lines"),
    [
        ("#b=step.time_wrok", "is not here", 0),
        ("#s=deadbeef01", "no longer here", 0),
        ("#b=step.time_work;size=77", "there are 10, 1000", 2),
        ("#b=step.time_work;colour_of_the_sky=blue", "has no parameter", 2),
        ("#b=step.time_work&r=ffffffff~eeeeeeee", "not here", 2),
        ("#b=step.time_work&x=param&of=banana", "no numeric parameter", 2),
        ("#nonsense&%%%=1", "says nothing here", 0),
    ],
)
def test_a_link_with_nonsense_says_so(browser: Any, story: Path, fragment: str, said: str, lines: int) -> None:
    """What is not here is named and the nearest offered; what can be shown is, nothing else instead of it."""
    browser.open(story / "explorer.html", fragment)
    told = browser.driver.find_element(By.ID, "told").text
    assert said in told
    assert browser.run(f"return {LINES}.length") == lines
    assert browser.run("return location.hash") == fragment or lines
    if "wrok" in fragment:
        browser.driver.find_element(By.CSS_SELECTOR, "#told a").click()
        browser.wait(f"{LINES}.length === 2")


def test_one_click_keeps_a_value_with_its_links(browser: Any, story: Path) -> None:
    """A click on a point pins value, previous value, commit and date beneath the chart, with ways on."""
    browser.open(story / "explorer.html", "#b=step.time_work;size=10")
    browser.wait(f"{LINES}.length === 1")
    browser.run("document.getElementById('chart').emit('plotly_click', {points: [{customdata: [0, 20]}]})")
    panel = browser.driver.find_element(By.ID, "point")
    assert "before" in panel.text
    assert "00000014dd" in panel.text
    links = {node.text: node.get_attribute("href") for node in panel.find_elements(By.TAG_NAME, "a")}
    assert {"commit", "compare with previous", "change"} <= set(links)
    chart, point = browser.run(
        "return ['chart', 'point'].map(id => document.getElementById(id).getBoundingClientRect().toJSON())"
    )
    assert point["top"] >= chart["bottom"] - 1
    browser.driver.get(links["compare with previous"])
    browser.wait("document.body.dataset.ready === 'yes'")
    assert "worse" in browser.driver.find_element(By.ID, "sentence").text


@pytest.mark.parametrize("axis", ["time", "commit"])
@pytest.mark.parametrize("scale", ["linear", "log", "relative"])
def test_explorer_draws_each_scale_along_each_axis(browser: Any, story: Path, axis: str, scale: str) -> None:
    """Every combination gives a line with all 40 values, the last 20 of them where the link says so."""
    browser.open(story / "explorer.html", f"#b=gain.time_work&y={scale}&x={axis}")
    browser.wait(f"{LINES}.length === 1 && {LINES}[0].y.filter(Number.isFinite).length === 40")
    browser.open(story / "explorer.html", f"#b=gain.time_work&y={scale}&x={axis}&n=20")
    browser.wait(f"{LINES}.length === 1 && {LINES}[0].y.filter(Number.isFinite).length === 20")


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_the_newest_commit_has_a_tick_and_none_overlap(browser: Any, story: Path, width: int) -> None:
    """Labels are as many as have room, counted from the newest."""
    browser.open(story / "explorer.html", "#b=gain.time_work", width=width)
    browser.wait(f"{LINES}.length === 1")
    boxes = browser.run(
        "return [...document.querySelectorAll('#chart .xtick text')].map(t => [t.getBoundingClientRect().left,"
        " t.getBoundingClientRect().right, t.textContent]).sort((a, b) => a[0] - b[0])"
    )
    assert boxes[-1][2].startswith("0000002")
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(boxes))


def test_a_parameter_is_an_axis(browser: Any, tmp_path: Path) -> None:
    """Any numeric parameter may be along; a line for each set of the others, all values of one commit."""
    build_site(*judged(write_suite(tmp_path / "results")), tmp_path / "site")
    browser.open(tmp_path / "site" / "explorer.html", "#b=decode.Decode.time_step;head_dim=64")
    browser.wait(f"{LINES}.length > 1")
    Select(browser.driver.find_element(By.ID, "parameter")).select_by_value("context")
    browser.wait(f"{LINES}.length === 2 && {LINES}[0].x.join() === '1024,4096,32768'")
    looks = browser.run("return Explorer.lines().map(l => [l.label, l.colour, l.dash])")
    assert sorted(looks) == [["path=int32", 0, 0], ["path=int64", 1, 0]]


def test_releases_are_compared_at_one_commit(browser: Any, tmp_path: Path) -> None:
    """A release that a newer commit alone was measured on does not lend it our change: all are at one commit."""
    for number, version, value in [(1, "0.9", 1e-3), (1, "0.30", 1e-3), (2, "0.30", 5e-4), (3, "0.30", 5e-4)]:
        write_file(
            tmp_path / "results",
            number,
            {"a.time_x": value},
            env=f"mlx{version}",
            requirements={"pip+mlx": version},
        )
    build_site(*judged(tmp_path / "results"), tmp_path / "site")
    browser.open(tmp_path / "site" / "explorer.html", "#b=a.time_x&x=release&of=mlx")
    browser.wait(f"{LINES}.length === 1 && {LINES}[0].x.join() === '0.9,0.30'")
    assert browser.run("return Explorer.lines()[0].points.map(p => p.value)") == pytest.approx([1e-3, 1e-3])
    assert "00000001" in browser.run("return document.getElementById('chart').layout.xaxis.title.text")
    browser.run("document.querySelector('#values summary').click()")
    browser.wait("document.querySelectorAll('#values tbody tr').length === 2")
    browser.open(tmp_path / "site" / "releases.html")
    assert f"{TIMES}1.000" in browser.driver.find_element(By.CSS_SELECTOR, "table.grid").text
    assert f"{TIMES}0.500" not in browser.driver.find_element(By.TAG_NAME, "main").text


def test_explorer_works_from_the_keyboard(browser: Any, story: Path) -> None:
    """Arrows move in the list, Enter adds, Escape empties the search; the focus stays visible."""
    browser.open(story / "explorer.html")
    field = browser.driver.find_element(By.ID, "find")
    field.send_keys("gain")
    field.send_keys(Keys.ARROW_DOWN)
    active = field.get_attribute("aria-activedescendant")
    assert active == "option-0"
    field.send_keys(Keys.ENTER)
    browser.wait("Explorer.view().parts.map(p => p.b).join() === 'gain.time_work'")
    field.send_keys(Keys.ESCAPE)
    assert field.get_attribute("value") == ""
    field.send_keys(Keys.TAB)
    outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle")
    assert browser.run("return document.activeElement !== document.body")
    assert outline != "none" or browser.run("return document.activeElement.type") == "radio"


def test_first_tab_stop_skips_to_the_content(browser: Any, story: Path) -> None:
    """Who uses the keyboard need not pass the navigation on every page."""
    browser.open(story / "index.html")
    browser.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert browser.run("return document.activeElement.className") == "skip"
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.wait("document.activeElement.id === 'main'")


def test_lists_filter_by_typing(browser: Any, story: Path) -> None:
    """Only changes with all words stay, and it is said how many."""
    browser.open(story / "changes.html")
    browser.wait("document.body.dataset.ready === 'yes'")
    browser.driver.find_element(By.ID, "filter").send_keys("bump")
    visible = [node for node in browser.driver.find_elements(By.CSS_SELECTOR, ".change") if node.is_displayed()]
    assert visible
    assert all("bump" in node.text for node in visible)
    assert " of " in browser.driver.find_element(By.ID, "found").text
    address = browser.run("return location.hash")
    browser.open(story / "changes.html", address)
    browser.wait("document.body.dataset.ready === 'yes'")
    again = [node for node in browser.driver.find_elements(By.CSS_SELECTOR, ".change") if node.is_displayed()]
    assert len(again) == len(visible)


@pytest.mark.parametrize("width", [1920, 1280, 390])
def test_no_page_is_wider_than_the_screen(browser: Any, story: Path, hostile: Path, width: int) -> None:
    """Nothing makes a page scroll sideways, on a desk or on a phone, whatever its names."""
    for page in [*_pages(story), *_pages(hostile)]:
        browser.open(page, width=width)
        over = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, page.name
        browser.picture(f"{page.parent.parent.parent.name.rstrip('0123456789')}-{page.stem[:30]}-{width}")


def test_a_phone_has_the_chart_first_and_the_pages_behind_a_button(browser: Any, story: Path) -> None:
    """The chart is on the first screen, the list waits in a drawer, the menu opens on a tap."""
    browser.open(story / "explorer.html", width=390)
    assert browser.run("return document.getElementById('chart').getBoundingClientRect().top") < 300
    assert not browser.driver.find_element(By.ID, "find").is_displayed()
    browser.run("document.querySelector('#drawer summary').click()")
    assert browser.driver.find_element(By.ID, "find").is_displayed()
    assert not browser.driver.find_element(By.ID, "pages").is_displayed()
    browser.run("scrollTo({top: 0, behavior: 'instant'})")
    browser.driver.find_element(By.ID, "menu").click()
    assert browser.driver.find_element(By.PARTIAL_LINK_TEXT, "Changes").is_displayed()


def test_explorer_tells_long_machine_names_apart(browser: Any, tmp_path: Path) -> None:
    """Machines are named by what they differ in; the one with the most values is shown first."""
    name = "linux-x86_64-intel_xeon_family6_model207-2c-{}"
    for number in range(5):
        write_file(tmp_path / "results", number, {"a.time_x": 1e-3}, machine=name.format("cpu"))
    write_file(tmp_path / "results", 5, {"a.time_x": 1e-3}, machine=name.format("gpu"))
    build_site(*judged(tmp_path / "results"), tmp_path / "site")
    browser.open(tmp_path / "site" / "explorer.html")
    told = [node.text for node in browser.driver.find_elements(By.CSS_SELECTOR, "#facets label")]
    assert told == ["cpu", "gpu"]
    assert "cpu" in browser.driver.find_element(By.ID, "constants").text
    browser.run("document.querySelector('#facets .all').click()")
    browser.wait("[...document.querySelectorAll('#chosen .label')].map(n => n.textContent).join() === 'cpu,gpu'")


def test_hostile_names_stay_text(browser: Any, hostile: Path) -> None:
    """No name becomes an element or runs, on any page, nor in the explorer's chart."""
    for page in _pages(hostile):
        browser.open(page)
        found = browser.run(
            "return [document.querySelectorAll('main script, main img[src=x], main b, main i, main u').length,"
            " document.body.textContent.includes('49_')]"
        )
        assert found == [0, False], page.name
    browser.open(hostile / "explorer.html")
    browser.driver.find_element(By.ID, "find").send_keys("script")
    for option in browser.driver.find_elements(By.CSS_SELECTOR, "#series li"):
        if option.get_attribute("aria-selected") != "true":
            ActionChains(browser.driver).key_down(Keys.CONTROL).click(option).key_up(Keys.CONTROL).perform()
    browser.wait("document.querySelectorAll('#chosen li').length >= 2")
    assert browser.run("return document.querySelectorAll('#chart img, #chart script').length") == 0


def test_the_explorer_writes_a_change_as_other_pages_do(browser: Any, story: Path) -> None:
    """In percent, and as a factor from a doubling on; what is not known is no zero."""
    browser.open(story / "explorer.html")
    shown = browser.run("return [0.296, -0.25, 1, 98.765, null].map(Data.amount)")
    assert shown == ["29.6 %", "25.0 %", f"{TIMES}2", f"{TIMES}99.8", "n/a"]


def test_paper_is_white_whatever_the_screen_is(browser: Any, story: Path) -> None:
    """A page of the dark theme prints dark text, in its figures too."""
    browser.open(_change_page(story), dark=True)
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": [dark]})
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    colour = browser.run("return getComputedStyle(document.body).color")
    assert sum(map(int, re.findall(r"\d+", colour)[:3])) < 300
    colour = browser.run("return getComputedStyle(document.querySelector('svg.plot .tick')).fill")
    assert sum(map(int, re.findall(r"\d+", colour)[:3])) < 400
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [dark]})


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_pass_the_accessibility_checker(
    browser: Any, story: Path, suite: Path, odd: Path, dark: bool
) -> None:
    """axe finds no violation of WCAG A and AA, nor of best practice, on any page in either scheme."""
    axe = (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
    commits = next((story / "commits").glob("*.html"))
    for page in [
        *_pages(story),
        commits,
        *(suite / f"{n}.html" for n in ("paths", "peers", "scaling", "releases")),
        odd / "index.html",
    ]:
        browser.open(page, dark=dark)
        browser.run(axe)
        found = browser.driver.execute_async_script(
            "const [options, done] = arguments; axe.run(document, options).then(done, e => done(String(e)))",
            options,
        )
        told = [(rule["id"], [node["html"][:150] for node in rule["nodes"][:3]]) for rule in found["violations"]]
        assert told == [], page.name


def test_the_sorted_list_is_readable_on_a_phone(browser: Any, story: Path) -> None:
    """A change has the width of the screen, not a letter's."""
    browser.open(story / "changes.html", "#sort=size", width=390)
    browser.wait("document.body.dataset.ready === 'yes'")
    listed = browser.driver.find_elements(By.CSS_SELECTOR, ".change.flat")
    assert len(listed) == 4
    assert all(node.size["height"] < 250 for node in listed)


def test_two_commits_are_compared_with_a_link_to_keep(browser: Any, story: Path) -> None:
    """Means, verdicts and a table for the two commits around the step; the address brings the same back."""
    before, after = (f"{number:08x}" + "d" * 32 for number in (19, 20))
    browser.open(story / "compare.html", f"#a={before}&b={after}")
    assert browser.run("return Compare.rows().length") == 5
    verdicts = browser.run("return Compare.rows().map(r => [r.series.benchmark, r.verdict])")
    assert sorted(name for name, verdict in verdicts if verdict == "worse") == ["step.time_work", "step.time_work"]
    assert "2 worse, 0 better" in browser.driver.find_element(By.ID, "sentence").text
    browser.run("document.getElementById('only').click()")
    rows = browser.driver.find_elements(By.CSS_SELECTOR, "#rows tbody tr")
    assert len(rows) == 2
    assert "size=10" in rows[0].text + rows[1].text
    address = browser.run("return location.hash")
    browser.open(story / "compare.html", address)
    assert len(browser.driver.find_elements(By.CSS_SELECTOR, "#rows tbody tr")) == 2
    browser.picture("compare")


@pytest.mark.parametrize(
    ("fragment", "said"), [("#a=nowhere&b=nothing", "is not here"), ("#am=ghost", "is not here"), ("#%%%", "")]
)
def test_a_comparison_of_what_is_not_there_says_so(browser: Any, story: Path, fragment: str, said: str) -> None:
    """Unknown commits and machines are named, and something that is there is shown."""
    browser.open(story / "compare.html", fragment)
    assert said in browser.driver.find_element(By.ID, "told").text
    assert browser.run("return Compare.rows().length") == 5


def test_a_server_serves_what_the_disk_does(browser: Any, story: Path, tmp_path: Path) -> None:
    """Over http the explorer draws, the comparison compares and the list of changes sorts."""
    handler = partial(QuietHandler, directory=str(story))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            for page in ("explorer.html", "compare.html", "changes.html#sort=size"):
                browser.driver.get(f"http://127.0.0.1:{server.server_port}/{page}")
                browser.wait("document.body.dataset.ready === 'yes'")
            assert len(browser.driver.find_elements(By.CSS_SELECTOR, ".change.flat")) == 4
            asked = browser.requests()
            assert asked
            assert all(url.startswith(f"http://127.0.0.1:{server.server_port}/") for url in asked)
        finally:
            server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder without a word."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def test_without_a_script_all_but_the_explorer_reads(browser: Any, story: Path) -> None:
    """The plots, the list of changes and the menu are there; controls that would do nothing are not."""
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        for name in ("index.html", "changes.html", "explorer.html"):
            browser.driver.get((story / name).as_uri())
            assert browser.driver.find_element(By.CSS_SELECTOR, "nav a").is_displayed()
            for control in browser.driver.find_elements(By.CSS_SELECTOR, "main button, main select, main input"):
                assert not control.is_displayed(), name
        browser.driver.get((story / "index.html").as_uri())
        assert browser.driver.find_element(By.CSS_SELECTOR, "svg.plot").is_displayed()
        assert browser.driver.find_elements(By.CSS_SELECTOR, "table.grid td a")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
