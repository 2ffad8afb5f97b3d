"""Stand-ins for the commands that a Mac has, with what real ones printed, for tests and `make rehearse`.

No Mac was at hand: each text is put together from public reports, and the lines of one Mac come from several.

* `sysctl` of a hosted runner: "Apple M1 (Virtual)", VirtualMac2,1, 3 cores, 7 GB (AsahiLinux/m1n1#383), macOS
15.7.9 with
  build 24G830 (an Xcode listing of such a runner, Live-yum/iotools). A virtual machine has no second performance
  level, so sysctl prints the other values, complains of an "unknown oid" and ends with 1, as it does for any name
  that is not there (spack/spack#30077 has the message).
* M2 Pro: Mac14,12, 8 performance and 4 efficiency cores, 16 or 19 GPU cores (smpanaro/coreml-llm-cli#2; sysctl
lines as
  in the tests of dev.gmitch215.drift). M4 Max: Mac16,9, 12 and 4 (devMEremenko/XcodeBenchmark#664), 40 GPU cores
  (philipturner/applegpuinfo#12), macOS 26.6.2 with build 25G83 (a published `sysctl` of an M2 Max).
* `ioreg -rc AGXAccelerator -d1`: the entry's head, "model" and "gpu-core-count", as printed on an M4; an empty
answer in a
  virtual machine, whose GPU is another driver's. `system_profiler`: "sppci_cores".
* `notifyutil -g com.apple.system.thermalpressurelevel` prints the key and the level: 0 nominal, 1 moderate, 2
heavy,
  3 trapping, 4 sleeping. `pmset -g therm` prints the three notes of exelban/stats#749 whatever happens.
* `pmset -g`: Macs with a high power mode say powermode (0 automatic, 1 low, 2 high:
alfredapp/low-power-mode-workflow#4),
  others lowpowermode; the sleep line may say what prevents it
  (5T33Z0/Gigabyte-Z490-Vision-G-Hackintosh-OpenCore#31).
* `vm.swapusage` and `kern.memorystatus_vm_pressure_level` (1 normal, 2 warn, 4 critical) as public tests record
them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

THERMAL_KEY = "com.apple.system.thermalpressurelevel"
THERM_NOTES = (
    "Note: No thermal warning level has been recorded\n"
    "Note: No performance warning level has been recorded\n"
    "Note: No CPU power status has been recorded\n"
)
ON_AC = "Now drawing from 'AC Power'\n"
ON_BATTERY = (
    "Now drawing from 'Battery Power'\n"
    " -InternalBattery-0 (id=21299299)\t71%; discharging; 4:11 remaining present: true\n"
)


def settings(mode: str = "lowpowermode         0", sleep: str = "0") -> str:
    """What `pmset -g` prints."""
    return (
        "System-wide power settings:\nCurrently in use:\n standby              0\n Sleep On Power Button 1\n"
        " womp                 1\n autorestart          0\n hibernatefile        /var/vm/sleepimage\n"
        " powernap             0\n networkoversleep     0\n disksleep            0\n"
        f" sleep                {sleep}\n hibernatemode        0\n ttyskeepawake        1\n"
        f" displaysleep         10\n tcpkeepalive         1\n {mode}\n"
    )


def accelerator(name: str, model: str, cores: int) -> str:
    """What `ioreg -rc AGXAccelerator -d1` prints of a GPU."""
    return (
        f"+-o {name}  <class {name}, id 0x10000039c, registered, matched, active, busy 0 (309 ms), retain 59>\n"
        '    {\n      "IOMatchedAtBoot" = Yes\n      "PerformanceStatistics" = {"In use system memory (driver)"=0,'
        '"Alloc system memory"=2181693440,"Tiler Utilization %"=0,"recoveryCount"=0,"Device Utilization %"=0}\n'
        f'      "model" = "{model}"\n      "gpu-core-count" = {cores}\n    }}\n\n'
    )


def displays(model: str, cores: int) -> str:
    """What `system_profiler -xml SPDisplaysDataType` prints, cut to what is read."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<plist version="1.0"><array><dict><key>_items</key><array><dict>'
        f"<key>_name</key><string>{model}</string><key>sppci_model</key><string>{model}</string>"
        f"<key>sppci_cores</key><string>{cores}</string></dict></array></dict></array></plist>\n"
    )


@dataclass(frozen=True)
class Mac:
    """One Mac: sysctl's values, what the other commands print by their arguments, and what MLX says of its GPU."""

    sysctl: Mapping[str, str]
    gpu: str
    working_set: int
    prints: Mapping[str, str] = field(default_factory=dict)


def _sysctl(chip: str, memory: int, model: str, levels: list[int], version: str, build: str) -> dict[str, str]:
    cores = sum(levels)
    return {
        "machdep.cpu.brand_string": chip,
        "hw.ncpu": str(cores),
        "hw.physicalcpu": str(cores),
        "hw.memsize": str(memory),
        "hw.model": model,
        **{f"hw.perflevel{number}.physicalcpu": str(count) for number, count in enumerate(levels)},
        "kern.hv_vmm_present": "1" if "Virtual" in chip else "0",
        "kern.osproductversion": version,
        "kern.osversion": build,
        "kern.memorystatus_vm_pressure_level": "1",
        "vm.swapusage": "total = 0.00M  used = 0.00M  free = 0.00M  (encrypted)",
    }


_COMMON = {
    "pmset -g": settings(),
    "pmset -g batt": ON_AC,
    "pmset -g therm": THERM_NOTES,
    f"notifyutil -g {THERMAL_KEY}": f"{THERMAL_KEY} 0\n",
    "ioreg -rc AGXAccelerator -d1": "",
    "mdutil -s /": "/:\n\tIndexing disabled. \n",
    "tmutil status": 'Backup session status:\n{\n    ClientID = "com.apple.backupd";\n    Running = 0;\n}\n',
}

MACS: dict[str, Mac] = {
    "m1-virtual": Mac(
        _sysctl("Apple M1 (Virtual)", 7516192768, "VirtualMac2,1", [3], "15.7.9", "24G830"),
        "Apple Paravirtual device",
        5010795180,
        _COMMON,
    ),
    "m2-pro": Mac(
        _sysctl("Apple M2 Pro", 34359738368, "Mac14,12", [8, 4], "15.7.9", "24G830"),
        "Apple M2 Pro",
        22906503168,
        {**_COMMON, "ioreg -rc AGXAccelerator -d1": accelerator("AGXAcceleratorG14X", "Apple M2 Pro", 19)},
    ),
    "m4-max": Mac(
        _sysctl("Apple M4 Max", 137438953472, "Mac16,9", [12, 4], "26.6.2", "25G83"),
        "Apple M4 Max",
        115448725504,
        {
            **_COMMON,
            "pmset -g": settings("powermode            2"),
            "ioreg -rc AGXAccelerator -d1": accelerator("AGXAcceleratorG16X", "Apple M4 Max", 40),
        },
    ),
}

# Every program answers from the Mac's table, as its real one does for a name or an argument that it does not know.
_PROGRAM = """#!{python} -IS
import json, os, sys, time
mac = json.load(open({table!r}))
name = os.path.basename(sys.argv[0])
if name == "caffeinate":
    time.sleep(3600)
if name == "sysctl":
    status = 0
    for wanted in sys.argv[1:]:
        if wanted in mac["sysctl"]:
            print(wanted + ": " + mac["sysctl"][wanted], flush=True)
        else:
            print("sysctl: unknown oid '" + wanted + "'", file=sys.stderr, flush=True)
            status = 1
    sys.exit(status)
key = " ".join([name, *sys.argv[1:]])
if key not in mac["prints"]:
    sys.exit(name + ": usage")
sys.stdout.write(mac["prints"][key])
"""
PROGRAMS = ("sysctl", "ioreg", "pmset", "notifyutil", "system_profiler", "mdutil", "tmutil", "caffeinate")

# Makes a Python here believe that it runs on that Mac: the platform's name, and the GPU that MLX sees.
_SITE = '''"""Written by tools/macs.py: this process takes itself for one on a Mac."""
import importlib.machinery, json, os, platform, sys

mac = json.load(open({table!r}))
# The load is this machine's, on which a rehearsal may have a busy neighbour.
os.getloadavg = lambda: (0.21, 0.25, 0.24)
platform.system = lambda: "Darwin"
platform.machine = lambda: "arm64"
# What a Python that was built with an older SDK says on macOS 26 (python/cpython#135675).
platform.mac_ver = lambda *a, **k: ("16.0", ("", "", ""), "arm64")


def patch(mx):
    import types
    info = {{"device_name": mac["gpu"], "memory_size": int(mac["sysctl"]["hw.memsize"]),
            "max_recommended_working_set_size": mac["working_set"]}}
    mx.metal = types.SimpleNamespace(is_available=lambda: True, device_info=lambda: info)
    mx.device_info = lambda *a: info


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "mlx.core":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (run(module), patch(module))
        return spec


sys.meta_path.insert(0, Finder)
'''


def write_commands(folder: Path, mac: Mac, without: tuple[str, ...] = ()) -> Path:
    """Write the programs of a Mac into `folder`, which then goes first on PATH; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "mac.json"
    facts = {"sysctl": dict(mac.sysctl), "prints": dict(mac.prints)}
    table.write_text(json.dumps({**facts, "gpu": mac.gpu, "working_set": mac.working_set}), encoding="utf-8")
    for name in PROGRAMS:
        if name not in without:
            program = folder / name
            program.write_text(_PROGRAM.format(python=sys.executable, table=str(table)), encoding="utf-8")
            program.chmod(0o755)
    return folder


def write_site(folder: Path, table: Path) -> Path:
    """Write the sitecustomize that makes Python take itself for that Mac; `folder` goes on PYTHONPATH."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sitecustomize.py").write_text(_SITE.format(table=str(table)), encoding="utf-8")
    return folder
