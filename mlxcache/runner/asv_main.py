"""asv, kept from losing what it has finished: `python -m mlxcache.runner.asv_main run ...`.

asv writes a round's results when the round is over, and writes files in place: an interrupted run loses a round,
and a killed one can leave half a file. Here every finished benchmark is saved at once and every file is replaced
whole. A termination signal ends the run as Ctrl-C does.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from mlxcache.counters.asv_suite import count_instead
from mlxcache.counters.choosing import named
from mlxcache.runner.changes import Changes
from mlxcache.runner.shards import Shard, Took, restrict_discovery
from mlxcache.support.folder_lock import FolderBusyError, folder_lock
from mlxcache.support.sessions import end_with

# How `mlxcache bench` tells this process what to change in the configuration; see `runner.changes`.
CHANGES_VARIABLE = "MLXCACHE_ASV_CHANGES"
# The benchmarks read it: asv shortens only what it times itself, not a tracked value.
QUICK_VARIABLE = "MLXCACHE_QUICK"
# The file to which this process adds asv's warnings and errors, one JSON text a line.
SAID_VARIABLE = "MLXCACHE_ASV_SAID"
# The file with which part of the suite to run:
# {"shard": "2/4", "durations": [[benchmark, commit, seconds, own], ...]}
SHARD_VARIABLE = "MLXCACHE_ASV_SHARD"


def main() -> None:
    """Run asv's own command line with the changes above; exits as asv does."""
    import asv.benchmarks
    import asv.commands
    import asv.commands.run
    import asv.config
    import asv.console
    import asv.main
    import asv.results
    import asv.util

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    end_with(os.getppid())
    changes = Changes(**json.loads(os.environ.pop(CHANGES_VARIABLE, "{}")))
    said = os.environ.pop(SAID_VARIABLE, "")
    if said:
        logging.getLogger().addHandler(Said(Path(said)))
    plan = os.environ.pop(SHARD_VARIABLE, "")
    if plan:
        wanted = json.loads(Path(plan).read_text(encoding="utf-8"))
        durations = [Took(*took) for took in wanted["durations"]]
        restrict_discovery(
            asv.benchmarks.Benchmarks, Shard.parse(wanted["shard"]), durations, asv.console.log.info
        )
    if {"--quick", "-q"} & set(sys.argv):
        os.environ[QUICK_VARIABLE] = "1"
    if changes.counter:
        count_instead(changes.count, named(changes.counter))
    load = asv.config.Config.load.__func__

    def load_changed(cls: type, path: str | None = None) -> Any:
        config = load(cls, path)
        changes.apply(config)
        if not {"--dry-run", "-n"} & set(sys.argv):
            _alone(Path(config.env_dir))
            _save_each_result(asv.results.Results, config.results_dir)
        return config

    asv.config.Config.load = classmethod(load_changed)
    asv.util.write_json = replacing(asv.util.write_json)
    try:
        asv.main.main()
    except KeyboardInterrupt:
        print("asv: interrupted; the benchmarks that had finished are saved", file=sys.stderr)
        sys.exit(130)


_held = contextlib.ExitStack()


def _alone(environments: Path) -> None:
    """Keep others out of asv's environments: two runs would measure each other's commits under their own names."""
    environments.mkdir(parents=True, exist_ok=True)
    try:
        _held.enter_context(folder_lock(environments, 1.0))
    except FolderBusyError as error:
        sys.exit(f"mlxcache bench: asv's environments are in use: {error}")


class Said(logging.Handler):
    """Keeps warnings and errors for the process that started this one: asv's status does not tell them apart."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Add the message to the file."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record.getMessage()) + "\n")


def replacing(write_json: Any) -> Any:
    """asv's `write_json`, writing beside the file and moving it into place."""

    @functools.wraps(write_json)
    def write(path: str, *args: Any, **kwargs: Any) -> None:
        beside = Path(f"{path}.{os.getpid()}.tmp")
        try:
            write_json(str(beside), *args, **kwargs)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)

    return write


def _save_each_result(results: Any, folder: str) -> None:
    if getattr(results.add_result, "saves", False):
        return
    add_result = results.add_result

    @functools.wraps(add_result)
    def add_and_save(self: Any, *args: Any, **kwargs: Any) -> None:
        add_result(self, *args, **kwargs)
        if self.commit_hash:  # an unnamed set, as of an existing environment, has no file
            self.save(folder)

    add_and_save.saves = True  # type: ignore[attr-defined]
    results.add_result = add_and_save


if __name__ == "__main__":
    main()
