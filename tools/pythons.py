"""Finds a Python of a version, also where PATH and HOME know of none: `python -m tools.pythons 3.13`.

Prints its path. What is looked at: PATH and uv's (python-discovery), and pyenv's, asdf's, mise's, uv's, GitHub's
and the system's usual places, those of the account's real home included. Where there is none, uv gets one into
.asv/pythons, if it reaches a place that has them. Exit status 1 if none could be had.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from python_discovery import get_interpreter

ROOT = Path(__file__).resolve().parents[1]
FETCHED = ROOT / ".asv" / "pythons"
# Below a home, and anywhere; each with every patch release of the version.
BELOW_HOME = (
    ".pyenv/versions/{}.*/bin/python",
    ".asdf/installs/python/{}.*/bin/python",
    ".local/share/mise/installs/python/{}.*/bin/python",
    ".local/share/uv/python/cpython-{}.*/bin/python",
)
ANYWHERE = (
    "opt/hostedtoolcache/Python/{}.*/*/bin/python",
    "Users/runner/hostedtoolcache/Python/{}.*/*/bin/python",
    "Library/Frameworks/Python.framework/Versions/{}/bin/python3",
    "opt/homebrew/bin/python{}",
    "usr/local/bin/python{}",
    "usr/bin/python{}",
)
# A variable that names the folder of such installations.
NAMED = {
    "PYENV_ROOT": "versions/{}.*/bin/python",
    "RUNNER_TOOL_CACHE": "Python/{}.*/*/bin/python",
    "AGENT_TOOLSDIRECTORY": "Python/{}.*/*/bin/python",
}


def _usual_places(version: str) -> Iterator[str]:
    homes = {str(Path.home()), pwd.getpwuid(os.getuid()).pw_dir}
    looked_at = [(Path(home), pattern) for home in sorted(homes) for pattern in BELOW_HOME]
    looked_at += [(Path(os.environ[name]), pattern) for name, pattern in NAMED.items() if os.environ.get(name)]
    looked_at += [(Path("/"), pattern) for pattern in ANYWHERE]
    looked_at.append((FETCHED, "cpython-{}.*/bin/python"))
    for folder, pattern in looked_at:
        yield from sorted(map(str, folder.glob(pattern.format(version))), reverse=True)


def find_python(version: str) -> str | None:
    """An interpreter of that version ("3.13"): the one that runs this, or the first that works where they lie."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = get_interpreter(f"cpython{version}", predicate=lambda each: not each.free_threaded)
    if found is not None:
        return str(found.executable)
    return next((each for each in _usual_places(version) if _starts(each, version)), None)


def _starts(program: str, version: str) -> bool:
    """Whether it is that Python; one may lie there for another processor, or without a lock."""
    try:
        done = subprocess.run(
            [program, "-c", "import sys; print(sys.version)"], capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    said = done.stdout.decode(errors="replace")
    return done.returncode == 0 and said.startswith(f"{version}.") and "free-threading" not in said


def get_python(version: str) -> str | None:
    """The same; where there is none, uv brings one, if it can."""
    found = find_python(version)
    if found is not None:
        return found
    tools = FETCHED / "uv"
    # uv alone comes from the index; the Pythons that it unpacks lie elsewhere, which a machine may not reach.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(tools), "uv"]
    fetch = [str(tools / "bin" / "uv"), "python", "install", "--no-bin", "--install-dir", str(FETCHED), version]
    limits = {"UV_HTTP_TIMEOUT": "30", "UV_HTTP_RETRIES": "1", "UV_CACHE_DIR": str(tools / "cache")}
    for command in (pip, fetch):
        try:
            done = subprocess.run(
                command, env={**os.environ, **limits}, capture_output=True, text=True, timeout=300, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"pythons: {error}", file=sys.stderr)
            return None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            print(f"pythons: no Python {version} from uv: {last.strip()}", file=sys.stderr)
            return None
    return find_python(version)


def main(version: str) -> int:
    """Print where it is."""
    found = get_python(version)
    print(found or f"pythons: there is no Python {version} here", file=sys.stdout if found else sys.stderr)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
