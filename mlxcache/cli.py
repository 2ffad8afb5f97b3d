"""The `mlxcache` command: finds the command's module and hands it the arguments.

Commands are imported when they are asked for, so that `mlxcache machine` needs neither pandas nor mlx.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import importlib
import io
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Any, TextIO

from mlxcache import __version__

# name -> one line of help; the code is mlxcache.commands.<name>
COMMANDS: dict[str, str] = {
    "bench": "run the asv suite quietly and sum up what came out",
    "bisect": "find the commit that made a series worse, between two measured ones",
    "compare": "judge one commit against another: regression, no regression or inconclusive",
    "coverage": "list which commits have results, and which need measuring",
    "dashboard": "write a static site of asv results: what got slower, since when, by how much",
    "doctor": "list what could not be used of a results tree, and why",
    "export": "write results in the formats of other systems",
    "machine": "name this machine by its hardware, and show the state it is in",
    "merge": "join shards of results, or whole trees, into one",
    "peers": "print our cache beside mlx-lm's, bare MLX and the machine's limit",
    "notify": "open, update and close the issues of confirmed regressions",
    "publish": "merge shards into a branch of results and push it, also while others do",
    "regressions": "list the changes in a history of asv results",
    "verdict": "turn a comparison's JSON into the comment for a pull request",
}


# Which extra of ours brings a package that is not there.
_EXTRAS: dict[str, str] = {"mlx": "cache", "pyarrow": "parquet"}
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_NOT_DONE = 2
_AGAIN_S = 2.0


class Terminated(BaseException):
    """A signal asked the program to end. Like KeyboardInterrupt it passes whoever catches exceptions."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Signals:
    """Turns the first signal into an exception, and keeps others from cutting the cleaning up short.

    An exception that comes in the middle of an import or of a destructor may be swallowed there, so it is raised
    again as long as nothing is being cleaned up.
    """

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[int, Any] = {}

    def __call__(self, number: int, frame: FrameType | None) -> None:
        again = number == signal.SIGALRM
        if again != bool(self.number):
            return
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        if again and _is_ending(sys.exception()):
            return
        self.number = self.number or number
        raise KeyboardInterrupt if self.number == signal.SIGINT else Terminated(self.number)

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGALRM, *_SIGNALS):
                # nohup's wish is kept; what a script runs in the background ends with SIGINT all the same.
                if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self)

    def __exit__(self, *_: object) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, before in self._before.items():
            signal.signal(number, before)


def _is_ending(error: BaseException | None) -> bool:
    """Whether the exception of a signal is on its way out, with what is cleaned up on that way."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt | Terminated):
            return True
        error = error.__context__
    return False


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status.

    2 is that it could not be done, whatever the reason; 1 is never an accident. 128 and the signal's number after
    a signal, 141 when whoever reads has gone.
    """
    if sys.stdout is None:  # `>&-`
        return _complain("standard output is closed, so nobody would read the answer; give it a file or /dev/null")
    _write_any_text(sys.stdout)
    _write_any_text(sys.stderr)
    signals = _Signals()
    try:
        with signals:
            try:
                status = _run(list(sys.argv[1:] if argv is None else argv))
                sys.stdout.flush()  # a full disk shows here at the latest
            except BrokenPipeError:  # `mlxcache doctor | head`
                _drop(sys.stdout)
                return 141
            except (Exception, KeyboardInterrupt, Terminated) as error:  # noqa: BLE001  # whatever it is: no regression
                number = signals.number or (signal.SIGINT if isinstance(error, KeyboardInterrupt) else 0)
                if number:  # also where an import turned it into an error of its own
                    return _interrupted(argv is None, number)
                return _failed(error)
    except KeyboardInterrupt:  # in the middle of all that
        return 128 + signal.SIGINT
    return status


def _run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="mlxcache",
        description="Measures mlxcache with asv and judges any project's asv results.",
    )
    parser.add_argument("--version", action="version", version=f"mlxcache {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    wanted = next((word for word in arguments if word in COMMANDS), None)
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary, description=summary)
        if name == wanted:
            command = importlib.import_module(f"mlxcache.commands.{name}")
            command.configure(subparser)
            subparser.set_defaults(run=command.run, passes=getattr(command, "PASSES_ARGUMENTS", False))
    args, rest = parser.parse_known_args(arguments)
    if rest and not args.passes:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return int(args.run(args, rest) if args.passes else args.run(args))


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """What a stream's encoding has no bytes for, as JSON and Python write it."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return json.dumps(text)[1:-1], error.end


codecs.register_error("mlxcache-escape", _escaped)


def _write_any_text(stream: TextIO | None) -> None:
    """An ASCII terminal or file gets \u00b5 where a µ would end the program."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="mlxcache-escape")


def _drop(stream: TextIO) -> None:
    """What a stream still holds cannot be written: the interpreter would try again at its end, and fail."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _complain(text: str) -> int:
    with contextlib.suppress(OSError, ValueError):
        print(f"mlxcache: {text}", file=sys.stderr, flush=True)
    return _NOT_DONE


def _unexpected(error: BaseException) -> int:
    with contextlib.suppress(OSError, ValueError):
        traceback.print_exc()
    return _complain(f"a mistake in mlxcache, not in your project: {type(error).__name__}: {error}")


def _failed(error: BaseException) -> int:
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package and package != "mlxcache":
        extra = _EXTRAS.get(package, "dashboard")
        return _complain(f"needs {package}, which is not installed: pip install 'mlxcache[{extra}]'")
    if isinstance(error, OSError):
        _drop(sys.stdout)
        return _complain(f"could not write or read: {error}")
    return _unexpected(error)


def _interrupted(is_program: bool, number: int) -> int:
    """Say so; as a program, end here: threads that still wait for a pipe can crash an interpreter that ends."""
    how = "interrupted" if number == signal.SIGINT else "ended by a signal"
    _complain(f"{how}; what was finished is kept")
    if is_program:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(128 + number)
    return 128 + number


if __name__ == "__main__":
    sys.exit(main())
