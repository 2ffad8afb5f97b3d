"""Running asv quietly: the machine's facts, the settings, what is kept when a run ends early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from mlxcache.runner import facts
from mlxcache.runner.asv_machine import asv_fields, register
from mlxcache.runner.asv_main import replacing
from mlxcache.runner.changes import Changes
from mlxcache.runner.facts import Machine, State, choose_device
from mlxcache.runner.record import append_record, run_record
from mlxcache.runner.settings import quiet_settings
from mlxcache.runner.summary import _noise
from mlxcache.runner.system import linux, mlx
from mlxcache.runner.system.mlx import Mlx

CPU = Machine(
    "linux", "6.1", "x86_64", "AMD EPYC 7763", 4, 16 * 2**30, "vm", "cpu", "", "MLX sees no GPU", "0.32.4"
)
M1 = Machine("macos", "15.1", "arm64", "Apple M1", 8, 16 * 2**30, "", "metal", "Apple M1", "default", "0.32.4")

XEON = "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Intel(R) Xeon(R) Processor\n"
RYZEN = "model\t\t: 33\nmodel name\t: AMD Ryzen 9 5950X 16-Core Processor\nflags\t\t: fpu vme\n"
GRAVITON = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"


def test_the_key_names_hardware_and_nothing_that_changes_by_itself() -> None:
    """Host, OS version and MLX release are not in the key; chip, cores, memory, virtualisation and device are."""
    assert CPU.key == "linux-x86_64-amd_epyc_7763-4c-16g-vm-cpu"
    assert M1.key == "macos-arm64-apple_m1-8c-16g-metal"
    for change in (
        {"os_version": "6.9"},
        {"mlx": "0.30.0"},
        {"why": "asked for"},
        {"memory": 16 * 2**30 - 400 * 2**20},
    ):
        assert Machine(**{**vars_of(CPU), **change}).key == CPU.key
    for change in (
        {"chip": "AMD EPYC 9354"},
        {"cores": 8},
        {"memory": 32 * 2**30},
        {"virtual": ""},
        {"arch": "arm64"},
    ):
        assert Machine(**{**vars_of(CPU), **change}).key != CPU.key


def vars_of(machine: Machine) -> dict[str, object]:
    """A machine's fields."""
    return {name: value for name, value in machine.as_dict().items() if name != "key"}


def test_devices_of_one_machine_have_keys_of_their_own() -> None:
    """CPU and GPU results of one machine never share a folder, and a GPU is named."""
    h200 = Machine(**{**vars_of(CPU), "device": "cuda", "gpu": "NVIDIA H200"})
    paravirtual = Machine(**{**vars_of(M1), "gpu": "Apple Paravirtual device"})
    keys = {CPU.key, h200.key, M1.key, paravirtual.key, Machine(**{**vars_of(M1), "device": "cpu"}).key}
    assert len(keys) == 5
    assert h200.key.endswith("-nvidia_h200")


@pytest.mark.parametrize(
    ("asked", "backend", "gpu", "device"),
    [
        ("default", "", "", "cpu"),
        ("default", "metal", "Apple M2", "metal"),
        ("default", "cuda", "NVIDIA H200", "cuda"),
        ("cpu", "metal", "Apple M2", "cpu"),
        ("default", "metal", "Apple Paravirtual device", "cpu"),
        ("gpu", "metal", "Apple Paravirtual device", "metal"),
    ],
)
def test_a_paravirtual_gpu_is_used_only_when_asked_for(asked: str, backend: str, gpu: str, device: str) -> None:
    """The device follows MLX's default, except for a virtual machine's GPU; the reason is always told."""
    chosen, why = choose_device(asked, backend, gpu)
    assert (chosen, bool(why)) == (device, True)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for a GPU on a machine without one is an error that says so; so is an unknown device."""
    monkeypatch.setattr(mlx, "installed", lambda: Mlx("0.32.4"))
    with pytest.raises(ValueError, match="device: got 'gpu', but MLX sees no GPU"):
        facts.this_machine("gpu")
    with pytest.raises(ValueError, match="device: got 'tpu', expected 'default', 'cpu' or 'gpu'"):
        facts.this_machine("tpu")


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (linux.parse_cpuinfo, XEON, "Intel Xeon family6 model207"),
        (linux.parse_cpuinfo, RYZEN, "AMD Ryzen 9 5950X 16-Core"),
        (linux.parse_cpuinfo, GRAVITON, "arm-0x41-0xd40"),
        (linux.parse_cpuinfo, "", ""),
        (linux.parse_meminfo, "MemTotal:       24684092 kB\nMemFree: 1 kB\n", 24684092 * 1024),
        (linux.parse_meminfo, "", 0),
    ],
)
def test_what_system_tools_print_is_understood(parse, text: str, value: object) -> None:
    """Chips and memory; text that says nothing gives nothing. Macs are in runner/test_macs.py."""
    assert parse(text) == value


@pytest.mark.parametrize(
    ("files", "hypervisor"),
    [
        ({"/sys/class/dmi/id/sys_vendor": "QEMU\n"}, "qemu"),
        ({"/sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}, "amazon"),
        ({"/proc/cpuinfo": "flags\t\t: fpu hypervisor lahf_lm\n"}, "vm"),
        ({"/proc/cpuinfo": "flags\t\t: fpu lahf_lm\n"}, ""),
        ({}, ""),
    ],
)
def test_a_virtual_machine_is_recognised(files: dict[str, str], hypervisor: str) -> None:
    """By its vendor, or by the CPU flag where it hides."""
    assert linux.hypervisor(lambda path: files.get(path, "")) == hypervisor


def test_a_doubtful_state_warns_and_a_quiet_one_does_not() -> None:
    """Each warning says what is wrong and what to do; nothing known means nothing to warn of."""
    assert State(0.02, "performance", "ac", "automatic", "nominal").warnings() == []
    assert State(None).warnings() == []
    warnings = State(2.5, "powersave", "battery", "low", "heavy", "critical").warnings()
    words = ("load is 2.50", "powersave", "plug", "turn it off", "heavy", "critical")
    assert [any(word in w for w in warnings) for word in words] == [True] * 6


def test_the_load_that_the_run_made_is_not_called_load_before_it() -> None:
    """The state before the run warns; what rose during it is the heat."""
    empty = pd.DataFrame({"benchmark": [], "samples": [], "low": []})
    assert _noise(empty, State(0.1), None) == []
    assert _noise(empty, State(0.1, thermal="nominal"), "nominal") == []
    (line,) = _noise(empty, State(0.1, thermal="nominal"), "heavy")
    assert "thermal pressure rose to heavy during the run" in line
    (line,) = _noise(empty, State(2.0), None)
    assert "load is 2.00 per core before the run" in line


def test_settings_are_added_unless_the_user_gave_them() -> None:
    """Machine, samples, interleaving, pinning and forking by default; the command line overrides each."""
    names = [s.arguments[0] for s in quiet_settings(CPU, [], [0, 1, 2, 3])]
    assert names == ["--machine", "--record-samples", "--interleave-rounds", "--cpu-affinity", "--launch-method"]
    given = [
        "-m",
        "x",
        "--no-record-samples",
        "--no-interleave-rounds",
        "--cpu-affinity=1",
        "--launch-method",
        "spawn",
    ]
    assert quiet_settings(CPU, given, [0, 1]) == []


@pytest.mark.parametrize(("machine", "cpus"), [(M1, None), (replace(CPU, device="cuda"), [0, 1, 2, 3])])
def test_a_gpu_is_never_forked_or_pinned(machine: Machine, cpus: list[int] | None) -> None:
    """Forking after Metal or CUDA started crashes, the driver's threads need CPUs, macOS pins nothing."""
    names = [s.arguments[0] for s in quiet_settings(machine, [], cpus)]
    assert names == ["--machine", "--record-samples", "--interleave-rounds"]


def test_register_keeps_other_machines_and_other_projects_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is added; an entry that the user has under the host's name stays, and the answer says so."""
    monkeypatch.setattr("platform.node", lambda: "host")
    path = tmp_path / "machines.json"
    assert register(CPU, path)
    assert json.loads(path.read_text()) == {"version": 1, CPU.key: asv_fields(CPU), "host": asv_fields(CPU)}
    path.write_text(json.dumps({"version": 1, "host": {"machine": "host"}}))
    assert not register(CPU, path)
    assert json.loads(path.read_text()) == {"version": 1, CPU.key: asv_fields(CPU), "host": {"machine": "host"}}


@pytest.mark.parametrize("text", ["{", "[]", "12"])
def test_a_machine_file_that_is_not_asvs_is_left_alone(text: str, tmp_path: Path) -> None:
    """It is named in the error and not overwritten."""
    path = tmp_path / "machines.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="not a machine file of asv"):
        register(CPU, path)
    assert path.read_text() == text


def test_changes_reach_the_matrix_and_nothing_else() -> None:
    """Releases become environments without mlx-lm, CUDA installs without our mlx[cpu], the device is handed on."""
    config = SimpleNamespace(
        matrix={"req": {"pip+mlx": ["0.32.4"], "pip+mlx-lm": ["0.32.2"]}}, install_command=["old"]
    )
    Changes().apply(config)
    assert config.matrix == {"req": {"pip+mlx": ["0.32.4"], "pip+mlx-lm": ["0.32.2"]}}
    Changes(device="cpu", mlx=("0.28.0", "0.30.6"), cuda="13").apply(config)
    assert config.matrix == {
        "req": {"pip+mlx": ["0.28.0", "0.30.6"], "pip+mlx-cuda-13": ["0.28.0", "0.30.6"], "pip+numpy": [""]},
        "env_nobuild": {"MLXCACHE_DEVICE": ["cpu"]},
    }
    assert config.install_command == ["in-dir={env_dir} python -m pip install --no-deps {wheel_file}"]


def test_results_files_are_replaced_whole(tmp_path: Path) -> None:
    """A write that fails half way leaves the old file and nothing beside it."""
    path = tmp_path / "result.json"
    path.write_text("old")

    def half(name: str, data: str) -> None:
        Path(name).write_text(data[:3])
        if data == "broken":
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        replacing(half)(str(path), "broken")
    assert (path.read_text(), [p.name for p in tmp_path.iterdir()]) == ("old", ["result.json"])
    replacing(half)(str(path), "new")
    assert (path.read_text(), [p.name for p in tmp_path.iterdir()]) == ("new", ["result.json"])


def test_runs_are_appended_a_line_each(tmp_path: Path) -> None:
    """The machine's state before and after stands beside the results, one JSON object a run."""
    for status in (0, 2):
        append_record(
            tmp_path / "m", run_record(CPU, State(0.1), State(0.9), "heavy", ["run"], status, ["m/x.json"])
        )
    lines = [json.loads(line) for line in (tmp_path / "m" / "runs.jsonl").read_text().splitlines()]
    assert [
        (line["status"], line["before"]["load"], line["after"]["load"], line["thermal"]) for line in lines
    ] == [
        (0, 0.1, 0.9, "heavy"),
        (2, 0.1, 0.9, "heavy"),
    ]
    assert lines[0]["machine"]["key"] == CPU.key


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A tiny asv project in a repository of its own, measured with this interpreter."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("")
    (tmp_path / "benchmarks" / "suite.py").write_text(
        textwrap.dedent(
            """
            import time

            class A:
                rounds = 1
                repeat = 2
                number = 1
                warmup_time = 0
                def time_a(self):
                    pass

            class Z:
                rounds = 1
                repeat = 1
                number = 1
                warmup_time = 0
                def time_z(self):
                    time.sleep(120)
            """
        )
    )
    config = {"version": 1, "project": "tiny", "repo": ".", "branches": ["HEAD"], "environment_type": "existing"}
    folders = {"benchmark_dir": "benchmarks", "results_dir": "results", "env_dir": "env"}
    (tmp_path / "asv.conf.json").write_text(json.dumps({**config, **folders}))
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    return tmp_path


def _wait_for_the_first(folder: Path, running: subprocess.Popen[Any]) -> None:
    """Until the first benchmark of `project` is saved; fails if the run ends or a minute passes before."""
    for _ in range(600):
        done = [path for path in folder.glob("*.json") if path.name != "machine.json"]
        if done and "suite.A.time_a" in done[0].read_text():
            return
        assert running.poll() is None, "it ended by itself"
        time.sleep(0.1)
    pytest.fail("the first benchmark was not saved within a minute")


@pytest.mark.parametrize(("argument", "told"), [("--quick", 1.0), ("--show-stderr", 0.0)])
def test_a_quick_run_tells_the_benchmarks(project: Path, argument: str, told: float) -> None:
    """What asv's --quick cannot shorten reads MLXCACHE_QUICK."""
    suite = "import os\n\ndef track_quick():\n    return float(os.environ.get('MLXCACHE_QUICK') == '1')\n"
    (project / "benchmarks" / "suite.py").write_text(suite)
    register(CPU, project / ".asv-machine.json")
    command = [sys.executable, "-m", "mlxcache.runner.asv_main", "--config", str(project / "asv.conf.json"), "run"]
    head = subprocess.run(["git", "-C", str(project), "rev-parse", "HEAD"], capture_output=True, check=True)
    commit = head.stdout.decode().strip()
    command += ["--machine", CPU.key, "--set-commit-hash", commit, "--python", sys.executable, argument]
    environment = {**os.environ, "HOME": str(project)}
    subprocess.run(command, env=environment, cwd=project, check=True, capture_output=True)
    (kept,) = [path for path in (project / "results" / CPU.key).glob("*.json") if path.name != "machine.json"]
    assert json.loads(kept.read_text())["results"]["suite.track_quick"][0] == [told]


def test_a_terminated_bench_stops_asv_and_reports(project: Path) -> None:
    """SIGTERM to `mlxcache bench` alone ends what it started; what had finished is kept."""
    home = project / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[1])}
    head = subprocess.run(["git", "-C", str(project), "rev-parse", "HEAD"], capture_output=True, check=True)
    command = [sys.executable, "-m", "mlxcache.cli", "bench", "--python", sys.executable]
    command += ["--no-interleave-rounds", "--set-commit-hash", head.stdout.decode().strip()]
    folder = project / "results" / facts.this_machine().key
    with subprocess.Popen(
        command, env=environment, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        _wait_for_the_first(folder, running)
        running.terminate()
        _, said = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM
    assert "what had finished is kept" in said


def _end_session(leader: int) -> None:
    """Kill what is left of a session; not every system's pkill knows sessions."""
    listed = subprocess.run(["ps", "-A", "-o", "pid="], capture_output=True, text=True, check=True).stdout
    for pid in map(int, listed.split()):
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_keeps_what_had_finished(project: Path, how: signal.Signals) -> None:
    """Ctrl-C, kill and kill -9 in a run's second benchmark leave the first one's result, readable, in place."""
    home = project / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "MLXCACHE_ASV_CHANGES": "{}"}
    register(CPU, home / ".asv-machine.json")
    head = subprocess.run(
        ["git", "-C", str(project), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    command = [sys.executable, "-m", "mlxcache.runner.asv_main", "--config", str(project / "asv.conf.json"), "run"]
    command += ["--machine", CPU.key, "--set-commit-hash", head, "--record-samples", "--python", sys.executable]
    running = subprocess.Popen(
        command,
        env=environment,
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    folder = project / "results" / CPU.key
    try:
        _wait_for_the_first(folder, running)
        os.killpg(running.pid, how) if how is signal.SIGINT else running.send_signal(how)
        running.wait(timeout=60)
    finally:
        running.kill()
        running.wait()
        _end_session(running.pid)
    (kept,) = [path for path in folder.glob("*.json") if path.name != "machine.json"]
    results = json.loads(kept.read_text())["results"]
    assert list(results) == ["suite.A.time_a"]
    assert [path.name for path in folder.iterdir() if path.suffix == ".tmp"] == []
