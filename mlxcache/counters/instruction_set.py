"""Which instructions a count is made of: those of two processors are two things, so the series' name has them."""

from __future__ import annotations

import platform
from pathlib import Path

# Libraries choose other code for each of these; the first that is there names the set.
_X86 = ("avx512f", "avx2", "avx")
_ARM = ("sve2", "sve")
# valgrind plays a processor that has nothing newer, whatever the real one has.
_NOT_SIMULATED = ("avx512f", "sve2", "sve")


def instruction_set(simulated: bool) -> str:
    """Such as "x86_64.avx2"; `simulated` is for a processor that valgrind plays."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return name_of(platform.machine(), text, simulated)


def name_of(machine: str, cpuinfo: str, simulated: bool) -> str:
    """The set by what `uname -m` and /proc/cpuinfo say."""
    arch = {"AMD64": "x86_64", "amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine) or "unknown"
    flags = set()
    for line in cpuinfo.splitlines():
        label, _, value = line.partition(":")
        if label.strip().lower() in ("flags", "features"):
            flags.update(value.split())
    for extension in _X86 if arch == "x86_64" else _ARM:
        if extension in flags and not (simulated and extension in _NOT_SIMULATED):
            return arch + "." + extension.replace("avx512f", "avx512")
    return arch.replace("-", "_")
