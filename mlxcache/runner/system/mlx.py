"""MLX as it is installed: its release, its GPU, how much memory that may use, the wheel it came in."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Final

_PATIENCE_S: Final = 60.0
# A release of MLX before 0.31 ends the whole process where there is no Metal device (ml-explore/mlx#2691), and a
# newer one raises: a Mac's GPU is asked for in a process of its own.
_ASK: Final = (
    "import json, mlxcache.runner.system.mlx as m; from dataclasses import asdict; "
    "print(json.dumps(asdict(m.asked_here())))"
)


@dataclass(frozen=True)
class Mlx:
    """`backend` is "metal", "cuda" or "" for a CPU alone, `gpu` its GPU's name.

    `working_set` is how many bytes Metal recommends at most, 0 elsewhere; `doubt` is "" or why no GPU was found
    where one was expected.
    """

    version: str = ""
    backend: str = ""
    gpu: str = ""
    working_set: int = 0
    doubt: str = ""


def installed() -> Mlx:
    """What is there; all empty where MLX is not installed."""
    return _asked_outside() if platform.system() == "Darwin" else asked_here()


def asked_here() -> Mlx:
    """The same, asked in this process."""
    try:
        import mlx.core as mx
    except ImportError:
        return Mlx()
    version = str(getattr(mx, "__version__", ""))
    # In every macOS build this is true, with a GPU or without.
    if mx.metal.is_available():
        backend = "metal"
    elif hasattr(mx, "cuda") and mx.cuda.is_available():
        backend = "cuda"
    else:
        return Mlx(version)
    # Up to 0.30 it was under mx.metal only.
    device_info: Callable[[], Mapping[str, object]] = getattr(mx, "device_info", None) or mx.metal.device_info
    try:
        info = device_info()
    except RuntimeError as error:
        return Mlx(version, doubt=f"MLX finds no GPU: {str(error).splitlines()[0]}")
    name = str(info.get("device_name") or info.get("architecture") or backend)
    size = info.get("max_recommended_working_set_size")
    return Mlx(version, backend, name, size if isinstance(size, int) else 0)


def _asked_outside() -> Mlx:
    try:
        version = metadata.version("mlx")
    except metadata.PackageNotFoundError:
        return Mlx()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Mlx(version, doubt=f"MLX did not say what GPU it sees: {error}")
    try:
        return Mlx(**json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        last = done.stderr.strip().splitlines()[-1:] or ["without a word"]
        return Mlx(
            version, doubt=f"MLX {version} ended with status {done.returncode} when asked for a GPU: {last[0]}"
        )


def wheel_tag() -> str:
    """What the wheel was built for, such as "cp313-cp313-macosx_26_0_arm64"; a newer macOS gets other kernels."""
    for package in ("mlx-metal", "mlx"):
        try:
            text = metadata.distribution(package).read_text("WHEEL") or ""
        except metadata.PackageNotFoundError:
            continue
        tags = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("Tag:")]
        if tags:
            return tags[0]
    return ""
