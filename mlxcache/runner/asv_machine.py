"""The file in which asv knows its machines, `~/.asv-machine.json`."""

from __future__ import annotations

import json
import platform
from pathlib import Path

from mlxcache.runner.facts import Machine
from mlxcache.support.atomic import write_atomically


def machine_file() -> Path:
    """Where asv keeps it."""
    return Path("~/.asv-machine.json").expanduser()


def asv_fields(machine: Machine) -> dict[str, str]:
    """A machine as asv describes one, all values text."""
    return {
        "machine": machine.key,
        "os": f"{machine.os} {machine.os_version}",
        "arch": machine.arch,
        "cpu": machine.chip,
        "num_cpu": str(machine.cores),
        "ram": str(machine.memory),
    }


def register(machine: Machine, path: Path | None = None) -> bool:
    """Let asv know the machine by its key; True if plain `asv run` then uses it without `--machine`.

    asv looks its machine up by the host's name, so an entry under that name points to the key too, unless the
    user has another one there for other projects. The file is replaced whole.

    Raises ValueError for a file that is not asv's, which is left as it is.
    """
    path = path or machine_file()
    try:
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"version": 1}
        if not isinstance(known, dict):
            raise ValueError("no JSON object")
    except ValueError as error:
        raise ValueError(f"{path}: not a machine file of asv ({error}); move it away and try again") from error
    fields = asv_fields(machine)
    known[machine.key] = fields
    host = platform.node()
    mine = host not in known or known[host].get("machine") == machine.key
    if mine:
        known[host] = fields
    write_atomically(path, json.dumps(known, indent=4, sort_keys=True).encode())
    return mine
