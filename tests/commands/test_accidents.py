"""What no command expects: a full disk, a stream of ASCII, a mistake of ours, a signal at the wrong moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import mlxcache
from mlxcache.cli import COMMANDS, main
from tests.tiny_project import ROOT

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
PROGRAM = [sys.executable, "-m", "mlxcache"]


def test_the_version_is_told_by_the_command_and_by_the_module() -> None:
    """`mlxcache --version` and `python -m mlxcache --version`."""
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert done.stdout == f"mlxcache {mlxcache.__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_disk_under_standard_output_is_no_regression(form: str) -> None:
    """Status 2 and words, also where the text waits in the buffer until the end."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, "regressions", "--results", str(ROOT / "results"), "--bench", "control", "--format", form],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            check=False,
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_an_ascii_stream_gets_escapes_and_json_stays_json() -> None:
    """No UnicodeEncodeError, which would be status 1."""
    script = (
        "import sys, mlxcache.cli as cli, mlxcache.commands.doctor as doctor, json\n"
        "doctor.run = lambda args: print(json.dumps({'t': '10 µs 测试 😀'}, ensure_ascii=False)) or 0\n"
        "sys.exit(cli.main(['doctor', '.']))\n"
    )
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, check=True)
    assert json.loads(done.stdout.decode("ascii")) == {"t": "10 µs 测试 😀"}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("x"), "a mistake in mlxcache, not in your project: KeyError: 'x'"),
        (RecursionError("deep"), "RecursionError"),
        (ModuleNotFoundError("No module named 'mlx'", name="mlx.core"), "pip install 'mlxcache[cache]'"),
        (ModuleNotFoundError("No module named 'ruptures'", name="ruptures"), "pip install 'mlxcache[dashboard]'"),
    ],
)
def test_a_mistake_has_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, message: str
) -> None:
    """1 means that something is slower, and nothing else."""

    def fails(args: object) -> int:
        raise error

    monkeypatch.setattr("mlxcache.commands.doctor.run", fails)
    assert main(["doctor", "."]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_was_swallowed_comes_again(number: signal.Signals) -> None:
    """An import or a destructor may swallow any exception; the program ends all the same, and cleans up whole."""
    script = (
        "import signal\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored\n"
        "import sys, time, mlxcache.cli as cli, mlxcache.commands.doctor as doctor\n"
        "def run(args):\n"
        "    try:\n        print('ready', flush=True)\n        time.sleep(60)\n"
        "    except BaseException:\n        pass\n"
        "    try:\n        time.sleep(60)\n"
        "    finally:\n        time.sleep(3)\n        print('cleaned', flush=True)\n"
        "doctor.run = run\n"
        "sys.argv = ['mlxcache', 'doctor', '.']\n"
        "sys.exit(cli.main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        time.sleep(0.2)
        running.send_signal(number)  # an impatient second one changes nothing
        out, told = running.communicate(timeout=40)
    assert running.returncode == 128 + number
    assert out == "cleaned\n"
    assert "what was finished is kept" in told


def test_a_closed_standard_output_is_said() -> None:
    """Status 2 with words, for a verdict that nobody can read is none."""
    command = f"{sys.executable} -m mlxcache --version >&-"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "standard output is closed" in done.stderr) == (2, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A per cent sign in a help text would end in a traceback of argparse."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: mlxcache {command}" in capsys.readouterr().out
