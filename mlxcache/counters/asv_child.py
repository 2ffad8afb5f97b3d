"""One benchmark of an asv suite, counted instead of timed: `python asv_child.py COUNTER FOLDER SCRIPT ARGUMENTS`.

SCRIPT is asv's own, which finds the benchmark, sets it up, skips what skips itself and writes the result; only the
way in which a `time_` benchmark takes its samples is replaced.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]


def main(arguments: list[str]) -> None:
    """Run asv's script with the change."""
    name, folder, script, *rest = arguments
    # The counter comes first: threads that exist before it does are not counted.
    package = _package()
    try:
        reader = package.choosing.named(name).open(Path(folder))
    except package.CountError as error:
        sys.exit(f"mlxcache counters: {error}")
    from asv_runner.benchmarks.time import TimeBenchmark

    def run(self: Any, *param: Any) -> Any:
        call = (lambda: self.func(*param)) if param else self.func
        # With a setup, each call has to find what it made.
        hooks = bool(getattr(self, "_setups", None))
        return package.sampling.sample(call, reader, self.redo_setup, not hooks, 1 if hooks else int(self.number))

    TimeBenchmark.run = run
    sys.argv[:] = [script, *rest]
    runpy.run_path(script, run_name="__main__")


def _package() -> Any:
    # `launch` is this script's neighbour, not a module that can be imported by its name here.
    found = runpy.run_path(str(Path(__file__).resolve().parent / "launch.py"))
    return found["counters"]()


if __name__ == "__main__":
    main(sys.argv[1:])
