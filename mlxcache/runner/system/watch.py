"""What goes on while a run measures: keeps a Mac awake, and looks at its thermal pressure now and then.

with Watch(machine.os, machine.virtual) as watch:
    ...
watch.worst
"""

from __future__ import annotations

import subprocess
import threading
from os import getpid
from types import TracebackType
from typing import Final, Self

from mlxcache.runner.system import macos
from mlxcache.runner.system.commands import Ask, ask

# A look takes 11 ms of an efficiency core.
_EVERY_S: Final = 30.0
_ORDER: Final = tuple(macos.THERMAL.values())


class Watch:
    """`worst` is the worst thermal pressure seen, None where nobody tells; `doubts` says what went wrong, once.

    `os` and `virtual` are a machine's: a virtual machine is kept awake too, but knows nothing of the heat outside.
    """

    def __init__(self, os: str, virtual: str, ask: Ask = ask, every: float = _EVERY_S) -> None:
        self.worst: str | None = None
        self.doubts: list[str] = []
        self._is_mac = os == "macos"
        self._looks = self._is_mac and not virtual
        self._ask = ask
        self._every = every
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="thermal pressure", daemon=True)
        self._awake: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._is_mac:
            self._stay_awake()
        if self._looks:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._looks:
            self._thread.join()
        if self._awake is not None:
            self._awake.terminate()
            self._awake.wait()

    def _stay_awake(self) -> None:
        command = ["caffeinate", "-i", "-m", "-s", "-w", str(getpid())]
        try:
            # Should this process be killed, caffeinate ends with it.
            self._awake = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            self.doubts.append(f"this Mac may fall asleep: caffeinate cannot be run ({error.strerror})")

    def _look_on(self) -> None:
        while True:
            found, doubt = macos.thermal_pressure(self._ask)
            if found is not None and (self.worst is None or _ORDER.index(found) > _ORDER.index(self.worst)):
                self.worst = found
            if doubt and doubt not in self.doubts:
                self.doubts.append(doubt)
            if self._over.wait(self._every):
                return
