"""A project of one module whose commits asv copies into environments that it makes itself: quick, and real."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.tiny_project import ROOT, git

INSTALL = """
import shutil, sys, sysconfig
to = sysconfig.get_path("purelib") + "/micro"
shutil.rmtree(to, ignore_errors=True)
shutil.copytree(sys.argv[1] + "/micro", to)
"""
BENCH = """
import micro


def track_work():
    return micro.WORK


def track_other():
    return 7
"""


class Micro:
    """The project; its environments lie in a folder that several of them share."""

    def __init__(self, folder: Path, environments: Path, **config: Any) -> None:
        self.folder = folder
        facts = {
            "version": 1,
            "project": "micro",
            "repo": ".",
            "branches": ["main"],
            "environment_type": "virtualenv",
            "env_dir": str(environments),
            "build_command": [],
            "install_command": ["python {conf_dir}/install.py {build_dir}"],
            "uninstall_command": ["return-code=any python -c pass"],
            "results_dir": "measured",
            **config,
        }
        git(folder.parent, "init", "-q", "-b", "main", str(folder))
        self.base = self.commit(
            "one",
            {
                "asv.conf.json": "// ours\n" + json.dumps(facts, indent=1),
                "install.py": INSTALL,
                "micro/__init__.py": "WORK = 2000\n",
                "benchmarks/__init__.py": "",
                "benchmarks/bench.py": BENCH,
                ".gitignore": "measured/\n__pycache__/\n",
            },
        )

    def commit(self, message: str, files: dict[str, str]) -> str:
        """Write files, commit all, return the hash."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", message)
        return git(self.folder, "rev-parse", "HEAD")

    def run(self, *arguments: str, check: int | None = None) -> subprocess.CompletedProcess[str]:
        """Run `mlxcache` here, as a user does."""
        done = subprocess.run(
            [sys.executable, "-m", "mlxcache", *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            env={**_environment()},
            check=False,
        )
        assert check is None or done.returncode == check, done.stdout + done.stderr
        return done

    def compare(self, *arguments: str, check: int | None = None) -> subprocess.CompletedProcess[str]:
        """Compare with the first commit, measured in a few rounds."""
        return self.run("compare", self.base, "HEAD", "--measure", "--rounds", "4", *arguments, check=check)


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT)}
