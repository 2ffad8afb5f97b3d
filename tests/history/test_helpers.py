"""Calls shared by processes: the same results whether they make them, end, or are not there."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mlxcache.support import workers
from mlxcache.support.workers import processes_for, spread

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_call_has_its_result(jobs: int) -> None:
    """In the order of the arguments, whoever makes it."""
    assert list(spread(math.factorial, range(30), jobs)) == [math.factorial(number) for number in range(30)]


def _end_in_another(pid: int) -> int:
    if os.getpid() != pid:
        os._exit(3)
    return pid


def test_processes_that_end_are_made_up_for() -> None:
    """What they were doing and what they would have done is done here."""
    assert list(spread(_end_in_another, [os.getpid()] * 4, 2)) == [os.getpid()] * 4


def test_what_cannot_travel_is_done_here() -> None:
    """An argument that no other process can have."""
    locks = [threading.Lock(), threading.Lock()]
    assert list(spread(id, locks, 2)) == list(map(id, locks))


def test_errors_are_the_function_s_own() -> None:
    """As if it had been called here."""
    with pytest.raises(ValueError, match="math domain"):
        list(spread(math.sqrt, [4.0, -1.0], 2))


def test_leaving_ends_what_is_going_on() -> None:
    """Nobody waits for a call whose result is not wanted any more."""
    started = time.monotonic()
    results = spread(time.sleep, [0.0, 60.0, 60.0], 2)
    next(results)
    results.close()
    assert time.monotonic() - started < 30


def test_from_standard_input_beside_a_module_called_like_one_of_ours(tmp_path: Path) -> None:
    """A program without a file, in a folder whose modules are called like the library's."""
    (tmp_path / "statistics.py").write_text("def mean(values):\n    return 'another module'\n")
    program = "import statistics\nfrom mlxcache.support.workers import spread\n" + (
        "print(list(spread(statistics.mean, [[1, 3], [5, 7]], 2)))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-"],
        input=program,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.strip(), done.stderr) == ("[2, 6]", "")


def test_small_tables_are_judged_by_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting others takes longer than what they would spare."""
    assert processes_for(1_000_000) == 1
    monkeypatch.setattr(workers, "_WORTH_A_PROCESS", 10)
    assert 1 <= processes_for(10) <= 4
