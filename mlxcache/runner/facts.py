"""What machine this is and in what state: what makes results comparable, and what makes them doubtful.

The readers of each system are in `runner.system`. The macOS branches have not run on Apple hardware yet.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from mlxcache.runner.system import linux, macos, mlx
from mlxcache.runner.system.commands import ask

GIB: Final = 2**30
# What Apple's virtual machines call their GPU; limited to the Apple5 family, so not a Metal result to trust.
PARAVIRTUAL: Final = "paravirtual"
# The way out for a Mac that does not tell how large its GPU is.
GPU_CORES_VARIABLE: Final = "MLXCACHE_GPU_CORES"


@dataclass(frozen=True)
class Machine:
    """What makes results comparable.

    `memory` and `working_set` (what Metal recommends at most) are in bytes; `virtual` names the hypervisor or is
    empty; `device` is MLX's default device as chosen here ("cpu", "metal", "cuda"), `gpu` the name of the GPU that
    it uses or that it was kept from, or empty; `why` says why that device. `model` is a Mac's, such as "Mac14,12";
    numbers of cores are 0 where nobody tells; `wheel` is what MLX's wheel was built for.
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
    model: str = ""
    performance_cores: int = 0
    efficiency_cores: int = 0
    gpu_cores: int = 0
    working_set: int = 0
    os_build: str = ""
    wheel: str = ""

    @property
    def key(self) -> str:
        """A name for the machine in the results, made from hardware: the same after a reboot or on a runner alike.

        It changes with what makes results incomparable: chip, cores, memory, virtualisation, device, and on Metal
        the GPU's cores, since one chip is sold with several. Not with the host's name, the runner's image, the OS
        or the MLX version (asv keeps that in the environment's name).
        """
        parts = [self.os, self.arch, self.chip, f"{self.cores}c", f"{_rounded_gib(self.memory)}g"]
        if self.virtual:
            parts.append(self.virtual)
        parts.append(self.gpu if self.device in ("metal", "cuda") and self.gpu not in self.chip else self.device)
        if self.device == "metal" and self.gpu_cores:
            parts.append(f"{self.gpu_cores}gpu")
        return "-".join(_slug(part) for part in parts if part)

    def as_dict(self) -> dict[str, object]:
        """All facts and the key, for a record."""
        return {"key": self.key, **asdict(self)}


@dataclass(frozen=True)
class State:
    """What a machine does beside the measurement; None where the system does not tell.

    `load` is the one-minute load average per core, `governor` Linux's CPU frequency governor, `power` "ac" or
    "battery", `power_mode` macOS's "automatic", "low" or "high", `thermal` its thermal pressure (a name of
    `macos.THERMAL`), `memory_pressure` "normal", "warn" or "critical", `swap_used` bytes, `sleep_minutes` after
    which it sleeps, 0 for never. `doubts` says what could not be found out, and why.
    """

    load: float | None
    governor: str | None = None
    power: str | None = None
    power_mode: str | None = None
    thermal: str | None = None
    memory_pressure: str | None = None
    swap_used: int | None = None
    sleep_minutes: int | None = None
    doubts: tuple[str, ...] = field(default=())

    def warnings(self) -> list[str]:
        """What about this state makes measurements doubtful, and what to do about it."""
        found = []
        if self.load is not None and self.load > 0.5:
            found.append(f"load is {self.load:.2f} per core before the run: stop what else runs here")
        if self.governor not in (None, "performance", "schedutil"):
            found.append(f"the CPU governor is {self.governor!r}: 'performance' measures more evenly")
        if self.power == "battery":
            found.append("this machine runs on battery: plug it in")
        if self.power_mode == "low":
            found.append("low power mode is on: turn it off")
        if self.thermal not in (None, "nominal"):
            found.append(f"thermal pressure is {self.thermal}: let it cool down")
        if self.memory_pressure not in (None, "normal"):
            found.append(f"memory pressure is {self.memory_pressure!r}: close what else runs here")
        return found


def this_machine(device: str = "default") -> Machine:
    """The machine we run on; `device` "cpu" or "gpu" overrides MLX's default.

    Raises ValueError for another device, for "gpu" where MLX has none, and on a Mac that does not tell what its
    name is made of.
    """
    if device not in ("default", "cpu", "gpu"):
        raise ValueError(f"device: got {device!r}, expected 'default', 'cpu' or 'gpu'")
    found = mlx.installed()
    if device == "gpu" and not found.gpu:
        why = f" ({found.doubt})" if found.doubt else ""
        raise ValueError(f"device: got 'gpu', but MLX sees no GPU here{why}; expected 'cpu' or 'default'")
    chosen, reason = choose_device(device, found.backend, found.gpu)
    if found.doubt and device == "default":
        reason = found.doubt
    common: dict[str, Any] = {
        "arch": platform.machine(),
        "device": chosen,
        "gpu": found.gpu,
        "why": reason,
        "mlx": found.version,
        "working_set": found.working_set,
        "wheel": mlx.wheel_tag() if found.version else "",
    }
    if platform.system() == "Darwin":
        told = asdict(macos.hardware(ask))
        # platform.mac_ver() is wrong on a Python that was built with an older SDK (python/cpython#135675).
        told["os_version"] = told["os_version"] or platform.mac_ver()[0]
        return Machine(os="macos", gpu_cores=_gpu_cores(chosen, found.gpu), **told, **common)
    return Machine(
        os=platform.system().lower(),
        os_version=platform.release(),
        chip=linux.parse_cpuinfo(linux.read("/proc/cpuinfo")) or platform.processor() or "unknown",
        cores=os.cpu_count() or 1,
        memory=linux.parse_meminfo(linux.read("/proc/meminfo")),
        virtual=linux.hypervisor(linux.read),
        **common,
    )


def _gpu_cores(device: str, gpu: str) -> int:
    """A Mac's GPU cores; 0 for a virtual GPU, and where the CPU is measured and nobody tells.

    Raises ValueError where Metal is measured and nobody tells: two sizes of one chip would share a name.
    """
    given = os.environ.get(GPU_CORES_VARIABLE, "")
    if given:
        if not given.isdecimal() or int(given) < 1:
            raise ValueError(f"{GPU_CORES_VARIABLE}: got {given!r}, expected the number of the GPU's cores")
        return int(given)
    if not gpu or PARAVIRTUAL in gpu.lower():
        return 0
    cores, why = macos.gpu_cores(ask)
    if not cores and device == "metal":
        raise ValueError(
            f"this Mac does not tell how many cores its GPU has ({why}), and one chip is sold with several; set "
            f"{GPU_CORES_VARIABLE} to the number that About This Mac shows"
        )
    return cores


def this_state() -> State:
    """The state of the machine now."""
    try:
        load: float | None = round(os.getloadavg()[0] / (os.cpu_count() or 1), 3)
    except OSError:
        load = None
    if platform.system() == "Darwin":
        return State(load, **asdict(macos.condition(ask, virtual=_is_virtual_mac())))
    return State(load, linux.governor(), linux.power(Path("/sys/class/power_supply")))


def _is_virtual_mac() -> bool:
    try:
        return bool(macos.hardware(ask).virtual)
    except ValueError:
        return False


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


def _rounded_gib(memory: int) -> int:
    """GiB as sold: the kernel keeps a share that differs from boot to boot."""
    gib = memory / GIB
    step = 1 if gib <= 4 else 2 if gib <= 32 else 8
    return max(1, -(-int(gib + 0.999) // step) * step)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "_", text.lower()).strip("_.")
