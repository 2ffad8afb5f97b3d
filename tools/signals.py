"""Sends signals at any time to `mlxcache compare --measure` and `bisect`, and looks for what they leave behind.

    python -m tools.signals [TRIES]      # 100

A small project is measured with asv for real. Each try is ended by SIGINT, SIGTERM, SIGHUP or SIGKILL after a
random time, from before the first import to the end; then there may be no process of it, no temporary folder, no
lock, no worktree, no change in the repository, and the next one must be able to start. Exit status 1 if something
was left.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.commands.micro_project import BENCH, Micro
from tests.tiny_project import ROOT, git

KINDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
# From the start to well into the rounds; the environments are there already.
LONGEST_S = float(os.environ.get("LONGEST_S", "8"))


def _processes(mark: str) -> list[str]:
    """The processes that have this folder in their environment, zombies apart."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes() and int(entry.name) != os.getpid():
                found.append(f"{entry.name}: {(entry / 'cmdline').read_bytes()[:120]!r}")
        except OSError:
            continue
    return found


def _left(project: Micro, temporary: Path, environments: Path, before: str) -> list[str]:
    deadline = time.monotonic() + 30
    while (running := _processes(str(temporary))) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [f"process {each}" for each in running]
    left += [f"temporary {path.name}" for path in temporary.iterdir()]
    left += [f"lock {path}" for path in environments.rglob(".mlxcache-lock")]
    if _state(project) != before:
        left.append("the repository is not as it was")
    return left


def _state(project: Micro) -> str:
    commands = (["worktree", "list"], ["for-each-ref"], ["status", "--porcelain"], ["stash", "list"])
    return "\n".join(git(project.folder, *command) for command in commands)


def main(tries: int) -> int:
    """Print what was done and what was left; 1 if anything was."""
    # Under nohup, or in the background of a script, children inherit that a signal is ignored.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chance = random.Random(14)
    folder = Path(tempfile.mkdtemp(prefix="mlxcache-signals-"))
    temporary, environments = folder / "tmp", folder / "env"
    temporary.mkdir()
    bad = 0
    statuses: Counter[str] = Counter()
    try:
        project = Micro(folder / "micro", environments)
        long = BENCH + "\n\ndef time_work():\n    sum(range(micro.WORK * 100))\n"
        for number in range(3):
            project.commit(f"{number}", {"micro/__init__.py": f"WORK = {2000 + 600 * number}\n"})
        project.commit("long", {"benchmarks/bench.py": long})
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
        program = [sys.executable, "-m", "mlxcache"]
        commands = (
            [*program, "compare", project.base, "HEAD", "--measure", "--rounds", "40"],
            [*program, "bisect", "bench.track_work", "--good", project.base, "--bad", "HEAD", "--rounds", "20"],
        )
        # The first one makes the environments.
        first = [*program, "compare", project.base, "HEAD", "--measure", "--rounds", "4"]
        subprocess.run(first, cwd=project.folder, env=environment, capture_output=True, check=False)
        before = _state(project)
        for number in range(tries):
            kind = KINDS[number % len(KINDS)]
            with subprocess.Popen(
                commands[number // len(KINDS) % 2],
                cwd=project.folder,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as running:
                wait = chance.uniform(0, LONGEST_S)
                time.sleep(wait)
                running.send_signal(kind)
                try:
                    status = running.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    bad += 1
                    print(f"try {number}: {kind.name} after {wait:.2f} s did not end it", flush=True)
                    running.kill()
                    status = running.wait()
            statuses[f"{kind.name} -> {status}"] += 1
            for text in _left(project, temporary, environments, before):
                bad += 1
                print(f"try {number}: {kind.name} after {wait:.2f} s left {text}", flush=True)
        done = subprocess.run(
            first, cwd=project.folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 1:
            bad += 1
            print(f"the next comparison ends with {done.returncode}: {done.stderr[-400:]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"{tries} signals, {bad} things left behind; "
        + ", ".join(f"{k}: {n}" for k, n in sorted(statuses.items()))
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 100))
