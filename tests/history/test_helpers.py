"""Other interpreters that make calls: the same outcome whether they do, fail, or are not there."""

from __future__ import annotations

import math
import operator
import os
import statistics
import time
from pathlib import Path

import pytest

from mlxcache.support.workers import Helpers, as_they_come, here


@pytest.mark.parametrize("n", [0, 1, 3])
def test_every_call_has_its_result(n: int) -> None:
    """Whoever makes it, and in whichever order."""
    with Helpers(n) as helpers:
        helpers.prepare("math")
        calls = [helpers.submit(math.factorial, number) for number in range(30)]
        assert sorted(as_they_come(calls)) == list(range(30))
        assert [call.result() for call in calls] == [math.factorial(number) for number in range(30)]
    assert here(math.factorial, 3).result() == 6


def test_a_helper_that_ends_is_made_up_for() -> None:
    """What it was doing and what it would have done is done here."""
    with Helpers(1) as helpers:
        first = helpers.submit(math.sqrt, 4.0)
        assert first.result() == 2.0
        helpers._processes[0].kill()
        calls = [helpers.submit(math.sqrt, 9.0) for _ in range(4)]
        assert [call.result() for call in calls] == [3.0] * 4


def test_what_cannot_travel_is_done_here() -> None:
    """A function that no other interpreter can find."""
    with Helpers(1) as helpers:
        assert helpers.submit(lambda: os.getpid()).result() == os.getpid()
        assert helpers.submit(os.getpid).result() in {os.getpid(), *(p.pid for p in helpers._processes)}


class _Homebody:
    """An argument that only the process which made it can read."""

    def __reduce__(self) -> tuple[object, ...]:
        return _at_home, (os.getpid(),)


def _at_home(pid: int) -> str:
    if os.getpid() != pid:
        raise ImportError("not here")
    return "home"


def test_a_question_that_a_helper_cannot_read_is_answered_here() -> None:
    """So are all that follow, whatever their length, and none gets the answer of another."""
    long = bytes(1_000_000)
    with Helpers(1) as helpers:
        calls = [
            helpers.submit(len, [_Homebody(), long]),
            *(helpers.submit(len, long[:n]) for n in (1_000_000, 3, 900_000, 2)),
        ]
        for call in calls:
            while not call.is_done():
                time.sleep(0.01)
        assert [call.result() for call in calls] == [2, 1_000_000, 3, 900_000, 2]


def test_the_working_directory_s_modules_are_not_a_helper_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the checkout of a project that is called like what we import, ours is imported."""
    (tmp_path / "statistics.py").write_text("def mean(values):\n    return 'another module'\n")
    monkeypatch.chdir(tmp_path)
    with Helpers(1) as helpers:
        call = helpers.submit(statistics.mean, [1, 3])
        while not call.is_done():
            time.sleep(0.01)
        assert call.result() == 2


def test_errors_are_the_function_s_own() -> None:
    """As if it had been called here, and the helper goes on."""
    with Helpers(1) as helpers:
        with pytest.raises(ZeroDivisionError):
            helpers.submit(operator.truediv, 1, 0).result()
        assert helpers.submit(operator.truediv, 1, 2).result() == 0.5


def test_leaving_ends_what_is_going_on() -> None:
    """Nobody waits for a call whose result is not wanted any more."""
    started = time.monotonic()
    with Helpers(1) as helpers:
        helpers.submit(time.sleep, 60)
        helpers.submit(time.sleep, 60)
        time.sleep(0.3)
    assert time.monotonic() - started < 30
    assert all(process.poll() is not None for process in helpers._processes)
