"""Macs by what their commands print: names, states, and every way in which a command may not answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlxcache.runner import facts, fitness
from mlxcache.runner.changes import device_for
from mlxcache.runner.facts import Machine, State
from mlxcache.runner.system import macos, mlx
from mlxcache.runner.system.commands import Answer, ask
from mlxcache.runner.system.mlx import Mlx
from mlxcache.runner.system.watch import Watch
from tools.macs import (
    MACS,
    ON_BATTERY,
    THERM_NOTES,
    THERMAL_KEY,
    Mac,
    accelerator,
    displays,
    settings,
    write_commands,
    write_site,
)

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = "ioreg -rc AGXAccelerator -d1"


def prints(mac: Mac, **changes: str) -> Mac:
    """The Mac with other outputs; a command's key has "__" for each space and "_" for "-"."""
    known = {"thermal": f"notifyutil -g {THERMAL_KEY}", "settings": "pmset -g", "source": "pmset -g batt"}
    known |= {"gpu": REGISTRY, "displays": "system_profiler -xml SPDisplaysDataType"}
    known |= {"spotlight": "mdutil -s /", "backup": "tmutil status"}
    return replace(mac, prints={**mac.prints, **{known[name]: text for name, text in changes.items()}})


def knows(mac: Mac, **values: str | None) -> Mac:
    """The Mac with other sysctl values ("__" for "."); None takes one away."""
    table = {**mac.sysctl, **{name.replace("__", "."): value for name, value in values.items()}}
    return replace(mac, sysctl={name: value for name, value in table.items() if value is not None})


@pytest.fixture
def on_mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a Mac's commands first on PATH and lets this process take itself for one on it."""

    def become(mac: Mac, without: tuple[str, ...] = (), found: Mlx | None = None) -> None:
        folder = write_commands(tmp_path / "mac", mac, without)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setattr("mlxcache.runner.system.commands._USUAL", ())
        monkeypatch.setattr("platform.system", lambda: "Darwin")
        monkeypatch.setattr("platform.machine", lambda: "arm64")
        monkeypatch.setattr("platform.mac_ver", lambda: ("16.0", ("", "", ""), "arm64"))
        there = Mlx("0.32.4", "metal", mac.gpu, mac.working_set)
        monkeypatch.setattr(mlx, "installed", lambda: there if found is None else found)

    return become


@pytest.mark.parametrize(
    ("name", "key", "cores", "os_version"),
    [
        ("m1-virtual", "macos-arm64-apple_m1_virtual-3c-8g-vm-cpu", (3, 0, 0), "15.7.9"),
        ("m2-pro", "macos-arm64-apple_m2_pro-12c-32g-metal-19gpu", (8, 4, 19), "15.7.9"),
        ("m4-max", "macos-arm64-apple_m4_max-16c-128g-metal-40gpu", (12, 4, 40), "26.6.2"),
    ],
)
def test_three_macs_by_name(
    name: str, key: str, cores: tuple[int, int, int], os_version: str, on_mac: Any
) -> None:
    """Though sysctl ends with 1 on the hosted runner, and Python takes macOS 26 for 16.0."""
    on_mac(MACS[name])
    machine = facts.this_machine()
    assert machine.key == key
    assert (machine.performance_cores, machine.efficiency_cores, machine.gpu_cores) == cores
    assert machine.os_version == os_version
    assert machine.model == MACS[name].sysctl["hw.model"]


def test_two_sizes_of_one_gpu_do_not_share_a_name(on_mac: Any) -> None:
    """An M2 Pro is sold with 16 and with 19 GPU cores; measured on the CPU they are one machine."""
    keys = []
    for cores in (16, 19):
        on_mac(prints(MACS["m2-pro"], gpu=accelerator("AGXAcceleratorG14X", "Apple M2 Pro", cores)))
        keys += [facts.this_machine().key, facts.this_machine("cpu").key]
    assert len(set(keys)) == 3
    assert keys[1] == keys[3]


def test_the_gpus_size_is_asked_for_twice_and_then_demanded(on_mac: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """ioreg, then system_profiler, then the user: never a name without it. The CPU can do without."""
    silent = prints(MACS["m2-pro"], gpu="")
    on_mac(prints(silent, displays=displays("Apple M2 Pro", 19)))
    assert facts.this_machine().gpu_cores == 19
    on_mac(silent)
    with pytest.raises(ValueError, match=r"does not tell how many cores its GPU has .*set MLXCACHE_GPU_CORES"):
        facts.this_machine()
    assert facts.this_machine("cpu").gpu_cores == 0
    monkeypatch.setenv("MLXCACHE_GPU_CORES", "19")
    assert facts.this_machine().key.endswith("-metal-19gpu")
    monkeypatch.setenv("MLXCACHE_GPU_CORES", "many")
    with pytest.raises(ValueError, match="MLXCACHE_GPU_CORES: got 'many'"):
        facts.this_machine()


@pytest.mark.parametrize("lacks", ["machdep__cpu__brand_string", "hw__memsize", "hw__physicalcpu"])
def test_a_mac_without_a_name_is_refused(lacks: str, on_mac: Any) -> None:
    """Never "unknown-1c-1g"."""
    on_mac(knows(MACS["m1-virtual"], **{lacks: None}))
    with pytest.raises(ValueError, match=f"does not tell {lacks.replace('__', '.')} .*unknown oid"):
        facts.this_machine()


@pytest.mark.parametrize("memory", ["lots", "", "-1"])
def test_a_value_that_is_no_number_is_no_value(memory: str, on_mac: Any) -> None:
    """What another system might print there."""
    on_mac(knows(MACS["m2-pro"], hw__memsize=memory))
    with pytest.raises(ValueError, match=r"does not tell hw\.memsize"):
        facts.this_machine()


def test_a_virtual_mac_is_known_by_its_model_too(on_mac: Any) -> None:
    """Where the kernel's variable is not there."""
    on_mac(knows(MACS["m1-virtual"], kern__hv_vmm_present=None))
    assert facts.this_machine().virtual == "vm"


def test_a_path_without_sbin_is_no_reason_to_know_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """cron and launchd start programs with a short PATH; the usual folders are looked into after it."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert ask("uname").text.strip() == os.uname().sysname


def test_a_command_that_fails_hangs_or_is_missing_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it printed is kept, and what was wrong is said."""
    program = tmp_path / "tool"
    program.write_text(
        '#!/bin/sh\necho known: 1\necho "tool: unknown oid" >&2\n[ "$1" != hang ] || sleep 60\nexit 3\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert ask("tool") == Answer("known: 1\n", "tool ended with status 3: tool: unknown oid")
    assert ask("no-such-tool") == Answer("", "no-such-tool is missing")
    began = time.monotonic()
    hung = ask("tool", "hang", patience=0.5)
    assert hung.trouble == "tool did not answer within 0.5 s"
    assert time.monotonic() - began < 30
    program.write_bytes(b"\x7fELF nonsense")
    assert "tool cannot be run" in ask("tool").trouble


@pytest.mark.parametrize(("level", "name"), list(macos.THERMAL.items()))
def test_thermal_pressure_is_what_notifyutil_says(level: int, name: str, on_mac: Any) -> None:
    """pmset -g therm says that nothing was recorded on a Mac that throttles; nobody asks it."""
    mac = prints(MACS["m4-max"], thermal=f"{THERMAL_KEY} {level}\n")
    assert mac.prints["pmset -g therm"] == THERM_NOTES
    on_mac(mac)
    state = facts.this_state()
    assert state.thermal == name
    assert any("thermal pressure" in warning for warning in state.warnings()) == (level > 0)


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("lowpowermode         0", "automatic"),
        ("lowpowermode         1", "low"),
        ("powermode            1", "low"),
        ("powermode            2", "high"),
    ],
)
def test_the_power_mode_has_two_names(mode: str, name: str, on_mac: Any) -> None:
    """Macs with a high mode print powermode, the others lowpowermode."""
    on_mac(prints(MACS["m2-pro"], settings=settings(mode)))
    state = facts.this_state()
    assert state.power_mode == name
    assert any("low power mode" in warning for warning in state.warnings()) == (name == "low")


def test_a_mac_in_a_bad_state_says_all_of_it(on_mac: Any) -> None:
    """Battery, memory, swap, sleep, Spotlight and Time Machine, each with what to do."""
    mac = prints(
        MACS["m2-pro"],
        source=ON_BATTERY,
        settings=settings(sleep="1 (sleep prevented by powerd)"),
        spotlight="/:\n\tIndexing enabled. \n",
        backup="Backup session status:\n{\n    Running = 1;\n}\n",
    )
    swap = "total = 23552.00M  used = 23181,62M  free = 370.38M  (encrypted)"
    on_mac(knows(mac, kern__memorystatus_vm_pressure_level="4", vm__swapusage=swap))
    state = replace(facts.this_state(), load=0.0)
    found = fitness.complaints(facts.this_machine(), state)
    words = ("runs on battery", "memory pressure is 'critical'", "sleeps after 1 min", "Spotlight", "Time Machine")
    assert [any(word in line for line in found) for word in (*words, "23,182 MiB are swapped out")] == [True] * 6
    assert len(found) == 6


def test_a_mac_in_a_good_state_says_nothing(on_mac: Any) -> None:
    """All three of them, hosted or not."""
    for mac in MACS.values():
        on_mac(mac)
        assert fitness.complaints(facts.this_machine(), replace(facts.this_state(), load=0.0)) == []


def test_what_is_not_told_is_said_once_and_never_guessed(on_mac: Any) -> None:
    """Commands that are missing or say something new: None, with the reason, and no traceback."""
    on_mac(MACS["m4-max"], without=("pmset", "notifyutil"))
    state = facts.this_state()
    assert (state.power, state.power_mode, state.thermal) == (None, None, None)
    assert len(state.doubts) == len(set(state.doubts)) == 3
    assert "thermal pressure is not known: notifyutil is missing" in state.doubts
    odd = prints(
        MACS["m4-max"],
        thermal=f"{THERMAL_KEY} 9\n",
        source="Stromversorgung: Netzteil\n",
        settings=settings("powermode            7"),
    )
    on_mac(knows(odd, kern__memorystatus_vm_pressure_level="3"))
    state = facts.this_state()
    assert (state.power, state.power_mode, state.thermal, state.memory_pressure) == (None, None, None, None)
    assert {doubt.partition(":")[0] for doubt in state.doubts} == {
        "thermal pressure level 9 has no name here",
        "memory pressure level 3 has no name here",
        "the power source is not known",
        "power mode 7 has no name here",
    }


def test_a_hosted_runner_is_not_asked_how_hot_it_is(on_mac: Any) -> None:
    """Its level is 0 whatever the host does."""
    on_mac(MACS["m1-virtual"])
    assert facts.this_state().thermal is None
    assert facts.this_state().doubts == ()


@pytest.mark.parametrize("text", ["", "<plist><array/></plist>", "no xml", "<?xml version='1.0'?><plist><array>"])
def test_displays_that_are_no_displays_have_no_cores(text: str) -> None:
    """Whatever system_profiler prints."""
    assert macos.parse_display_cores(text) == 0


def test_a_mac_without_metal_measures_its_cpu_and_says_so(on_mac: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLX raises there, or ends its whole process: a reason, and MLXCACHE_DEVICE=cpu in the environment's name."""
    monkeypatch.setattr("mlxcache.runner.system.mlx.sys.executable", sys.executable)
    on_mac(MACS["m2-pro"], found=Mlx("0.32.4", doubt="MLX finds no GPU: [metal::load_device] No Metal device"))
    machine = facts.this_machine()
    assert machine.key.endswith("-cpu")
    assert "No Metal device" in machine.why
    assert device_for(machine) == "cpu"
    with pytest.raises(ValueError, match=r"MLX sees no GPU here .*No Metal device"):
        facts.this_machine("gpu")
    assert any("No Metal device" in line for line in fitness.complaints(machine, State(0.0)))


def test_mlx_that_raises_or_dies_leaves_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is asked in a process of its own, since some releases end it."""
    import mlx.core as mx

    def raises() -> dict[str, object]:
        raise RuntimeError("[metal::load_device] No Metal device available\nmore")

    class Metal:
        is_available = staticmethod(lambda: True)
        device_info = staticmethod(raises)

    monkeypatch.setattr(mx, "metal", Metal)
    monkeypatch.setattr(mx, "device_info", raises)
    found = mlx.asked_here()
    assert (found.gpu, found.doubt) == ("", "MLX finds no GPU: [metal::load_device] No Metal device available")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho NSRangeException >&2\nkill -ABRT $$\n")
    python.chmod(0o755)
    monkeypatch.setattr("mlxcache.runner.system.mlx.sys.executable", str(python))
    found = mlx.installed()
    assert found.version
    assert "ended with status -6 when asked for a GPU: NSRangeException" in found.doubt


def test_mlx_before_0_30_is_asked_under_its_old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """mx.metal.device_info, and no mx.device_info."""
    import mlx.core as mx

    class Metal:
        is_available = staticmethod(lambda: True)
        device_info = staticmethod(
            lambda: {"device_name": "Apple M2", "max_recommended_working_set_size": 5 * 2**30}
        )

    monkeypatch.setattr(mx, "metal", Metal)
    monkeypatch.delattr(mx, "device_info")
    found = mlx.asked_here()
    assert (found.backend, found.gpu, found.working_set) == ("metal", "Apple M2", 5 * 2**30)


def run_on(mac: Mac, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of ours in a process that takes itself for one on that Mac, through all that is real."""
    commands = write_commands(tmp_path / "mac", mac)
    site = write_site(tmp_path / "site", commands / "mac.json")
    return subprocess.run(
        [sys.executable, "-m", "mlxcache.cli", *arguments],
        env={**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": f"{site}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_on_three_macs(tmp_path: Path) -> None:
    """`mlxcache machine` from the outside: text, JSON, the key alone, and --check."""
    done = run_on(MACS["m4-max"], tmp_path, "machine")
    assert "GPU      Apple M4 Max, 40 cores, at most 107.5 GiB" in done.stdout, done
    assert "system   macos 26.6.2, 25G83, arm64, Mac16,9" in done.stdout
    assert "16 cores (12 performance and 4 efficiency), 128.0 GiB" in done.stdout
    done = run_on(MACS["m1-virtual"], tmp_path, "machine", "--format", "json")
    told = json.loads(done.stdout)
    assert (told["virtual"], told["device"], told["state"]["memory_pressure"]) == ("vm", "cpu", "normal")
    hot = prints(MACS["m2-pro"], thermal=f"{THERMAL_KEY} 2\n")
    done = run_on(hot, tmp_path, "machine", "--check", "--format", "key")
    assert (done.returncode, done.stdout) == (1, "macos-arm64-apple_m2_pro-12c-32g-metal-19gpu\n")
    assert "warning  thermal pressure is heavy: let it cool down" in done.stderr
    done = run_on(knows(hot, machdep__cpu__brand_string=None), tmp_path, "machine")
    assert (done.returncode, done.stdout) == (2, "")
    assert "mlxcache machine: this Mac does not tell machdep.cpu.brand_string" in done.stderr


def test_a_run_is_watched_for_heat_and_kept_awake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst pressure of all looks counts, also where it was nominal before and after."""
    monkeypatch.setenv("PATH", f"{write_commands(tmp_path / 'mac', MACS['m2-pro'])}:/bin:/usr/bin")
    levels = iter(["0", "2", "1"])

    def answer(*command: str) -> Answer:
        return Answer(f"{THERMAL_KEY} {next(levels, '0')}\n")

    with Watch("macos", "", answer, every=0.01) as watch:
        assert watch._awake is not None
        assert watch._awake.poll() is None
        for _ in range(500):
            if watch.worst == "heavy":
                break
            time.sleep(0.01)
    assert (watch.worst, watch.doubts) == ("heavy", [])
    assert watch._awake.poll() is not None
    monkeypatch.setenv("PATH", "/nowhere")
    with Watch("macos", "", lambda *command: Answer("", "notifyutil is missing"), every=0.01) as watch:
        time.sleep(0.05)
    assert watch.worst is None
    assert watch.doubts == [
        "this Mac may fall asleep: caffeinate cannot be run (No such file or directory)",
        "thermal pressure is not known: notifyutil is missing",
    ]
    with Watch("linux", "") as watch:
        pass
    assert (watch.worst, watch.doubts) == (None, [])


@pytest.mark.parametrize(
    ("machine", "asked", "device"),
    [
        ({"device": "cpu", "gpu": "Apple Paravirtual device"}, "default", "cpu"),
        ({"device": "metal", "gpu": "Apple M2 Pro"}, "default", ""),
        ({"device": "metal", "gpu": "Apple M2 Pro"}, "cpu", "cpu"),
        ({"device": "cpu", "gpu": "", "mlx": ""}, "default", ""),
        ({"os": "linux", "device": "cpu", "gpu": ""}, "default", ""),
    ],
)
def test_bench_and_compare_name_the_device_alike(machine: dict[str, str], asked: str, device: str) -> None:
    """A project without MLX, and a machine that never had a GPU, keep the configuration's environments."""
    told = {"os": "macos", "mlx": "0.32.4", "why": "", "chip": "Apple M2 Pro", "virtual": "", **machine}
    made = Machine(os_version="15.7", arch="arm64", cores=12, memory=2**35, **told)
    assert device_for(made, asked) == device
