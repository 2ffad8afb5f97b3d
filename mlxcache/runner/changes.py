"""What a run changes in asv's configuration: the device, the MLX releases, MLX's CUDA build, the counter.

asv's file stays as it is: what differs is applied to the loaded configuration and becomes part of the
environment's name, so that results of two devices or releases never share a series.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from mlxcache.counters.asv_suite import set_counter
from mlxcache.counters.choosing import named
from mlxcache.runner.facts import Machine

DEVICE_VARIABLE = "MLXCACHE_DEVICE"


def device_for(machine: Machine, asked: str = "default") -> str:
    """What a run on this machine sets MLXCACHE_DEVICE to; "" leaves it to the configuration.

    Where a GPU is kept out, or a Mac has none that MLX can use, the CPU is named, so that nobody can take its
    series for the GPU's. Whatever measures asks here, or the names of its environments would differ.
    """
    if asked != "default":
        return asked
    kept_out = machine.device == "cpu" and (machine.gpu or machine.os == "macos")
    return "cpu" if machine.mlx and kept_out else ""


@dataclass(frozen=True)
class Changes:
    """Changes to the matrix.

    `device` is what the benchmarks get as MLXCACHE_DEVICE; `mlx` are releases of MLX, one environment each; `cuda`
    is the major CUDA version of MLX's Linux GPU build; `results` is another results folder. `counter` is the one
    with which benchmarks that `count` (regular expressions) finds are counted instead of timed.
    """

    device: str = ""
    mlx: tuple[str, ...] = ()
    cuda: str = ""
    results: str = ""
    counter: str = ""
    count: tuple[str, ...] = ()

    def as_json(self) -> str:
        """For the environment of the process that runs asv."""
        return json.dumps(asdict(self))

    def apply(self, config: Any) -> None:
        """Change a loaded asv configuration."""
        required = config.matrix.setdefault("req", {})
        if self.results:
            config.results_dir = self.results
        if self.device:
            config.matrix.setdefault("env_nobuild", {})[DEVICE_VARIABLE] = [self.device]
        if self.counter:
            set_counter(config, named(self.counter))
        if self.mlx:
            required["pip+mlx"] = list(self.mlx)
            # The peers' mlx-lm fits one MLX; without it they skip and say so.
            required.pop("pip+mlx-lm", None)
        if self.cuda:
            required[f"pip+mlx-cuda-{self.cuda}"] = list(required["pip+mlx"])
            required["pip+numpy"] = [""]
            # Our own requirement names mlx[cpu], whose library would replace the CUDA build's.
            config.install_command = ["in-dir={env_dir} python -m pip install --no-deps {wheel_file}"]
