"""A project of one file with asv benchmarks that take no time, for tests that run asv for real."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# asv with the interpreter of the tests: no environment to build. It cannot interleave there.
EXISTING = ["-E", f"existing:{sys.executable}", "--set-commit-hash", "HEAD", "--no-interleave-rounds"]

BENCHMARKS = """
def time_sum():
    sum(range(100))


class Suite:
    params = [1, 2]

    def time_list(self, n):
        list(range(n))

    def track_size(self, n):
        return n


def time_control():
    sum(range(50))


for _f in (time_sum, Suite.time_list, time_control):
    _f.number, _f.repeat, _f.warmup_time, _f.rounds = 1, 2, 0, 1
"""


def git(repo: Path, *arguments: str) -> str:
    """Run git with a fixed identity; what it prints."""
    done = subprocess.run(
        ["git", "-C", str(repo), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def commit(repo: Path, message: str, **files: str) -> str:
    """Write files (their names with "__" for "/" and "_py" for ".py"), commit all, return the hash."""
    for name, text in files.items():
        path = repo / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--allow-empty", "-m", message)
    return git(repo, "rev-parse", "HEAD")


def make_project(folder: Path, benchmarks: str = BENCHMARKS, **config: Any) -> Path:
    """The project in `folder`, in a repository with one commit; `config` changes asv's configuration."""
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "__init__.py").touch()
    (folder / "benchmarks" / "bench.py").write_text(benchmarks, encoding="utf-8")
    (folder / "tiny.py").write_text("VALUE = 1\n", encoding="utf-8")
    (folder / ".gitignore").write_text(".asv/\nresults/\n", encoding="utf-8")
    facts = {
        **module_config("tiny"),
        "html_dir": "html",
        # Nothing to build: what is measured is the file itself.
        "build_command": ["python -c pass"],
        "install_command": ["python -c pass"],
        **config,
    }
    (folder / "asv.conf.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "start")
    return folder


def module_config(name: str) -> dict[str, Any]:
    """asv's configuration for a project of one module, which asv copies into environments that it makes itself."""
    return {
        "version": 1,
        "project": name,
        "repo": ".",
        "branches": ["HEAD"],
        "dvcs": "git",
        "environment_type": "virtualenv",
        "benchmark_dir": "benchmarks",
        "env_dir": ".asv/env",
        "results_dir": "results",
        "build_command": [],
        "uninstall_command": [],
        "install_command": [
            'python -c "import shutil, sysconfig; '
            f"shutil.copy('{{build_dir}}/{name}.py', sysconfig.get_paths()['purelib'])\""
        ],
    }
