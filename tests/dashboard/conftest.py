"""Sites that several tests look at, and the browser that they look with."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlxcache.dashboard.site import build_site
from tests.dashboard.site_trees import judged, write_hostile, write_odd, write_story, write_suite
from tests.required import missing


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a tree with a regression, a recovered one and an improvement."""
    folder = tmp_path_factory.mktemp("story")
    df, changes = judged(write_story(folder / "results"))
    build_site(df, changes, folder / "site", title="Story")
    return folder / "site"


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a tree whose names try to break out."""
    folder = tmp_path_factory.mktemp("hostile")
    df, changes = judged(write_hostile(folder / "results"))
    build_site(df, changes, folder / "site", title="<u>Hostile</u>")
    return folder / "site"


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a tree with values of every kind."""
    folder = tmp_path_factory.mktemp("odd")
    build_site(*judged(write_odd(folder / "results")), folder / "site")
    return folder / "site"


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a suite like this project's own, with its own pages."""
    folder = tmp_path_factory.mktemp("suite")
    build_site(*judged(write_suite(folder / "results")), folder / "site", title="Suite")
    return folder / "site"


class Browser:
    """Chromium without a network, that remembers what pages asked for and complained about."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, fragment: str = "", *, dark: bool = False, width: int = 1280) -> None:
        """Load a page from disk; what a script fills is waited for."""
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {
                "features": [
                    {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                    {"name": "prefers-reduced-motion", "value": "reduce"},
                ]
            },
        )
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        self.driver.get("about:blank")
        self.driver.get(path.as_uri() + fragment)
        if path.name in ("explorer.html", "compare.html"):
            self.wait("document.body.dataset.ready === 'yes'")

    def wait(self, condition: str) -> None:
        """Until a JavaScript expression is true; the test fails after 15 seconds."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 15, poll_frequency=0.05).until(
            lambda driver: driver.execute_script(f"return Boolean({condition})"), condition
        )

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript in the page."""
        return self.driver.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        """What the console said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """What pages asked for since the last call that is not on this disk."""
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:", "chrome:"))]

    def picture(self, name: str) -> None:
        """Keep a screenshot where MLXCACHE_SCREENSHOTS says, if it does."""
        folder = os.environ.get("MLXCACHE_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(Path(folder) / f"{name}.png"))


_BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One Chromium for all tests; without one they are skipped, on CI they fail."""
    binary = next(filter(None, map(shutil.which, _BROWSERS)), None)
    # Hosted runners keep the driver in a folder that this variable names.
    places = os.pathsep.join([os.environ.get("CHROMEWEBDRIVER", ""), os.environ.get("PATH", "")])
    driver_path = shutil.which("chromedriver", path=places)
    if binary is None or driver_path is None:
        missing("no chromium or chromedriver on PATH: apt-get install chromium chromium-driver")
    assert binary is not None
    assert driver_path is not None
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = binary
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        "--window-size=1280,900",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--disable-background-networking",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium: Any) -> Iterator[Browser]:
    """A browser; a page that asks another host for something, or complains on the console, fails the test."""
    one = Browser(chromium)
    one.complaints(), one.requests()
    yield one
    assert one.requests() == []
    assert one.complaints() == []
