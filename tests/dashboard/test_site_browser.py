"""The pages in a real browser, from disk and without a network (see `browser` in conftest)."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from mlxcache.dashboard.writing.render import TIMES
from mlxcache.dashboard.site import build_site
from tests.dashboard.site_trees import judged, write_file


def _change_page(site: Path, start: str = "step.") -> Path:
    return next(path for path in sorted((site / "changes").glob("*.html")) if path.name.startswith(start))


def _pages(site: Path) -> list[Path]:
    return [*sorted(site.glob("*.html")), _change_page(site, "")]


def test_front_page_answers_in_its_first_heading(browser: Any, story: Path) -> None:
    """The heading says how many are slower; the list says since when and by how much, with a way to the page."""
    browser.open(story / "index.html")
    assert browser.driver.find_element(By.TAG_NAME, "h1").text == "1 benchmark is slower than before."
    listed = browser.driver.find_elements(By.CSS_SELECTOR, ".change")
    assert len(listed) == 1
    assert "step.time_work" in listed[0].text
    assert "slower" in listed[0].text
    assert re.search(r"(29|30|31)\.\d %", listed[0].text)
    browser.picture("front-light")
    listed[0].find_element(By.TAG_NAME, "a").click()
    browser.wait("location.pathname.includes('/changes/')")
    assert "step.time_work" in browser.driver.find_element(By.TAG_NAME, "h1").text


def test_change_page_shows_figure_table_and_text_to_paste(browser: Any, story: Path) -> None:
    """One figure is visible and loaded, both parameter sets are in the table, the text names both commits."""
    browser.open(_change_page(story))
    widths = browser.run(
        "return [...document.querySelectorAll('.picture img')].filter(i => i.offsetWidth).map(i => i.naturalWidth)"
    )
    assert len(widths) == 1
    assert widths[0] > 100
    table = browser.driver.find_element(By.CSS_SELECTOR, "main table").text
    assert "10 " in table
    assert "1000 " in table
    issue = browser.driver.find_element(By.ID, "issue").get_attribute("value")
    assert "`00000013dd`" in issue
    assert "`00000014dd`" in issue
    browser.picture("change-light")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_follow_the_system_and_the_button(browser: Any, story: Path, dark: bool) -> None:
    """The page takes the system's scheme; the button turns it and the choice stays on the next page."""

    def brightness() -> int:
        colour = browser.run("return getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    browser.open(_change_page(story), dark=dark)
    browser.run("localStorage.clear()")
    browser.open(_change_page(story), dark=dark)
    assert (brightness() < 300) == dark
    shown = browser.run(
        "return [...document.querySelectorAll('.picture img')].find(i => i.offsetWidth).getAttribute('src')"
    )
    assert shown.endswith("-dark.svg") == dark
    browser.picture(f"change-{'dark' if dark else 'light'}")
    browser.driver.find_element(By.ID, "theme").click()
    assert (brightness() < 300) != dark
    browser.open(story / "index.html", dark=dark)
    assert (brightness() < 300) != dark
    browser.run("localStorage.clear()")


def test_explorer_finds_by_typing_and_draws_on_click(browser: Any, story: Path) -> None:
    """Words narrow the list, a click adds a series to the chart and its values to the table."""
    browser.open(story / "explorer.html")
    field = browser.driver.find_element(By.ID, "find")
    field.send_keys("step 1000")
    options = browser.driver.find_elements(By.CSS_SELECTOR, "#series li")
    assert [option.text.splitlines()[0] for option in options] == ["step.time_work"]
    before = browser.run("return document.getElementById('chart').data.length")
    options[0].click()
    browser.wait(f"document.getElementById('chart').data.length > {before}")
    assert options[0].get_attribute("aria-selected") == "true"
    browser.driver.find_element(By.CSS_SELECTOR, "#values summary").click()
    browser.wait("document.querySelectorAll('#values tbody tr').length >= 80")
    browser.picture("explorer")


def test_explorer_address_keeps_the_view(browser: Any, story: Path) -> None:
    """Series, scale, axis and range come back from the address alone, in a page that is opened anew."""
    browser.open(story / "explorer.html")
    browser.driver.find_element(By.ID, "find").send_keys("step")
    for option in browser.driver.find_elements(By.CSS_SELECTOR, "#series li"):
        option.click()
    browser.wait("document.querySelectorAll('#chosen li').length === 3")
    browser.run("document.querySelector('[name=y][value=log]').click()")
    browser.wait("document.getElementById('chart').layout.yaxis.type === 'log'")
    browser.run("return Plotly.relayout('chart', {'xaxis.range[0]': 10, 'xaxis.range[1]': 30})")
    browser.wait("location.hash.includes('r=10')")
    address = browser.run("return location.hash")
    browser.open(story / "explorer.html", address)
    browser.wait("document.querySelectorAll('#chosen li').length === 3")
    assert browser.run("return document.getElementById('chart').layout.yaxis.type") == "log"
    assert browser.run("return document.getElementById('chart').layout.xaxis.range") == [10, 30]
    assert browser.driver.find_element(By.ID, "find").get_attribute("value") == "step"


@pytest.mark.parametrize("axis", ["time", "commit"])
@pytest.mark.parametrize("scale", ["linear", "log", "relative"])
def test_explorer_draws_each_scale_along_each_axis(browser: Any, story: Path, axis: str, scale: str) -> None:
    """Every combination gives a line with all 40 values."""
    browser.open(story / "explorer.html", f"#y={scale}&x={axis}")
    lines = "document.getElementById('chart').data.filter(t => t.mode === 'lines+markers')"
    browser.wait(f"{lines}.length === 1 && {lines}[0].y.filter(Number.isFinite).length === 40")


def test_explorer_works_from_the_keyboard(browser: Any, story: Path) -> None:
    """Arrows move in the list, Enter adds, Escape empties the search; the focus stays visible."""
    browser.open(story / "explorer.html")
    field = browser.driver.find_element(By.ID, "find")
    field.send_keys("gain")
    field.send_keys(Keys.ARROW_DOWN)
    active = field.get_attribute("aria-activedescendant")
    assert active == "option-0"
    selected = browser.driver.find_element(By.ID, active).get_attribute("aria-selected")
    field.send_keys(Keys.ENTER)
    browser.wait(f"document.getElementById('{active}').getAttribute('aria-selected') !== '{selected}'")
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
    browser.driver.find_element(By.ID, "filter").send_keys("bump")
    visible = [node for node in browser.driver.find_elements(By.CSS_SELECTOR, ".change") if node.is_displayed()]
    assert visible
    assert all("bump" in node.text for node in visible)
    assert " of " in browser.driver.find_element(By.ID, "found").text


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_screen(browser: Any, story: Path, hostile: Path, width: int) -> None:
    """Nothing makes a page scroll sideways, on a desk or on a phone, whatever its names."""
    for page in [*_pages(story), *_pages(hostile)]:
        browser.open(page, width=width)
        over = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert over <= 0, page.name
        browser.picture(f"{page.parent.parent.parent.name.rstrip('0123456789')}-{page.stem[:30]}-{width}")


def test_a_phone_shows_where_one_is_and_what_is_drawn(browser: Any, story: Path) -> None:
    """The open page's name is in sight in the row of pages; the chosen series' name has the screen's width."""
    browser.open(story / "quality.html", width=390)
    edges = browser.run("const r = document.querySelector('nav [aria-current]').getBoundingClientRect();"
                        " return [r.left, r.right]")  # fmt: skip
    assert edges[0] >= 0
    assert edges[1] <= 390
    browser.open(story / "explorer.html", width=390)
    assert browser.run("return document.querySelector('#chosen .label').offsetWidth") > 250


def test_explorer_tells_long_machine_names_apart(browser: Any, tmp_path: Path) -> None:
    """Machines are named by what they differ in, and without changes the longest history leads the list."""
    name = "linux-x86_64-intel_xeon_family6_model207-2c-{}"
    for number in range(5):
        write_file(tmp_path / "results", number, {"a.time_x": 1e-3}, machine=name.format("cpu"))
    write_file(tmp_path / "results", 5, {"a.time_a": 1e-3}, machine=name.format("gpu"))
    build_site(*judged(tmp_path / "results"), tmp_path / "site")
    browser.open(tmp_path / "site" / "explorer.html")
    told = [node.text for node in browser.driver.find_elements(By.CSS_SELECTOR, "#series .meta")]
    assert told == ["5 values · cpu", "1 value · gpu"]


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
            option.click()
    browser.wait("document.querySelectorAll('#chosen li').length >= 2")
    assert browser.run("return document.querySelectorAll('#chart img, #chart script').length") == 0


def test_the_explorer_writes_a_change_as_other_pages_do(browser: Any, story: Path) -> None:
    """In percent, and as a factor from a doubling on; what is not known is no zero."""
    browser.open(story / "explorer.html")
    shown = browser.run("return [0.296, -0.25, 1, 98.765, null].map(Chart.amount)")
    assert shown == ["29.6 %", "25.0 %", f"{TIMES}2", f"{TIMES}99.8", "n/a"]


def test_paper_is_white_whatever_the_screen_is(browser: Any, story: Path) -> None:
    """A page of the dark theme prints dark text and the light figure."""
    browser.open(_change_page(story), dark=True)
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": [dark]})
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    colour = browser.run("return getComputedStyle(document.body).color")
    assert sum(map(int, re.findall(r"\d+", colour)[:3])) < 300
    shown = browser.run(
        "return [...document.querySelectorAll('.picture img')].filter(i => i.offsetWidth).map(i => i.className)"
    )
    assert shown == ["in-light"]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [dark]})


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_pass_the_accessibility_checker(browser: Any, story: Path, dark: bool) -> None:
    """axe finds no violation of WCAG A and AA on any page, contrast in both schemes included."""
    axe = (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
    for page in _pages(story):
        browser.open(page, dark=dark)
        browser.run(axe)
        found = browser.driver.execute_async_script(
            "const [options, done] = arguments; axe.run(document, options).then(done, e => done(String(e)))",
            options,
        )
        told = [(rule["id"], [node["html"][:150] for node in rule["nodes"][:3]]) for rule in found["violations"]]
        assert told == [], page.name
