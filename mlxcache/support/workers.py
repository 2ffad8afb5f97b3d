"""Other interpreters that call functions of ours while this one goes on.

They import what a call needs and nothing of the script that started them, so they work from notebooks, from
standard input and without a guard around the main part; forking a process that has threads would not be safe.
Should one fail, the work is done here.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class HelperError(RuntimeError):
    """A helper could not be started, is gone, or its call failed."""


class Call(Generic[T]):
    """A function's call that a helper may make; `result` has the outcome either way."""

    def __init__(self, future: Future[T] | None, function: Callable[..., T], arguments: tuple[Any, ...]) -> None:
        self._future = future
        self._function = function
        self._arguments = arguments
        self._here: list[T] = []

    def take_over(self) -> bool:
        """Make the call here unless a helper has begun it; returns whether it did."""
        if self._here or (self._future is not None and not self._future.cancel()):
            return False
        self._here.append(self._function(*self._arguments))
        return True

    def is_done(self) -> bool:
        """Whether `result` need not wait."""
        return bool(self._here) or (self._future is not None and self._future.done())

    def result(self) -> T:
        """What the function returned; raises what it raised."""
        if not self._here and not self.take_over():
            assert self._future is not None
            try:
                return self._future.result()
            except HelperError:
                self._here.append(self._function(*self._arguments))
        return self._here[0]


def here(function: Callable[..., T], *arguments: Any) -> Call[T]:
    """A call that is made at once, and here."""
    call = Call(None, function, arguments)
    call.take_over()
    return call


def as_they_come(calls: Sequence[Call[Any]]) -> Iterator[int]:
    """The place of each call that has its result: what helpers made as soon as it is there.

    While none is, the last one that nobody has begun is made here.
    """
    first, last = 0, len(calls)
    while first < last:
        if not calls[first].is_done() and calls[last - 1].take_over():
            last -= 1
            yield last
        else:
            calls[first].result()
            yield first
            first += 1


class Helpers:
    """Up to `n` interpreters, each started when it first has something to do; with 0 all is done here."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._pool = ThreadPoolExecutor(n) if n > 0 else None
        self._own = threading.local()  # a thread talks to one interpreter
        self._processes: list[subprocess.Popen[bytes]] = []

    def prepare(self, *modules: str) -> None:
        """Start the first one, with these modules imported."""
        if self._pool is not None:
            self._pool.submit(self._ask, _import, modules)

    def submit(self, function: Callable[..., T], *arguments: Any) -> Call[T]:
        """A call of a module's function; arguments and result have to be picklable."""
        future = self._pool.submit(self._ask, function, arguments) if self._pool is not None else None
        return Call(future, function, arguments)

    def _ask(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            question = pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL)
            if not hasattr(self._own, "process"):
                self._own.process = start_python(__name__)
                self._processes.append(self._own.process)
        except Exception as error:
            raise HelperError(str(error)) from error
        process: subprocess.Popen[bytes] = self._own.process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(question)
            process.stdin.flush()
            fine, result = pickle.load(process.stdout)
        except Exception as error:
            process.kill()  # what is left of this answer must not be taken for the next one
            raise HelperError(str(error)) from error
        if not fine:
            raise HelperError(result)
        return result

    def __enter__(self) -> Helpers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in self._processes:
                process.kill()
            self._pool.shutdown()
        for process in self._processes:  # also one that was just being started
            process.kill()
            process.communicate()


def start_python(module: str, output: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """Run a module of this package in another interpreter, with a pipe to it; OSError where there is none.

    It imports nothing from the working directory, which may be the checkout of any project.
    """
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _import(*modules: str) -> None:
    for name in modules:
        importlib.import_module(name)


def main() -> None:
    """Answer calls until standard input ends."""
    questions = sys.stdin.buffer
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a function prints is no answer
        with contextlib.suppress(EOFError, BrokenPipeError):
            while True:
                # A question that cannot be read ends this process: nobody knows where the next one begins.
                function, arguments = pickle.load(questions)
                try:
                    content = pickle.dumps((True, function(*arguments)), pickle.HIGHEST_PROTOCOL)
                except Exception as error:  # noqa: BLE001  # whatever it is: the caller does it itself
                    content = pickle.dumps((False, repr(error)))
                answers.write(content)
                answers.flush()


if __name__ == "__main__":
    main()
