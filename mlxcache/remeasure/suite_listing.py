"""Lists the benchmarks of a suite, file by file; run by the Python of the environment that is measured.

    python suite_listing.py SUITE_FOLDER RESULT.json [MODULE ...]

asv's own discovery gives up at the first file that cannot be imported, so one new function that base lacks would
hide every old benchmark beside it. Here a file that cannot be imported is named with its reason, and the rest is
listed. The modules at the end are left out: those that ended an earlier run of this program.

Only asv_runner is there to import, and the Python may be an old one. What is used of asv_runner is what asv's own
discovery is made of.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
import traceback


def _reason(error):
    """The last line of a traceback, and the place of an error of syntax."""
    lines = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()
    # A syntax error has its line of code before its message, and its place first of all.
    place = lines[0].strip().rpartition("/")[2].replace('"', "") if lines[0].strip().startswith("File ") else ""
    return lines[-1] + (" (%s)" % place if place else "")


def _modules(name, left_out, broken, announce):
    """Yield a module and all below it that can be imported."""
    if name in left_out:
        broken[name] = {"reason": "importing it ends the interpreter", "trace": ""}
        return
    announce(name)
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        broken[name] = {"reason": _reason(error), "trace": traceback.format_exc()}
        return
    yield module
    if getattr(module, "__path__", None):
        for _, inner, _ in pkgutil.iter_modules(module.__path__, name + "."):
            yield from _modules(inner, left_out, broken, announce)


def _clean(benchmark):
    """What asv keeps of a benchmark in benchmarks.json."""
    kept = {
        key: value
        for key, value in benchmark.__dict__.items()
        if isinstance(value, (str, int, float, list, dict, bool)) and not key.startswith("_")
    }
    return json.loads(json.dumps(kept, skipkeys=True, default=str))


def _packages():
    """Name and version of everything that is installed beside the suite."""
    from importlib import metadata

    found = {}
    for each in metadata.distributions():
        name = each.metadata["Name"]
        if name:
            found.setdefault(name.lower().replace("_", "-"), each.version)
    return found


def _from_the_checkout(root):
    """Top-level modules that were imported from beside the suite although the environment has them too."""
    from importlib.machinery import PathFinder

    tree = os.path.dirname(os.path.realpath(root)) + os.sep
    suite = os.path.realpath(root) + os.sep
    environment = os.path.realpath(sys.prefix) + os.sep
    installed = [place for place in sys.path if "site-packages" in place or "dist-packages" in place]
    found = []
    for name, module in sorted(sys.modules.items()):
        place = os.path.realpath(getattr(module, "__file__", None) or "")
        if "." in name or not place.startswith(tree) or place.startswith((suite, environment)):
            continue
        if PathFinder.find_spec(name, installed) is not None:
            found.append(name)
    return found


def main(arguments):
    """Write the list; the exit status is 0 whenever there is one."""
    root, result = arguments[:2]
    left_out = set(arguments[2:])
    from asv_runner import discovery
    from asv_runner._aux import update_sys_path

    update_sys_path(root)
    broken = {}
    benchmarks = []

    def announce(name):
        # Read when this process dies in the middle of an import.
        with open(result + ".importing", "w", encoding="utf-8") as file:
            file.write(name)

    suite = os.path.basename(root)
    for module in _modules(suite, left_out, broken, announce):
        discovery.disc_modules = lambda *_, found=module, **__: iter([found])
        try:
            found = [dict(_clean(one), module=module.__name__) for one in discovery.disc_benchmarks(root)]
        except (Exception, SystemExit) as error:
            broken[module.__name__] = {"reason": _reason(error), "trace": traceback.format_exc()}
            continue
        benchmarks += found
    facts = {
        "benchmarks": benchmarks,
        "broken": broken,
        "packages": _packages(),
        "checkout": _from_the_checkout(root),
        "python": "%d.%d.%d" % sys.version_info[:3],
    }
    with open(result, "w", encoding="utf-8") as file:
        json.dump(facts, file)
    return 0


if __name__ == "__main__":
    # This folder holds modules of ours that have nothing to do with the suite.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != here]
    sys.exit(main(sys.argv[1:]))
