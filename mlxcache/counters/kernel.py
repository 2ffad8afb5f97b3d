"""Counting by the processor's own counter, through the kernel's perf_event_open: instructions in user space."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from pathlib import Path

from .counter import CountError

# perf_event_open(2)
_NUMBER = {"x86_64": 298, "aarch64": 241}
_HARDWARE, _INSTRUCTIONS = 0, 1
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TIMES = 0b11  # time enabled and time running beside the count
_CLOSE_ON_EXEC = 8
_SIZE = 64  # of the first version of the structure, which every kernel takes
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


def attributes() -> bytes:
    """The structure perf_event_attr for this process and the threads that it starts later."""
    flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    return struct.pack("<IIQQQQQIIQ", _HARDWARE, _SIZE, _INSTRUCTIONS, 0, 0, _TIMES, flags, 0, 0, 0)


def why(number: int, paranoid: str) -> str:
    """What an error of perf_event_open means, in words, and what to do; `paranoid` is the kernel's setting."""
    if number in (errno.EACCES, errno.EPERM):
        return (
            f"the kernel does not allow it (perf_event_paranoid is {paranoid or 'unknown'}): "
            "`sysctl kernel.perf_event_paranoid=2` as root, and in a container the right to call perf_event_open"
        )
    if number in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return "this machine has no counter of instructions, as most virtual machines: use valgrind, or a real one"
    if number == errno.ENOSYS:
        return "this kernel has no perf_event_open"
    return f"perf_event_open failed: {os.strerror(number)}"


def open_counter() -> int:
    """A file descriptor to read. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    block = ctypes.create_string_buffer(attributes(), _SIZE)
    found = int(libc.syscall(_NUMBER[platform.machine()], block, 0, -1, -1, ctypes.c_ulong(_CLOSE_ON_EXEC)))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found


def count_of(data: bytes) -> int:
    """The count in what the kernel wrote; raises CountError if the counter was shared: then it is an estimate."""
    count, enabled, running = struct.unpack("<QQQ", data)
    if running < 0.999 * enabled:
        raise CountError(
            f"kernel: the counter ran {running} of {enabled} ns, because others use it too; "
            "end them, or count with valgrind"
        )
    return int(count)


class Kernel:
    """Quick and exact, where there is a counter and it is permitted."""

    name = "kernel"
    counts = "instructions in user space of the process, in all its threads, by the processor's counter"
    simulated = False

    def problem(self) -> str:
        """Why not, and what to do."""
        if platform.system() != "Linux":
            return f"perf_event_open is Linux's, this is {platform.system()}"
        if platform.machine() not in _NUMBER:
            return f"perf_event_open is known for {', '.join(_NUMBER)}, not for {platform.machine()}"
        try:
            os.close(open_counter())
        except OSError as error:
            paranoid = _PARANOID.read_text(encoding="ascii").strip() if _PARANOID.exists() else ""
            return why(error.errno or 0, paranoid)
        return ""

    def command(self, command: list[str], folder: Path) -> list[str]:
        """As it is."""
        return command

    def open(self, folder: Path) -> KernelReader:
        """Opens the counter; raises CountError."""
        try:
            return KernelReader(open_counter())
        except OSError as error:
            raise CountError(f"kernel: {why(error.errno or 0, '')}") from error


class KernelReader:
    """Reads the open counter, with the counts of all threads started since."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def begin(self) -> None:
        """It counts from the moment it is opened."""

    def __call__(self) -> int:
        """Instructions so far."""
        return count_of(os.read(self._descriptor, 24))
