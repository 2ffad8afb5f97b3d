"""Counting by macOS: proc_pid_rusage tells the own process's instructions without privileges.

Written against <sys/resource.h>: `struct rusage_info_v4` is a 16-byte UUID and 64-bit words, and ri_instructions
is the 30th of them. It has not run on Apple hardware; the tests give it text and bytes only. The count holds the
kernel's instructions for the process as well.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from pathlib import Path

from .counter import CountError

RUSAGE_INFO_V4 = 4
_UUID_BYTES = 16
# The 64-bit words of the structure in the header's order.
WORDS = [
    "user_time",
    "system_time",
    "pkg_idle_wkups",
    "interrupt_wkups",
    "pageins",
    "wired_size",
    "resident_size",
    "phys_footprint",
    "proc_start_abstime",
    "proc_exit_abstime",
    "child_user_time",
    "child_system_time",
    "child_pkg_idle_wkups",
    "child_interrupt_wkups",
    "child_pageins",
    "child_elapsed_abstime",
    "diskio_bytesread",
    "diskio_byteswritten",
    "cpu_time_qos_default",
    "cpu_time_qos_maintenance",
    "cpu_time_qos_background",
    "cpu_time_qos_utility",
    "cpu_time_qos_legacy",
    "cpu_time_qos_user_initiated",
    "cpu_time_qos_user_interactive",
    "billed_system_time",
    "serviced_system_time",
    "logical_writes",
    "lifetime_max_phys_footprint",
    "instructions",
    "cycles",
    "billed_energy",
    "serviced_energy",
    "interval_max_phys_footprint",
    "runnable_time",
]
SIZE = _UUID_BYTES + 8 * len(WORDS)


def instructions_in(data: bytes) -> int:
    """ri_instructions of a `rusage_info_v4`; raises CountError for another size or a zero."""
    if len(data) != SIZE:
        raise CountError(f"rusage: got {len(data)} bytes, expected {SIZE}")
    words = struct.unpack(f"<{len(WORDS)}Q", data[_UUID_BYTES:])
    found = int(words[WORDS.index("instructions")])
    if found <= 0:
        raise CountError("rusage: macOS counts no instructions on this machine (an Intel Mac, or a virtual one)")
    return found


def read_rusage() -> bytes:
    """What macOS says of this process. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    block = ctypes.create_string_buffer(SIZE)
    if library.proc_pid_rusage(os.getpid(), RUSAGE_INFO_V4, block):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return block.raw


class Rusage:
    """macOS's own count, on Apple Silicon; never run on Apple hardware yet."""

    name = "rusage"
    counts = "all instructions of the process, in all its threads and in the kernel, as macOS counts them"
    simulated = False

    def problem(self) -> str:
        """Why not, and what to do."""
        if platform.system() != "Darwin":
            return f"proc_pid_rusage is macOS's, this is {platform.system()}"
        try:
            instructions_in(read_rusage())
        except (OSError, AttributeError, CountError) as error:
            return f"proc_pid_rusage: {error}"
        return ""

    def command(self, command: list[str], folder: Path) -> list[str]:
        """As it is."""
        return command

    def open(self, folder: Path) -> RusageReader:
        """Nothing has to be opened."""
        return RusageReader()


class RusageReader:
    """Asks macOS each time."""

    def begin(self) -> None:
        """It counts from the process's start."""

    def __call__(self) -> int:
        """Instructions so far."""
        try:
            return instructions_in(read_rusage())
        except OSError as error:
            raise CountError(f"rusage: {error}") from error
