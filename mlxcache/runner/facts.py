"""What machine this is and in what state, read from the system's own files and tools.

Every reader takes the text that the system gave, so that the macOS branches are tested against recorded text:
they have not run on Apple hardware yet.
"""

from __future__ import annotations

import os
import platform
import plistlib
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

GIB = 2**30
# What Apple's virtual machines call their GPU; limited to the Apple5 family, so not a Metal result to trust.
PARAVIRTUAL = "paravirtual"


@dataclass(frozen=True)
class Machine:
    """What makes results comparable.

    `memory` is in bytes; `virtual` names the hypervisor or is empty; `device` is MLX's default device as chosen
    here ("cpu", "metal", "cuda"), `gpu` the name of the GPU that it uses or that it was kept from, or empty;
    `why` says why that device.
    """

    os: str
    os_version: str
    arch: str
    chip: str
    cores: int
    memory: int
    virtual: str
    device: str
    gpu: str
    why: str
    mlx: str

    @property
    def key(self) -> str:
        """A name for the machine in the results, made from hardware: the same after a reboot or on a runner alike.

        It changes with what makes results incomparable: chip, cores, memory, virtualisation, device. Not with the
        host's name, the runner's image, the OS or the MLX version (asv keeps that in the environment's name).
        """
        parts = [self.os, self.arch, self.chip, f"{self.cores}c", f"{_rounded_gib(self.memory)}g"]
        if self.virtual:
            parts.append(self.virtual)
        parts.append(self.gpu if self.device in ("metal", "cuda") and self.gpu not in self.chip else self.device)
        return "-".join(_slug(part) for part in parts if part)

    def as_dict(self) -> dict[str, object]:
        """All facts and the key, for a record."""
        return {"key": self.key, **asdict(self)}


@dataclass(frozen=True)
class State:
    """What a machine does beside the measurement; None where the system does not tell.

    `load` is the one-minute load average per core, `governor` Linux's CPU frequency governor, `power` "ac" or
    "battery", `low_power` macOS's low power mode, `thermal` "nominal" or the limit that the system names.
    """

    load: float | None
    governor: str | None = None
    power: str | None = None
    low_power: bool | None = None
    thermal: str | None = None

    def warnings(self) -> list[str]:
        """What about this state makes measurements doubtful, and what to do about it."""
        found = []
        if self.load is not None and self.load > 0.5:
            found.append(f"load is {self.load:.2f} per core before the run: stop what else runs here")
        if self.governor not in (None, "performance", "schedutil"):
            found.append(f"the CPU governor is {self.governor!r}: 'performance' measures more evenly")
        if self.power == "battery":
            found.append("this machine runs on battery: plug it in")
        if self.low_power:
            found.append("low power mode is on: turn it off")
        if self.thermal not in (None, "nominal"):
            found.append(f"the system throttles ({self.thermal}): let it cool down")
        return found


def command_output(*command: str) -> str:
    """What a command prints; empty where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def this_machine(device: str = "default") -> Machine:
    """The machine we run on; `device` "cpu" or "gpu" overrides MLX's default.

    Raises ValueError for another device, and for "gpu" where MLX has none.
    """
    if device not in ("default", "cpu", "gpu"):
        raise ValueError(f"device: got {device!r}, expected 'default', 'cpu' or 'gpu'")
    mlx, backend, gpu = _mlx_facts()
    if device == "gpu" and not gpu:
        raise ValueError("device: got 'gpu', but MLX sees no GPU here; expected 'cpu' or 'default'")
    chosen, why = choose_device(device, backend, gpu)
    common: dict[str, Any] = {
        "arch": platform.machine(),
        "device": chosen,
        "gpu": gpu,
        "why": why,
        "mlx": mlx,
    }
    if platform.system() == "Darwin":
        sysctl = parse_sysctl(command_output("sysctl", "hw", "machdep.cpu.brand_string", "kern.hv_vmm_present"))
        return Machine(os="macos", os_version=platform.mac_ver()[0], **macos_hardware(sysctl), **common)
    return Machine(
        os=platform.system().lower(),
        os_version=platform.release(),
        chip=parse_cpuinfo(_read("/proc/cpuinfo")) or platform.processor() or "unknown",
        cores=os.cpu_count() or 1,
        memory=parse_meminfo(_read("/proc/meminfo")),
        virtual=linux_hypervisor(_read),
        **common,
    )


def this_state() -> State:
    """The state of the machine now."""
    try:
        load: float | None = round(os.getloadavg()[0] / (os.cpu_count() or 1), 3)
    except OSError:
        load = None
    if platform.system() == "Darwin":
        battery = parse_pmset_batt(command_output("pmset", "-g", "batt"))
        low_power = parse_pmset_low_power(command_output("pmset", "-g"))
        return State(load, None, battery, low_power, parse_pmset_therm(command_output("pmset", "-g", "therm")))
    governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or None
    return State(load, governor, linux_power(Path("/sys/class/power_supply")))


def choose_device(asked: str, backend: str, gpu: str) -> tuple[str, str]:
    """Which device to measure, and why: a paravirtual GPU is never chosen unless it is asked for."""
    if asked == "cpu":
        return "cpu", "asked for"
    if PARAVIRTUAL in gpu.lower():
        if asked == "gpu":
            return backend, "asked for, although paravirtual: no verdict should rest on it"
        return "cpu", f"the GPU is {gpu!r}, a virtual machine's: MLX's CPU device is used"
    if asked == "gpu":
        return backend, "asked for"
    return (backend, "MLX's default device") if gpu else ("cpu", "MLX sees no GPU")


def _mlx_facts() -> tuple[str, str, str]:
    """MLX's version, its GPU backend ("metal", "cuda" or "") and the GPU's name."""
    try:
        import mlx.core as mx
    except ImportError:
        return "", "", ""
    version = str(getattr(mx, "__version__", ""))
    if mx.metal.is_available():
        backend = "metal"
    elif hasattr(mx, "cuda") and mx.cuda.is_available():
        backend = "cuda"
    else:
        return version, "", ""
    # Releases before 0.30 have it under mx.metal only.
    device_info: Callable[[], Mapping[str, object]] = getattr(mx, "device_info", None) or mx.metal.device_info
    info = device_info()
    return version, backend, str(info.get("device_name") or info.get("architecture") or backend)


def macos_hardware(sysctl: Mapping[str, str]) -> dict[str, Any]:
    """Chip, cores, memory and virtualisation from `sysctl` values by name."""
    return {
        "chip": sysctl.get("machdep.cpu.brand_string", "unknown"),
        "cores": int(sysctl.get("hw.physicalcpu") or sysctl.get("hw.ncpu") or 1),
        "memory": int(sysctl.get("hw.memsize") or 0),
        "virtual": "vm" if sysctl.get("kern.hv_vmm_present") == "1" else "",
    }


def parse_sysctl(text: str) -> dict[str, str]:
    """`name: value` lines of macOS's sysctl."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, separator, value in pairs if separator}


def parse_pmset_batt(text: str) -> str | None:
    """The power source from `pmset -g batt`: "ac", "battery", or None."""
    found = re.search(r"drawing from '([^']+)'", text)
    if found is None:
        return None
    return "ac" if found[1].startswith("AC") else "battery"


def parse_pmset_low_power(text: str) -> bool | None:
    """Low power mode from `pmset -g`; None where the machine has none."""
    found = re.search(r"^\s*(?:lowpowermode|powermode)\s+(\d+)", text, re.MULTILINE)
    return None if found is None else found[1] == "1"


def parse_pmset_therm(text: str) -> str | None:
    """The thermal state from `pmset -g therm`: "nominal", the limit below 100 %, or None."""
    limit = re.search(r"CPU_Speed_Limit\s*=\s*(\d+)", text)
    if limit is not None:
        return "nominal" if int(limit[1]) >= 100 else f"CPU speed limited to {limit[1]} %"
    level = re.search(r"(?:thermal|performance) warning level\D*(\d+)", text)
    if level is not None:
        return "nominal" if level[1] == "0" else f"thermal warning level {level[1]}"
    return "nominal" if "No thermal warning level" in text else None


def parse_displays(text: bytes) -> list[str]:
    """GPU names from `system_profiler -xml SPDisplaysDataType`; empty for what is no property list."""
    try:
        entries = plistlib.loads(text)
        return [str(gpu.get("sppci_model", gpu.get("_name", ""))) for gpu in entries[0]["_items"]]
    except (plistlib.InvalidFileException, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return []


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


def linux_hypervisor(read: Callable[[str], str]) -> str:
    """The hypervisor's name, "vm" where it hides its name, or empty on bare metal."""
    vendor = read("/sys/class/dmi/id/sys_vendor").strip()
    for name in ("QEMU", "VMware", "Xen", "Microsoft", "Amazon", "Google"):
        if name.lower() in vendor.lower():
            return name.lower()
    return "vm" if re.search(r"^flags\s*:.*\bhypervisor\b", read("/proc/cpuinfo"), re.MULTILINE) else ""


def linux_power(supplies: Path) -> str | None:
    """ "ac" or "battery" from the kernel's power supplies; None on a machine that has none."""
    online = [_read(str(path)).strip() for path in supplies.glob("*/online")] if supplies.is_dir() else []
    if online:
        return "ac" if "1" in online else "battery"
    return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _rounded_gib(memory: int) -> int:
    """GiB as sold: the kernel keeps a share that differs from boot to boot."""
    gib = memory / GIB
    step = 1 if gib <= 4 else 2 if gib <= 32 else 8
    return max(1, -(-int(gib + 0.999) // step) * step)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "_", text.lower()).strip("_.")
