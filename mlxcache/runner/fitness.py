"""Whether a machine is fit to measure now: what `mlxcache machine --check` says before hours are spent."""

from __future__ import annotations

from mlxcache.runner.facts import Machine, State
from mlxcache.runner.system import macos
from mlxcache.runner.system.commands import Ask, ask

_MIB = 2**20


def complaints(machine: Machine, state: State, ask: Ask = ask) -> list[str]:
    """What should be put right first, each with what to do; empty for a machine that is fit."""
    found = state.warnings()
    if not machine.mlx:
        found.append("MLX is not installed, so nothing can be measured: `make setup` installs it")
    if machine.os == "macos":
        found += _of_mac(machine, state, ask)
    return found


def _of_mac(machine: Machine, state: State, ask: Ask) -> list[str]:
    # A hosted runner is thrown away after the job: what is about the next hours or days is for a Mac that stays.
    found = [*state.doubts]
    if not machine.virtual:
        if state.sleep_minutes:
            found.append(f"this Mac sleeps after {state.sleep_minutes} minutes: `sudo pmset -a sleep 0`")
        found += macos.background(ask)
    if state.swap_used is not None and state.swap_used > 0.1 * machine.memory:
        found.append(f"{state.swap_used / _MIB:,.0f} MiB are swapped out: close what else runs here, or restart")
    if machine.mlx and not machine.gpu and not machine.virtual:
        found.append(f"this Mac's GPU is not measured: {machine.why}")
    return found
