"""The workflows in a scratch clone: `make rehearse`, or `python -m tools.rehearse [--short] [--python 3.13]`.

Their `run:` steps are run as they stand, in order, with a bare origin, artifacts and an API on the loopback
address (`tools/forge.py`), and for the macOS legs with stand-ins for a Mac's commands (`tools/macs.py`). What is
measured is a project of three benchmarks, since this is about the plumbing: asv runs for real. Each Python has its
own rehearsal.

Left out: setup-python and pip's work for `make setup` (a checkout gets an environment that shares packages),
`.ci/run` inside ci.yml (its lint and types are run, on each Python), Apple hardware. Exit status: 0, 1 if
something went wrong (on GitHub also if a Python is missing), 2 if no Python of 3.11 and 3.13 could be had.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from tests.tiny_project import module_config
from tools.forge import GH, REPOSITORY, Forge, Run, bash
from tools.macs import MACS, write_commands, write_site
from tools.pythons import find_python, get_python

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.13")
# What the rehearsal's checkouts share; the whole of `make setup` brings half a gigabyte more.
NEEDED = (".[all]", "mypy", "ruff", "pandas-stubs", "pyyaml", "pytest", "virtualenv")
LINUX, HOSTED, OWN = "ubuntu-24.04", "macos-15", "my-mac"
MLX = "9.9.9"
_SAY = threading.Lock()

CONFIG = {
    **module_config("tiny"),
    "html_dir": "html",
    "build_command": ["python -c pass"],
    "uninstall_command": ["python -c pass"],
    "matrix": {"req": {}, "env_nobuild": {"MLXCACHE_DEVICE": ["default"]}},
}
BENCHMARKS = {
    "control.py": "def time_control():\n    sum(range(50))\n\n\n_f = time_control\n",
    "decode.py": "def time_step():\n    sum(range(100))\n\n\n_f = time_step\n",
    "ratios.py": "import tiny\n\n\ndef track_int64_over_int32():\n    return tiny.COST\n\n\n_f = None\n",
}
QUICK = "if callable(_f):\n    _f.number, _f.repeat, _f.warmup_time, _f.rounds = 1, 2, 0, 1\n"


class WrongError(Exception):
    """The rehearsal found something; the message says what, and has the steps' output."""


def say(text: str) -> None:
    """A line, whole, also from two rehearsals at once."""
    with _SAY:
        print(text, flush=True)


def environment_for(version: str, python: str) -> Path:
    """The interpreter of an environment with what the checkouts need; kept in .asv/rehearse."""
    if python == sys.executable:
        return Path(sys.executable)
    folder = ROOT / ".asv" / "rehearse" / f"py{version}"
    ready = folder / ".ready"
    if not ready.is_file() or ready.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        say(f"[{version}] setting up {folder}")
        shutil.rmtree(folder, ignore_errors=True)
        # Not venv: Debian's Pythons come without ensurepip.
        make = [sys.executable, "-m", "virtualenv", "--quiet", "--python", python, str(folder)]
        subprocess.run(make, check=True)
        install = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--editable", *NEEDED], cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
        ready.touch()
    return folder / "bin/python"


class Rehearsal:
    """One Python's run through the workflows, below `home`."""

    def __init__(self, version: str, python: Path, home: Path, short: bool) -> None:
        self.version, self.python, self.home, self.short = version, python, home, short
        self.own_mac = "m2-pro"
        self._packages = self._ask_python(
            "import sys; print('\\n'.join(p for p in sys.path if p.endswith('site-packages')))"
        )
        self._bin = home / "bin"
        self._write_programs()
        self.origin = home / "origin.git"
        self.seed = home / "seed"
        self._write_origin()
        self.forge = Forge(home, self.origin, ROOT / ".github/workflows", self._environment, self._prepare)

    def _ask_python(self, code: str) -> str:
        done = subprocess.run([str(self.python), "-c", code], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def _write_programs(self) -> None:
        """`gh`, and the interpreter under the names that setup-python gives it."""
        self._bin.mkdir(parents=True)
        gh = self._bin / "gh"
        gh.write_text(GH.format(python=sys.executable), encoding="utf-8")
        gh.chmod(0o755)
        base = self._ask_python("import sys; print(sys._base_executable)")
        for name in ("python", "python3", f"python{self.version}"):
            (self._bin / name).symlink_to(base)
        wheels = self.home / "wheels"
        wheels.mkdir()
        # A release of MLX that weighs nothing, for `make releases`.
        with zipfile.ZipFile(wheels / f"mlx-{MLX}-py3-none-any.whl", "w") as wheel:
            info = f"mlx-{MLX}.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: mlx\nVersion: {MLX}\n")
            wheel.writestr(
                f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{info}/RECORD", "")

    def _write_origin(self) -> None:
        """The working tree with other benchmarks, three commits, in a bare repository."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True,
        ).stdout.decode().split("\0")  # fmt: skip
        for name in filter(None, listed):
            if not name.startswith(("results/", "benchmarks/", "docs/", "notebooks/", "tests/")):
                source, target = ROOT / name, self.seed / name
                if source.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, target)
        (self.seed / "asv.conf.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        (self.seed / "benchmarks").mkdir()
        (self.seed / "benchmarks" / "__init__.py").touch()
        for name, text in BENCHMARKS.items():
            (self.seed / "benchmarks" / name).write_text(text + QUICK, encoding="utf-8")
        self._git("init", "-q", "-b", "main")
        for cost in ("10", "10 ", "10  "):
            self._commit(f"COST = {cost}\n")
        subprocess.run(["git", "clone", "-q", "--bare", str(self.seed), str(self.origin)], check=True)
        self._git("remote", "add", "origin", str(self.origin))

    def _git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.seed, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def _commit(self, text: str) -> str:
        (self.seed / "tiny.py").write_text(text, encoding="utf-8")
        self._git("add", "-A")
        self._git("commit", "-q", "-m", text.strip())
        return self._git("rev-parse", "HEAD")

    def push(self, text: str, ref: str = "main") -> str:
        """A commit on top of main, pushed to `ref`."""
        commit = self._commit(text)
        self._git("push", "-q", "-f", "origin", f"HEAD:{ref}")
        if ref != "main":
            self._git("reset", "-q", "--hard", "HEAD^")
        return commit

    def _environment(self, label: str) -> dict[str, str]:
        """A runner's: a home of its own, a short PATH; on a Mac its commands come first."""
        home = self.home / "homes" / label
        home.mkdir(parents=True, exist_ok=True)
        kept = {
            k: v for k, v in os.environ.items() if k.startswith(("PIP_", "OPENBLAS", "SSL_", "REQUESTS_CA", "TMP"))
        }
        for name in ("pip.conf", ".pip/pip.conf", ".config/pip/pip.conf"):
            if "PIP_CONFIG_FILE" not in kept and (Path.home() / name).is_file():
                kept["PIP_CONFIG_FILE"] = str(Path.home() / name)
        path = [str(self._bin), "/usr/local/bin", "/usr/bin", "/bin"]
        links = " ".join(filter(None, [kept.get("PIP_FIND_LINKS", ""), str(self.home / "wheels")]))
        found = {
            **kept,
            "HOME": str(home),
            "PIP_FIND_LINKS": links,
            "PIP_CACHE_DIR": str(_pip_cache()),
            "LANG": "C.UTF-8",
        }
        found |= {"MLX": MLX, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        if label != LINUX:
            mac = MACS["m1-virtual" if label == HOSTED else self.own_mac]
            commands = write_commands(home / "mac", mac)
            found["PYTHONPATH"] = str(write_site(home / "site", commands / "mac.json"))
            path.insert(0, str(commands))
        return {**found, "PATH": os.pathsep.join(path)}

    def _prepare(self, workspace: Path) -> None:
        """What setup-python, a cache and `make setup` leave: .venv, whose packages are shared."""
        venv = workspace / ".venv"
        subprocess.run([str(self.python), "-m", "venv", "--without-pip", str(venv)], check=True)
        packages = next(venv.glob("lib/python3*/site-packages"))
        (packages / "shared.pth").write_text(f"{workspace}\n{self._packages}\n", encoding="utf-8")
        for name, call in (("mlxcache", "mlxcache.cli"), ("asv", "asv.main")):
            program = venv / "bin" / name
            program.write_text(
                f"#!{venv}/bin/python\nimport sys\nfrom {call} import main\nsys.exit(main())\n", encoding="utf-8"
            )
            program.chmod(0o755)
        (venv / ".ready").touch()

    # What is looked at.

    def see(self, what: str, fine: bool, run: Run | None = None) -> None:
        """Say it, or stop with the steps' output."""
        if not fine:
            raise WrongError(f"[{self.version}] {what}: NOT SO\n{run.log() if run else ''}")
        say(f"[{self.version}] {what}")

    def published(self) -> list[str]:
        """Result files on the branch of results."""
        done = subprocess.run(
            ["git", "ls-tree", "-r", "--name-only", "benchmark-results"],
            cwd=self.origin, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return [name for name in done.stdout.splitlines() if "-virtualenv-" in name]

    def everything(self) -> None:
        """All of it, in the order in which it would happen."""
        self.lint()
        self.first_days()
        self.releases()
        self.pull_requests()
        if not self.short:
            self.own_macs()
            self.other_forge()
        self.forge.api.close()

    def lint(self) -> None:
        """ci.yml's first step on this Python; the rest of .ci/run is run by who runs this."""
        cache = ROOT / ".asv" / "rehearse" / f"mypy-{self.version}"
        done = subprocess.run(
            [str(self.python), "-m", "mypy", "--cache-dir", str(cache)],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.see(f"ci: types\n{done.stdout[-2000:]}" if done.returncode else "ci: types", done.returncode == 0)

    def first_days(self) -> None:
        """A night, the same night again, a push, a network that is away, a second attempt."""
        forge = self.forge
        night = forge.start("bench-main", "workflow_dispatch", newest="1")
        self.see(
            "bench-main, first night with one machine: its artifact lies flat",
            night.conclusion == "success",
            night,
        )
        self.see("  one commit is on the branch", len(self.published()) == 1, night)
        self.see(
            "  environments name the CPU", all("MLXCACHE_DEVICEcpu" in name for name in self.published()), night
        )
        assert forge.pages is not None
        feed = next(forge.pages.glob("*.xml")).read_text(encoding="utf-8")
        self.see("  the feed has the site's address", "https://somebody.github.io/mlxcache/" in feed, night)
        before = self.published()
        night = forge.start("bench-main", "schedule", newest="1")
        self.see("bench-main, second night: nothing to measure", night.jobs["measure"].result == "skipped", night)
        self.see(
            "  and the site is built all the same",
            night.conclusion == "success" and self.published() == before,
            night,
        )
        forge.origin_is_away = True
        night = forge.start("bench-main", "schedule")
        forge.origin_is_away = False
        self.see(
            "bench-main, origin away: an error, and nothing is measured",
            night.jobs["plan"].result == "failure",
            night,
        )
        self.see("  no job takes it for an empty branch", night.jobs["measure"].result == "skipped", night)
        again = forge.again(night, newest="1")
        self.see("  a second attempt at the failed jobs is fine", again.conclusion == "success", again)
        if self.short:
            return
        self.push("COST = 10   \n")
        night = forge.start("bench-main", "push")
        self.see(
            "bench-main, three machines: their artifacts lie in folders", night.conclusion == "success", night
        )
        self.see("  all commits are there", len(self.published()) == 4, night)
        for name in ("measure", "confirm"):
            night.jobs[name].result = "failure"
            again = forge.again(night)
            self.see(f"  a second attempt at {name} is fine", again.conclusion == "success", again)

    def releases(self) -> None:
        """Two nights on which nobody pushed."""
        before = len(self.published())
        night = self.forge.start("releases", "schedule")
        self.see(
            "releases, first night", night.conclusion == "success" and len(self.published()) == before + 1, night
        )
        night = self.forge.start("releases", "schedule")
        self.see("releases, second night: measured once", night.conclusion == "success", night)
        self.see("  and nothing new", len(self.published()) == before + 1, night)

    def pull_requests(self) -> None:
        """A slower one by label; another label; one by comment that moved on."""
        forge = self.forge
        head = self.push("COST = 20\n", "refs/pull/7/head")
        self._git("push", "-q", "origin", f"{head}:refs/heads/topic")
        pull = {
            "number": 7,
            "state": "open",
            "head": {"sha": head, "ref": "topic", "repo": {"full_name": REPOSITORY}},
            "base": {"ref": "main"},
            "labels": [{"name": "docs"}, {"name": "benchmark"}],
        }
        forge.api.pulls[7] = pull
        other = forge.start(
            "bench-pr", "pull_request", {"action": "labeled", "label": {"name": "docs"}, "pull_request": pull}
        )
        self.see(
            "bench-pr, another label: skipped before it takes the group", other.conclusion == "skipped", other
        )
        asked = {"action": "labeled", "label": {"name": "benchmark"}, "pull_request": pull}
        run = forge.start("bench-pr", "pull_request", asked)
        self.see("bench-pr, by label", run.conclusion == "success", run)
        told = self._comment(run, "pull_request")
        self.see("bench-comment", told.conclusion == "success", told)
        bodies = [each["body"] for each in forge.api.comments.get(7, [])]
        self.see(
            "  one comment says what got worse", len(bodies) == 1 and "track_int64_over_int32" in bodies[0], told
        )
        checks = [(each["head_sha"], each["conclusion"]) for each in forge.api.checks]
        self.see("  the check stands on the measured commit", checks == [(head, "failure")], told)
        newer = {**pull, "head": {**pull["head"], "sha": "f" * 40}}
        forge.api.pulls[7] = newer
        told = self._comment(run, "workflow_dispatch")
        self.see("bench-comment, the pull request moved on", told.conclusion == "success", told)
        self.see("  no check on a commit that was not measured", len(forge.api.checks) == 1, told)
        forge.api.pulls[7] = pull
        run.artifacts.pop("comparison")
        told = self._comment(run, "pull_request")
        self.see("bench-comment, nothing was handed over", told.conclusion == "success", told)
        self.see(
            "  the comment says that nothing was measured",
            "Not measured" in forge.api.comments[7][0]["body"],
            told,
        )
        comment = {"body": "/benchmark", "author_association": "MEMBER"}
        run = forge.start(
            "bench-command", "issue_comment", {"issue": {"number": 7, "pull_request": {}}, "comment": comment}
        )
        self.see(
            "bench-command starts bench-pr", run.conclusion == "success" and len(forge.api.dispatches) == 1, run
        )

    def _comment(self, run: Run, event: str) -> Run:
        """bench-comment, as the end of `run` starts it."""
        pull = self.forge.api.pulls[7]
        payload = {
            "name": run.workflow,
            "id": run.number,
            "event": event,
            "conclusion": run.conclusion,
            "display_title": f"{run.title}" if event == "workflow_dispatch" else "Some title",
            "head_sha": pull["head"]["sha"],
            "head_branch": "topic",
            "head_repository": {"full_name": REPOSITORY, "owner": {"login": REPOSITORY.partition("/")[0]}},
            "html_url": "https://github.com/run",
        }
        handed: dict[str, Any] = {"artifacts": {name: str(path) for name, path in run.artifacts.items()}}
        return self.forge.start("bench-comment", "workflow_run", {"workflow_run": payload, "_run": handed})

    def own_macs(self) -> None:
        """Two Macs of one's own: without the variable nothing, then what they lack, then nothing again."""
        forge = self.forge
        run = forge.start("bench-own", "schedule")
        self.see("bench-own without a Mac: skipped", run.conclusion == "skipped", run)
        forge.variables["BENCH_RUNNER"] = OWN
        for mac, name in (("m2-pro", "metal-19gpu"), ("m4-max", "metal-40gpu")):
            self.own_mac = mac
            run = forge.start("bench-own", "workflow_dispatch", newest="2")
            mine = [each for each in self.published() if name in each]
            self.see(f"bench-own on {mac}: what the hosted ones had is filled in", len(mine) == 2, run)
            self.see("  under the name of its GPU", run.conclusion == "success", run)
        before = self.published()
        run = forge.start("bench-own", "schedule", newest="2")
        self.see("bench-own, second night: nothing new", run.conclusion == "success", run)
        self.see("  nothing measured twice", self.published() == before, run)

    def other_forge(self) -> None:
        """GitLab's recipe, as docs/ci.md has it: its script in one shell, on a branch that is slower."""
        blocks = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8").split("```yaml\n")[1:]
        recipe = next(block for block in blocks if "CI_MERGE_REQUEST" in block).partition("```")[0]
        job = yaml.safe_load(recipe)["benchmark"]
        workspace = self.home / "gitlab"
        self._git("fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*")
        subprocess.run(["git", "clone", "-q", "--branch", "topic", str(self.origin), str(workspace)], check=True)
        self._prepare(workspace)
        target = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "CI": "true"}
        status, said = bash(
            "set -eo pipefail\n" + "\n".join(job["script"]), workspace, self._environment(OWN) | target, 600
        )
        if status != 1 or "track_int64_over_int32" not in (workspace / "verdict.md").read_text(encoding="utf-8"):
            raise WrongError(f"[{self.version}] GitLab's recipe ended with {status}, expected 1\n{said}")
        say(f"[{self.version}] GitLab's recipe: the job's status is the verdict")


def _pip_cache() -> Path:
    return ROOT / ".asv" / "rehearse" / "pip"


def rehearse(version: str, short: bool) -> str:
    """One Python's; "" or what went wrong."""
    python = find_python(version)
    assert python is not None
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"rehearse-{version}-") as folder:
        try:
            Rehearsal(version, environment_for(version, python), Path(folder), short).everything()
        except WrongError as error:
            return str(error)
    say(f"[{version}] done in {time.monotonic() - began:.0f} s")
    return ""


def main() -> int:
    """Rehearse on every Python asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one night, one pull request, no own Mac")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only this one (may be repeated)")
    args = parser.parse_args()
    wanted = args.python or list(PYTHONS)
    there = [version for version in wanted if get_python(version)]
    lacking = ", ".join(version for version in wanted if version not in there)
    if not there:
        return 2
    with ThreadPoolExecutor(len(there)) as pool:
        wrong = list(filter(None, pool.map(lambda version: rehearse(version, args.short), there)))
    for text in wrong:
        print(text, file=sys.stderr)
    say(f"rehearsed on Python {' and '.join(there)}")
    if lacking:
        print(f"rehearse: NOT REHEARSED on Python {lacking}: none is here and none could be had", file=sys.stderr)
    # GitHub's runners have every Python.
    return 1 if wrong or (lacking and os.environ.get("GITHUB_ACTIONS")) else 0


if __name__ == "__main__":
    sys.exit(main())
