"""Remakes the screenshots of the README from a site: `make pictures`.

python tools/site_pictures.py site docs/images
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

WIDTH = 1280
# The page, its colours and how much of it: of the front page down to its plots.
PAGES = {
    "dashboard-front.png": ("index.html", "light", 1420),
    "dashboard-explorer.png": ("explorer.html", "dark", 800),
}


def start_browser() -> webdriver.Chrome:
    """Headless Chromium; ends the program with advice where there is none."""
    binary, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if binary is None or driver is None:
        sys.exit("no chromium or chromedriver on PATH: apt-get install chromium chromium-driver")
    options = Options()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service(driver))


def take(browser: webdriver.Chrome, page: Path, fragment: str, theme: str, height: int, target: Path) -> None:
    """One page as a picture, once its chart is drawn."""
    emulate = browser.execute_cdp_cmd
    media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    emulate("Emulation.setEmulatedMedia", media)
    size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    emulate("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.resolve().as_uri() + fragment)
    until = time.monotonic() + 20
    ready = "return !document.getElementById('chart') || document.body.dataset.ready === 'yes'"
    while not browser.execute_script(ready):
        if time.monotonic() > until:
            sys.exit(f"{page}: its chart was not drawn within 20 s")
        time.sleep(0.1)
    time.sleep(0.5)  # fonts and the chart's own transitions
    browser.save_screenshot(str(target))


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, help="a site that `mlxcache dashboard` wrote")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--view", default="", help="the part of the explorer's address after #")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    browser = start_browser()
    try:
        for name, (page, theme, height) in PAGES.items():
            fragment = f"#{args.view}" if args.view and page == "explorer.html" else ""
            take(browser, args.site / page, fragment, theme, height, args.folder / name)
            print(f"{args.folder / name}: {(args.folder / name).stat().st_size / 1000:.0f} kB")
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
