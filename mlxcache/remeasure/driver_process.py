"""Starts the driver, hands it plans, and sees that nothing is left of it, however either of the two ends.

with DriverProcess() as driver:
    for event in driver.run(plan): ...
    for event in driver.run(another): ...   # environments, suites and caches are kept between the two
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from mlxcache.support.sessions import end_session

# The driver has to find this very package, also from the project's folder, and what it starts must not: those
# environments hold the commit that is measured. So no PYTHONPATH, which they would inherit.
_START: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from mlxcache.remeasure.asv_driver import main; sys.exit(main(sys.argv[2:]))"
)
_TICK_S: Final = 1.0
# asv gives a child one second to end, and a driver cleans up after that.
_PATIENCE_S: Final = 15.0


class MeasureError(RuntimeError):
    """Nothing could be measured; the message says why."""


class DriverProcess:
    """One driver, from the first plan to the end of the `with` block; it holds the project's lock so long.

    Use it from the main thread: Linux ends the driver with the thread that started it.
    """

    def __init__(self) -> None:
        # The driver makes it, once it is sure to end with us, and removes it; what has no name needs no removing.
        self._scratch = Path(tempfile.gettempdir()) / f"mlxcache-measure-{os.getpid()}-{os.urandom(4).hex()}"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 closed at the end of the with block
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""

    def __enter__(self) -> DriverProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._process is not None:
                self._end(self._process, gently=kind is None)
        finally:
            self._log.close()
            shutil.rmtree(self._scratch, ignore_errors=True)

    def run(self, plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the plan's events, and {"event": "tick"} each second in which there is none.

        Raises MeasureError if the driver dies without a word; what asv said is in the message.
        """
        process = self._process or self._start()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # why it died is told below
            process.stdin.write(json.dumps(plan).encode() + b"\n")
            process.stdin.flush()
        for line in self._lines(process):
            if line is None:
                yield {"event": "tick"}
                continue
            event = json.loads(line)
            if event["event"] == "done":
                return
            yield event
            if event["event"] == "error":
                return
        raise MeasureError(f"measuring ended with status {process.wait()}: {self.said()}")

    def said(self, lines: int = 4) -> str:
        """The end of what asv and the driver printed."""
        # pread, since the file's position is shared with those who write.
        text = os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")
        kept = [line.strip() for line in text.splitlines() if line.strip()]
        return " / ".join(kept[-lines:]) or "no message"

    def _start(self) -> subprocess.Popen[bytes]:
        _sweep(self._scratch.parent)
        root = str(Path(__file__).resolve().parents[2])
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, root, str(os.getpid()), str(self._scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # Ctrl-C is for us: we end it, and wait until it has cleaned up.
            start_new_session=True,
        )
        return self._process

    def _lines(self, process: subprocess.Popen[bytes]) -> Iterator[bytes | None]:
        """Whole lines of its output, and None for each second without one."""
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        while True:
            line, found, rest = self._unread.partition(b"\n")
            if found:
                self._unread = rest
                yield line
                continue
            ready, _, _ = select.select([descriptor], [], [], _TICK_S)
            if not ready:
                yield None
                continue
            data = os.read(descriptor, 65536)
            if not data:
                return
            self._unread += data

    def _end(self, process: subprocess.Popen[bytes], gently: bool) -> None:
        try:
            with contextlib.suppress(OSError):
                assert process.stdin is not None
                process.stdin.close()
            if not gently:
                with contextlib.suppress(OSError):
                    process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + _PATIENCE_S
            while process.poll() is None and time.monotonic() < deadline:
                # It may be in the middle of saying something.
                assert process.stdout is not None
                ready = select.select([process.stdout], [], [], 0.05)[0]
                if ready and not os.read(process.stdout.fileno(), 65536):
                    time.sleep(0.05)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            end_session(process.pid)
            if process.stdout is not None:
                process.stdout.close()


def _sweep(folder: Path) -> None:
    """Remove what is left where both of the two were killed, as by a machine that ran out of memory."""
    for left in folder.glob("mlxcache-measure-*-*"):
        with contextlib.suppress(OSError, ValueError):
            try:
                os.kill(int(left.name.split("-")[2]), 0)
            except ProcessLookupError:
                shutil.rmtree(left, ignore_errors=True)


def run_driver(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A driver for one plan."""
    with DriverProcess() as driver:
        yield from driver.run(plan)
