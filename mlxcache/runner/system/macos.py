"""A Mac, from sysctl, ioreg, pmset, notifyutil and their like.

Nothing here has run on Apple hardware yet. What these commands print is held by tests against outputs that real
Macs gave, each with its source: `tools/macs.py`.
"""

from __future__ import annotations

import plistlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from xml.parsers.expat import ExpatError

from mlxcache.runner.system.commands import Ask

# kern.* and hw.perflevel* are there on every Apple Silicon Mac; an unknown name makes sysctl fail after the
# others.
_HARDWARE: Final = (
    "machdep.cpu.brand_string",
    "hw.memsize",
    "hw.physicalcpu",
    "hw.model",
    "hw.perflevel0.physicalcpu",
    "hw.perflevel1.physicalcpu",
    "kern.hv_vmm_present",
    "kern.osproductversion",
    "kern.osversion",
)
_MEMORY: Final = ("vm.swapusage", "kern.memorystatus_vm_pressure_level")
# OSThermalNotification.h: what `powermetrics` prints as well, but without root.
THERMAL: Final = {0: "nominal", 1: "moderate", 2: "heavy", 3: "trapping", 4: "sleeping"}
_PRESSURE: Final = {1: "normal", 2: "warn", 4: "critical"}
_POWER_MODE: Final = {0: "automatic", 1: "low", 2: "high"}
_POWER_MODE_LINE: Final = re.compile(r"^\s*(?:lowpowermode|powermode)\s+(\d+)", re.MULTILINE)
_MIB: Final = 2**20


@dataclass(frozen=True)
class Hardware:
    """What does not change; `virtual` is "vm" or empty, cores are 0 where nobody tells."""

    chip: str
    cores: int
    memory: int
    virtual: str
    model: str = ""
    performance_cores: int = 0
    efficiency_cores: int = 0
    os_version: str = ""
    os_build: str = ""


def hardware(ask: Ask) -> Hardware:
    """This Mac. Raises ValueError where it does not tell its chip, cores or memory: it would get a wrong name."""
    answer = ask("sysctl", *_HARDWARE)
    return read_hardware(parse_sysctl(answer.text), answer.trouble)


def read_hardware(values: Mapping[str, str], trouble: str = "") -> Hardware:
    """From sysctl's values by name; `trouble` goes into the error."""
    chip = values.get("machdep.cpu.brand_string", "")
    memory, cores = _number(values, "hw.memsize"), _number(values, "hw.physicalcpu")
    lacks = [
        name
        for name, there in (("machdep.cpu.brand_string", chip), ("hw.memsize", memory), ("hw.physicalcpu", cores))
        if not there
    ]
    if lacks:
        why = trouble or "sysctl answered without them"
        raise ValueError(
            f"this Mac does not tell {', '.join(lacks)} ({why}); without them its results would lie under a wrong "
            "name. `sysctl hw machdep.cpu` shows what it tells"
        )
    model = values.get("hw.model", "")
    # hw.model and the chip's name say it as well, on systems without that variable.
    is_virtual = values.get("kern.hv_vmm_present") == "1" or "virtual" in f"{model} {chip}".lower()
    return Hardware(
        chip,
        cores,
        memory,
        "vm" if is_virtual else "",
        model,
        _number(values, "hw.perflevel0.physicalcpu"),
        _number(values, "hw.perflevel1.physicalcpu"),
        values.get("kern.osproductversion", ""),
        values.get("kern.osversion", ""),
    )


def gpu_cores(ask: Ask) -> tuple[int, str]:
    """How many cores the GPU has, by ioreg or else by system_profiler; 0 and the reason where neither tells."""
    registry = ask("ioreg", "-rc", "AGXAccelerator", "-d1")
    found = parse_gpu_cores(registry.text)
    if found:
        return found, ""
    displays = ask("system_profiler", "-xml", "SPDisplaysDataType")
    found = parse_display_cores(displays.text)
    if found:
        return found, ""
    troubles = [trouble for trouble in (registry.trouble, displays.trouble) if trouble]
    return 0, "; ".join(troubles) or "neither ioreg nor system_profiler names the GPU's cores"


@dataclass(frozen=True)
class Condition:
    """What changes; None where the Mac does not tell, and then `doubts` says why."""

    power: str | None
    power_mode: str | None
    sleep_minutes: int | None
    thermal: str | None
    memory_pressure: str | None
    swap_used: int | None
    doubts: tuple[str, ...] = ()


def condition(ask: Ask, virtual: bool = False) -> Condition:
    """The Mac now. A virtual machine knows nothing of the heat outside: its thermal pressure is None."""
    doubts: list[str] = []

    def told(command: tuple[str, ...], what: str) -> str:
        answer = ask(*command)
        if answer.trouble and not answer.text:
            doubts.append(f"{what} is not known: {answer.trouble}")
        return answer.text

    settings = told(("pmset", "-g"), "the power mode")
    source = told(("pmset", "-g", "batt"), "the power source")
    memory = parse_sysctl(told(("sysctl", *_MEMORY), "memory pressure"))
    thermal, doubt = (None, "") if virtual else thermal_pressure(ask)
    pressure = _number(memory, "kern.memorystatus_vm_pressure_level")
    if doubt:
        doubts.append(doubt)
    if pressure and pressure not in _PRESSURE:
        doubts.append(f"memory pressure level {pressure} has no name here")
    if source and parse_pmset_batt(source) is None:
        doubts.append(f"the power source is not known: pmset says {source.splitlines()[0]!r}")
    mode = _POWER_MODE_LINE.search(settings)
    if mode is not None and parse_power_mode(settings) is None:
        doubts.append(f"power mode {mode[1]} has no name here")
    return Condition(
        parse_pmset_batt(source),
        parse_power_mode(settings),
        parse_sleep(settings),
        thermal,
        _PRESSURE.get(pressure),
        parse_swap(memory.get("vm.swapusage", "")),
        tuple(doubts),
    )


def thermal_pressure(ask: Ask) -> tuple[str | None, str]:
    """The thermal pressure's name, or None and the reason.

    `pmset -g therm` is not asked: on Apple Silicon it prints that nothing was recorded, also while throttling.
    """
    answer = ask("notifyutil", "-g", "com.apple.system.thermalpressurelevel")
    found = re.search(r"thermalpressurelevel\s+(\d+)\s*$", answer.text)
    if found is None:
        return None, f"thermal pressure is not known: {answer.trouble or 'notifyutil answered without a number'}"
    level = int(found[1])
    if level not in THERMAL:
        return None, f"thermal pressure level {level} has no name here"
    return THERMAL[level], ""


def background(ask: Ask) -> tuple[str, ...]:
    """What macOS may start in the middle of a measurement; "" answers are no news."""
    found = []
    if "indexing enabled" in ask("mdutil", "-s", "/").text.lower():
        found.append("Spotlight indexes this disk: `sudo mdutil -a -i off` ends it")
    if re.search(r"Running\s*=\s*1", ask("tmutil", "status").text):
        found.append("Time Machine is making a backup: `sudo tmutil disable` ends that")
    return tuple(found)


def parse_sysctl(text: str) -> dict[str, str]:
    """`name: value` lines of macOS's sysctl."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, separator, value in pairs if separator}


def parse_pmset_batt(text: str) -> str | None:
    """The power source from `pmset -g batt`: "ac", "battery", or None."""
    found = re.search(r"drawing from '([^']+)'", text)
    if found is None:
        return None
    return {"AC Power": "ac", "Battery Power": "battery"}.get(found[1])


def parse_power_mode(text: str) -> str | None:
    """The energy mode from `pmset -g`: "automatic", "low", "high"; None where the machine has none.

    Macs with a high mode call it powermode, the others lowpowermode.
    """
    found = _POWER_MODE_LINE.search(text)
    return None if found is None else _POWER_MODE.get(int(found[1]))


def parse_sleep(text: str) -> int | None:
    """After how many minutes the machine sleeps by `pmset -g`; 0 never, None where it does not tell."""
    found = re.search(r"^\s*sleep\s+(\d+)", text, re.MULTILINE)
    return None if found is None else int(found[1])


def parse_swap(text: str) -> int | None:
    """Bytes of swap in use from vm.swapusage, whose decimal sign follows the language."""
    found = re.search(r"used = (\d+)[.,](\d+)M", text)
    return None if found is None else int(float(f"{found[1]}.{found[2]}") * _MIB)


def parse_gpu_cores(text: str) -> int:
    """The GPU's cores from `ioreg -rc AGXAccelerator -d1`; 0 where it does not tell."""
    found = re.search(r'"gpu-core-count" = (\d+)', text)
    return int(found[1]) if found else 0


def parse_display_cores(text: str) -> int:
    """The GPU's cores from `system_profiler -xml SPDisplaysDataType`; 0 for what is no such property list."""
    try:
        entries: Any = plistlib.loads(text.encode())
        return max((int(gpu.get("sppci_cores", 0)) for gpu in entries[0]["_items"]), default=0)
    except (plistlib.InvalidFileException, ExpatError, ValueError, LookupError, TypeError, AttributeError):
        return 0


def _number(values: Mapping[str, str], name: str) -> int:
    text = values.get(name, "")
    return int(text) if text.isdecimal() else 0
