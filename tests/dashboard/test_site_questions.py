"""What people ask the site, with their clicks counted; every page on paper; drawings in which nothing is cut."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By

from mlxcache.dashboard.site import build_site
from tests.dashboard.site_trees import ODD, judged, write_benchmarks, write_file


class Reader:
    """Somebody who starts on the front page; `clicks` counts what they had to press."""

    def __init__(self, browser: Any, site: Path) -> None:
        self.browser, self.clicks = browser, 0
        browser.open(site / "index.html")

    def click(self, selector: str, then: str = "true") -> None:
        """Press the first thing that matches, and wait for what it brings."""
        self.browser.driver.find_element(By.CSS_SELECTOR, selector).click()
        self.clicks += 1
        self.browser.wait(then)

    def click_menu(self, words: str) -> None:
        """Follow an entry of the menu; pages with scripts are waited for."""
        self.browser.driver.find_element(By.LINK_TEXT, words).click()
        self.clicks += 1
        self.browser.wait(
            "!document.querySelector('#explorer, #compare') || document.body.dataset.ready === 'yes'"
        )

    def sees(self, selector: str = "main") -> str:
        """The text that is displayed there."""
        return str(self.browser.driver.find_element(By.CSS_SELECTOR, selector).text)


def test_is_anything_slower_since_when_by_how_much(browser: Any, story: Path) -> None:
    """The front page says it all; how sure, from what to what and in which commits takes one click."""
    reader = Reader(browser, story)
    seen = reader.sees()
    assert "1 benchmark is slower than before." in seen
    assert re.search(r"slower by (29|30|31)\.\d % since 00000014 \(4 Dec 2023\)", seen)
    assert re.search(r"(\d) of \1 series could show a change; the smallest seen: \d", seen)
    assert reader.clicks == 0
    reader.click(".change .name", "location.pathname.includes('/changes/')")
    seen = reader.sees()
    for word in ("95 % interval", "Confidence", "Before → after", "1 commit in the range"):
        assert word in seen
    assert reader.clicks == 1


def test_what_int64_costs_over_context_is_a_picture_after_one_click(browser: Any, suite: Path) -> None:
    """Without scrolling: the ratio over context, a line a head size, under the ratio that was measured in turn."""
    reader = Reader(browser, suite)
    reader.click_menu("int32 vs int64")
    picture = browser.driver.find_element(By.CSS_SELECTOR, ".multiples svg.plot")
    assert picture.rect["y"] + picture.rect["height"] < 900
    assert "context" in picture.text
    assert reader.sees(".legend").split() == ["head_dim=64", "head_dim=128"]
    assert reader.clicks == 1


def test_one_series_over_the_last_commits_takes_three_clicks(browser: Any, story: Path) -> None:
    """The explorer, the series by a word of its name and its parameter, the last 20: and that is a link."""
    reader = Reader(browser, story)
    reader.click_menu("Explorer")
    browser.driver.find_element(By.ID, "find").send_keys("work size=1000")
    reader.click("#series li", "Explorer.lines().length === 1")
    reader.click("input[name=n][value='20'] + span", "Explorer.axis().places.length === 20")
    assert reader.clicks == 3
    assert "size=1000" in browser.run("return location.hash")
    assert "n=20" in browser.run("return location.hash")


@pytest.mark.parametrize(
    ("entry", "selector"),
    [
        ("Releases", "svg.plot"),
        ("Versus other caches", "svg.plot"),
        ("Cost against size", "svg.plot"),
        ("How far to trust this", "table"),
        ("Compare", "#sentence"),
        ("Data", "a[href='values.csv.gz']"),
        ("Benchmarks", ".card"),
        ("Help", "dt"),
    ],
)
def test_each_page_answers_after_one_click(browser: Any, suite: Path, entry: str, selector: str) -> None:
    """What a menu's entry promises is on the first screen of its page."""
    reader = Reader(browser, suite)
    reader.click_menu(entry)
    found = browser.driver.find_element(By.CSS_SELECTOR, f"main {selector}")
    assert found.is_displayed()
    assert found.rect["y"] < 900
    assert reader.clicks == 1


def test_a_cell_of_the_heat_map_leads_to_its_change(browser: Any, story: Path) -> None:
    """Where the detector found something the cell has its page, elsewhere the commit's."""
    reader = Reader(browser, story)
    reader.click("table.grid td.event a", "location.pathname.includes('/changes/')")
    assert reader.clicks == 1


def test_both_commits_of_a_change_are_compared_by_two_clicks(browser: Any, story: Path) -> None:
    """From the front page over the change to the comparison of before and after."""
    reader = Reader(browser, story)
    reader.click(".change .name", "location.pathname.includes('/changes/')")
    browser.driver.find_element(By.LINK_TEXT, "Compare both commits").click()
    browser.wait("globalThis.Compare && document.body.dataset.ready === 'yes'")
    assert "2 worse, 0 better" in reader.sees("#sentence")


def test_what_broke_and_what_ended_stand_on_the_front_page(browser: Any, odd: Path) -> None:
    """A benchmark that fails since a commit is named with it, one that nobody measures any more with its last."""
    reader = Reader(browser, odd)
    broken = reader.sees("[aria-labelledby=broken] tbody")
    assert "odd.time_broken" in broken
    assert "000000ec" in broken
    assert "000000eb" in broken
    reader.click("[aria-labelledby=retired] summary")
    assert "odd.time_ended last at 00000009" in reader.sees("[aria-labelledby=retired]")


def _every_page(*sites: Path) -> list[Path]:
    pages = [page for site in sites for page in sorted(site.glob("*.html"))]
    for site in sites:
        for folder in ("changes", "commits"):
            pages += sorted((site / folder).glob("*.html"))[:2]
    return pages


OUTSIDE = """
return [...document.querySelectorAll('svg.plot[viewBox]')].flatMap(svg => {
  const [left, top, width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
  return [...svg.querySelectorAll('text')].filter(text => {
    const box = text.getBBox();
    const [right, bottom] = [box.x + box.width, box.y + box.height];
    return box.width && (box.x < left || box.y < top - 1 || right > left + width || bottom > top + height + 1);
  }).map(text => text.textContent);
});
"""


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_nothing_is_cut_or_wider_than_the_screen(browser: Any, odd: Path, suite: Path, width: int) -> None:
    """Every text of a drawing lies within it, whatever its numbers; no page scrolls sideways."""
    for page in _every_page(odd, suite):
        browser.open(page, width=width)
        assert browser.run(OUTSIDE) == [], page.name
        assert browser.run("return document.documentElement.scrollWidth") <= width, page.name


def test_every_page_prints(browser: Any, story: Path, suite: Path) -> None:
    """From the dark theme too: dark words on white, no menu, no button, drawings that are not empty."""
    for page in _every_page(story, suite):
        browser.open(page, dark=True)
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
        browser.run("dispatchEvent(new Event('beforeprint'))")
        told = browser.run(
            "const shown = node => node.getClientRects().length > 0;"
            "return [getComputedStyle(document.querySelector('h1')).color,"
            " [...document.querySelectorAll('nav, button, .tools')].filter(shown).length,"
            " [...document.querySelectorAll('svg.plot text, #chart .xtick text')].filter(shown)"
            ".map(node => getComputedStyle(node).fill)]"
        )
        colour, controls, fills = told
        assert controls == 0, page.name
        for said in {colour, *fills}:
            assert sum(map(int, re.findall(r"\d+", said)[:3])) < 480, (page.name, said)
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})


def test_every_page_reads_without_a_script(browser: Any, story: Path, suite: Path) -> None:
    """A heading, the menu and no control that does nothing; the two that need a script say so."""
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        for page in _every_page(story, suite):
            browser.driver.get(page.as_uri())
            assert browser.driver.find_elements(By.CSS_SELECTOR, "main h1"), page.name
            assert browser.driver.find_element(By.CSS_SELECTOR, "nav a").is_displayed()
            controls = browser.driver.find_elements(By.CSS_SELECTOR, "main button, main select, main input")
            assert not [node for node in controls if node.is_displayed()], page.name
            if page.name in ("explorer.html", "compare.html"):
                assert "JavaScript" in browser.driver.find_element(By.TAG_NAME, "main").text
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("name", ["once", "zero_count", "negative", "gaps", "large", "modes", "tiny", "ended"])
@pytest.mark.parametrize("scale", ["linear", "log", "relative"])
def test_values_of_every_kind_are_drawn(browser: Any, odd: Path, name: str, scale: str) -> None:
    """One value, zeros, negatives, gaps: there are points on every scale, or a word why not, and no complaint."""
    benchmark = next(b for b in ODD if b.endswith(name))
    browser.open(odd / "explorer.html", f"#b={benchmark}&y={scale}")
    browser.wait("Explorer.lines().length === 1 && document.getElementById('chart').dataset.drawn")
    drawn = browser.run("return document.querySelectorAll('#chart .scatterlayer .point').length")
    possible = not (scale == "log" and name in ("zero_count", "negative"))
    assert (drawn > 0) == possible or browser.driver.find_element(By.ID, "hint").text
    browser.run("document.querySelector('#values summary').click()")
    browser.wait("document.querySelectorAll('#values tbody tr').length > 0")


def test_values_in_two_modes_have_no_line(browser: Any, odd: Path) -> None:
    """A series that goes back and forth is points, and its two levels are said; a steady one keeps its line."""
    browser.open(odd / "explorer.html", "#b=odd.time_modes")
    browser.wait("document.getElementById('hint').textContent.includes('two levels')")
    assert browser.run("return Explorer.lines().map(line => Boolean(line.modes))") == [True]
    browser.open(odd / "explorer.html", "#b=odd.count_large")
    browser.wait("document.getElementById('chart').dataset.drawn")
    assert browser.run("return Explorer.lines().map(line => Boolean(line.modes))") == [False]


def test_thousands_of_values_are_a_course_until_one_looks_closer(browser: Any, tmp_path: Path) -> None:
    """Their medians are the line and a shade holds most of them; a part of the axis shows every value again."""
    write_benchmarks(tmp_path / "results", ["a.time_long"])
    for number in range(1600):
        far = 6 if number == 700 else 1
        write_file(tmp_path / "results", number, {"a.time_long": far * 1e-3 * (1 + 0.01 * (number * 7 % 11))})
    build_site(*judged(tmp_path / "results"), tmp_path / "site")
    browser.open(tmp_path / "site" / "explorer.html", "#b=a.time_long")
    browser.wait("document.getElementById('hint').textContent.includes('1,600 values')")
    assert browser.run("return Explorer.lines()[0].course.bins.length") == 1600 // 7
    assert browser.run("return document.querySelectorAll('#chart .scatterlayer .point').length") < 20
    browser.wait("document.getElementById('hint').textContent.includes('1 of them lie beyond')")
    assert browser.run("return document.getElementById('chart').layout.yaxis.range[1]") < 2
    browser.run("Plotly.relayout('chart', {'xaxis.range[0]': 100, 'xaxis.range[1]': 160})")
    browser.wait("Explorer.lines()[0].course === null")
    assert "values" not in browser.driver.find_element(By.ID, "hint").text
    assert browser.run("return document.querySelectorAll('#chart .scatterlayer .point').length") > 20
