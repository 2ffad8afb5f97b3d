"""Counting by valgrind's callgrind: every instruction of every thread, on a processor that it plays.

The process asks callgrind itself for counts, by the sequence of instructions that means "a request" to valgrind
and nothing to a processor (valgrind.h). It is run from memory, so nothing has to be compiled.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import shutil
import struct
import subprocess
from pathlib import Path

from .counter import CountError

_RUNNING_ON_VALGRIND = 0x1001
_CALLGRIND = (ord("C") << 24) | (ord("T") << 16)
_DUMP, _START = _CALLGRIND, _CALLGRIND + 4

# A C function of two arguments, the request's words and the answer outside valgrind. The rotations add up to whole
# turns, so a processor that runs them is none the wiser.
_X86_64 = bytes.fromhex("4889f8 4889f2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3".replace(" ", ""))
_AARCH64 = struct.pack(
    "<9I",
    0xAA0003E4,  # mov x4, x0
    0xAA0103E3,  # mov x3, x1
    0x93CC0D8C,  # ror x12, x12, #3
    0x93CC358C,  # ror x12, x12, #13
    0x93CCCD8C,  # ror x12, x12, #51
    0x93CCF58C,  # ror x12, x12, #61
    0xAA0A014A,  # orr x10, x10, x10
    0xAA0303E0,  # mov x0, x3
    0xD65F03C0,  # ret
)
_CODE = {"x86_64": _X86_64, "AMD64": _X86_64, "aarch64": _AARCH64}

_TOTALS = re.compile(rb"^(?:totals|summary): (\d+)", re.MULTILINE)


class Valgrind:
    """The counter that needs no permission: slow (about 50 times), and the same on all machines of one kind."""

    name = "valgrind"
    counts = "all instructions of the process, in all its threads, as valgrind's callgrind executes them"
    simulated = True

    def problem(self) -> str:
        """Why not, and what to do."""
        if platform.system() != "Linux":
            return f"valgrind is used on Linux only, this is {platform.system()}"
        if platform.machine() not in _CODE:
            return f"valgrind's requests are known for {', '.join(sorted(_CODE))}, not for {platform.machine()}"
        found = shutil.which("valgrind")
        if found is None:
            return "valgrind is not installed: `apt-get install valgrind`, or your distribution's package"
        try:
            done = subprocess.run(
                [found, "--tool=callgrind", "--version"], capture_output=True, text=True, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{found} does not start: {error}"
        if done.returncode or not done.stdout.startswith("valgrind-"):
            said = (done.stderr or done.stdout).strip().splitlines()
            return f"{found} does not work: {said[-1] if said else f'exit status {done.returncode}'}"
        return ""

    def command(self, command: list[str], folder: Path) -> list[str]:
        """Under callgrind, counting nothing until it is asked to."""
        return [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            "--dump-line=no",
            f"--callgrind-out-file={folder}/dump.%p",
            f"--log-file={folder}/said.%p",
            *command,
        ]

    def open(self, folder: Path) -> ValgrindReader:
        """The requests; raises CountError in a process that valgrind does not run."""
        return ValgrindReader(folder)


class ValgrindReader:
    """Counts between requests: each one writes what was executed since the last one, which is added up."""

    def __init__(self, folder: Path) -> None:
        code = _CODE[platform.machine()]
        try:
            self._memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        except OSError as error:
            raise CountError(f"valgrind: no executable memory for its requests ({error})") from error
        self._memory.write(code)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._call = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)(address)
        self._words = {
            request: (ctypes.c_uint64 * 6)(request) for request in (_RUNNING_ON_VALGRIND, _DUMP, _START)
        }
        self._places = {request: ctypes.addressof(words) for request, words in self._words.items()}
        if os.environ.get("LD_PRELOAD", "").find("vgpreload") < 0 or not self._ask(_RUNNING_ON_VALGRIND):
            raise CountError("valgrind: this process does not run under it")
        self._folder = folder
        self._dumps = 0
        self._total = 0

    def _ask(self, request: int) -> int:
        return int(self._call(self._places[request], 0))

    def begin(self) -> None:
        """Switch counting on."""
        self._ask(_START)

    def __call__(self) -> int:
        """Instructions so far; raises CountError if callgrind wrote none."""
        self._ask(_DUMP)
        self._dumps += 1
        path = self._folder / f"dump.{os.getpid()}.{self._dumps}"
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - 4096))
                found = _TOTALS.findall(file.read())
            path.unlink()
        except OSError as error:
            raise CountError(f"valgrind: callgrind wrote no counts ({error})") from error
        if not found:
            raise CountError(f"valgrind: no totals in {path.name}")
        self._total += int(found[-1])
        return self._total
