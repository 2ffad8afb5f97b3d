"""One callable, counted: `python call_child.py COUNTER FOLDER RESULT PATHS MODULE NAME ARGUMENTS`.

PATHS are JSON: where modules are looked for. ARGUMENTS are JSON: what the callable gets. RESULT is the file for
the samples.
"""

from __future__ import annotations

import importlib
import json
import operator
import runpy
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    """Count it and write the samples."""
    name, folder, result, paths, module, qualified, given = arguments
    sys.path[:] = json.loads(paths)
    found = runpy.run_path(str(Path(__file__).resolve().parent / "launch.py"))
    package = found["counters"]()
    try:
        reader = package.choosing.named(name).open(Path(folder))
    except package.CountError as error:
        sys.exit(f"mlxcache counters: {error}")
    function = operator.attrgetter(qualified)(importlib.import_module(module))
    values = json.loads(given)
    setup = getattr(function, "setup", None)
    if setup is not None:
        setup(*values)
    samples = package.sampling.sample(lambda: function(*values), reader, lambda: None, True)
    Path(result).write_text(json.dumps(samples), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
