"""Every kind of page through the W3C's HTML checker, which knows the content models that a parser does not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mlxcache.dashboard.site import build_site
from tests.dashboard.site_trees import judged, write_file, write_story, write_suite
from tests.required import missing

ROOT = Path(__file__).parents[2]
# The Nu checker, one jar of 30 MB under MIT; newer ones know newer rules, so the version is fixed.
CHECKER = "vnu-jar@26.9.27"


def has_java() -> bool:
    """Whether there is a Java that runs: on a Mac without one, /usr/bin/java is there and only says so."""
    try:
        return subprocess.run(["java", "-version"], capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@pytest.fixture(scope="session")
def checker() -> Path:
    """The checker's jar, installed once beside asv's environments; skips where it cannot be had, on CI fails."""
    npm = shutil.which("npm")
    if npm is None or not has_java():
        missing("no npm or no java: the HTML checker needs both")
    assert npm is not None
    home = ROOT / ".asv" / CHECKER
    jar = home / "node_modules" / "vnu-jar" / "build" / "dist" / "vnu.jar"
    if not jar.is_file():
        home.mkdir(parents=True, exist_ok=True)
        # Its own script would look for another Java.
        options = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=0"]
        done = subprocess.run(
            [npm, "install", "--silent", *options, "--prefix", str(home), CHECKER],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if not jar.is_file():
            why = f"npm could not install {CHECKER}: {(done.stderr or done.stdout).strip()[-200:]}"
            if os.environ.get("GITHUB_ACTIONS"):  # elsewhere a machine may reach no registry of npm's
                missing(why)
            pytest.skip(why)
    return jar


@pytest.fixture(scope="module")
def sites(story: Path, hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Sites that have every kind of page between them, those without results or changes included."""
    root = tmp_path_factory.mktemp("kinds")
    built = [story, hostile]

    def build(name: str, results: Path) -> Path:
        built.append(root / name)
        build_site(*judged(results), root / name)
        return root / name

    build("suite", write_suite(root / "suite-results"))
    (root / "no-results").mkdir()
    build("empty", root / "no-results")
    for number in range(8):
        write_file(root / "failures", number, {"a.time_x": None})
    build("failed", root / "failures")
    # A second build without one of the changes leaves a page that says what became of it.
    df, changes = judged(write_story(root / "past-results"))
    build_site(df, changes, root / "past")
    kept = changes[changes["benchmark"] != "gain.time_work"].reset_index(drop=True)
    kept.set_aside = changes.set_aside
    build_site(df, kept, root / "past")
    return [*built, root / "past"]


def test_pages_pass_the_html_checker(checker: Path, sites: list[Path]) -> None:
    """No error and no warning on any page, whatever the names in it."""
    pages = [str(page) for site in sites for page in sorted(site.rglob("*.html"))]
    assert {Path(page).name for page in pages} >= {
        f"{name}.html" for name in ("paths", "peers", "scaling", "quality", "releases", "compare", "commits")
    }
    done = subprocess.run(
        ["java", "-jar", str(checker), "--format", "json", "--stdout", *pages],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    messages = json.loads(done.stdout)["messages"]
    told = [
        f"{message['url'].rpartition('/')[2]}: {message['message']} {message.get('extract', '')[:200]!r}"
        for message in messages
        # The checker takes 'self' for no place on a disk; the browser's tests say whether anything is kept out.
        # The checker guesses a language from made-up names.
        if "appears to be written in" not in message["message"]
        and not message["message"].startswith("Resource violates Content Security Policy")
    ]
    assert told == []
