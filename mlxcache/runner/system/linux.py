"""A Linux machine, from /proc and /sys."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path


def read(path: str) -> str:
    """A file's text; empty where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def parse_cpuinfo(text: str) -> str:
    """A chip's name from /proc/cpuinfo; a generic name gets its model number, Arm parts their identifiers."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, separator, value = line.partition(":")
        if separator:
            values.setdefault(name.strip(), value.strip())
    name = values.get("model name", "")
    if name:
        name = re.sub(r"\((R|TM|tm|r)\)|\bCPU\b|\bProcessor\b|@.*$", " ", name)
        name = " ".join(name.split())
        # Hypervisors hide the model: "Intel Xeon" alone would join a Skylake and a Sapphire Rapids.
        if not re.search(r"\d", name) and "model" in values:
            name += f" family{values.get('cpu family', '')} model{values['model']}"
        return name
    if "CPU part" in values:
        return f"arm-{values.get('CPU implementer', '')}-{values['CPU part']}"
    return ""


def parse_meminfo(text: str) -> int:
    """Installed memory in bytes from /proc/meminfo; 0 where it is not told."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def hypervisor(read: Callable[[str], str]) -> str:
    """The hypervisor's name, "vm" where it hides its name, or empty on bare metal."""
    vendor = read("/sys/class/dmi/id/sys_vendor").strip()
    for name in ("QEMU", "VMware", "Xen", "Microsoft", "Amazon", "Google"):
        if name.lower() in vendor.lower():
            return name.lower()
    return "vm" if re.search(r"^flags\s*:.*\bhypervisor\b", read("/proc/cpuinfo"), re.MULTILINE) else ""


def power(supplies: Path) -> str | None:
    """ "ac" or "battery" from the kernel's power supplies; None on a machine that has none."""
    online = [read(str(path)).strip() for path in supplies.glob("*/online")] if supplies.is_dir() else []
    if online:
        return "ac" if "1" in online else "battery"
    return None


def governor() -> str | None:
    """The first CPU's frequency governor; None where there is none, as in most virtual machines."""
    return read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None
