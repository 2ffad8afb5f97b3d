"""The quiet way to call `asv run`: pinned, interleaved, with samples, under the machine's own name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from mlxcache.runner.facts import Machine


@dataclass(frozen=True)
class Setting:
    """One choice: asv's arguments for it, and why it was made."""

    arguments: tuple[str, ...]
    why: str


def quiet_settings(machine: Machine, given: Sequence[str], cpus: Sequence[int] | None) -> list[Setting]:
    """What to add to `asv run` for this machine; what the user gave already is left to the user.

    Args:
        machine: the machine that is measured.
        given: the arguments that go to asv unchanged.
        cpus: the CPUs this process may use, None where the system does not tell or cannot pin.
    """
    settings = [
        Setting(("--machine", machine.key), "results lie under the hardware's name, not the host's"),
        Setting(("--record-samples",), "the estimator needs samples, not asv's median alone"),
        Setting(("--interleave-rounds",), "rounds of all benchmarks alternate, control among them"),
    ]
    # Not with a GPU: the driver's threads would have to share that CPU, and ratios repeated worse.
    if cpus and len(cpus) > 1 and machine.device == "cpu":
        settings.append(
            Setting(("--cpu-affinity", str(max(cpus))), f"pinned to CPU {max(cpus)}: MLX's thread is woken on it")
        )
    if machine.os == "linux" and machine.device == "cpu":
        # 7 ms a parameter set where a fresh interpreter takes 270. Not after a GPU runtime has started.
        settings.append(Setting(("--launch-method", "forkserver"), "each sample set is forked, not started"))
    names = {argument.partition("=")[0] for argument in given}
    return [setting for setting in settings if setting.arguments[0] not in names and not _opposed(setting, names)]


def _opposed(setting: Setting, names: set[str]) -> bool:
    return setting.arguments[0].replace("--", "--no-", 1) in names or (
        setting.arguments[0] == "--machine" and "-m" in names
    )


def allowed_cpus() -> list[int] | None:
    """The CPUs that this process may run on; None on systems without CPU affinity, such as macOS."""
    get = getattr(os, "sched_getaffinity", None)
    return None if get is None else sorted(get(0))
