"""Plants slowdowns in other people's projects and lets `mlxcache compare` and `asv continuous` look for them.

    python -m tools.foreign_table FOLDER [PROJECT[:PLANT] ...]

FOLDER holds the projects' source distributions, as `pip download --no-deps --no-binary :all: PROJECT` brings them;
each is unpacked there into a repository of two commits a plant. Prints the rows of the table in docs/comparing.md.
A planted function takes a given share longer than it did, whatever the load: it spins for that share of its time.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass, field
from pathlib import Path

SLOWER = """

def _slower(function, share):
    import functools
    import time

    @functools.wraps(function)
    def slow(*args, **kwargs):
        began = time.perf_counter()
        result = function(*args, **kwargs)
        until = began + (time.perf_counter() - began) * (1 + share)
        while time.perf_counter() < until:
            pass
        return result

    return slow


{target} = _slower({target}, {share})
"""
INSTALL = """
import shutil, sys, sysconfig
to = sysconfig.get_path("purelib") + "/{package}"
shutil.rmtree(to, ignore_errors=True)
shutil.copytree(sys.argv[1] + "/{source}", to)
"""


@dataclass(frozen=True)
class Plant:
    """A function that becomes slower by a share; a share of 0 changes nothing."""

    file: str
    target: str
    share: float


@dataclass(frozen=True)
class Project:
    """A project: what is installed of it, which benchmarks run, what is planted; `suite` where it brings none."""

    name: str
    source: str
    requirements: tuple[str, ...]
    bench: str
    plants: tuple[Plant, ...]
    config: str = "asv.conf.json"
    suite: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


PROJECTS = (
    Project(
        "packaging",
        "src/packaging",
        (),
        "",
        (
            Plant("src/packaging/version.py", "Version.__init__", 0.10),
            Plant("src/packaging/version.py", "Version.__init__", 0.05),
            Plant("src/packaging/version.py", "", 0.0),
        ),
        suite={
            "bench.py": "from packaging.specifiers import SpecifierSet\n"
            "from packaging.version import Version\n\n\n"
            "def time_versions():\n    for n in range(300):\n        Version(f'1.{n}.3rc1')\n\n\n"
            "def time_specifiers():\n    for n in range(100):\n        SpecifierSet(f'>=1.{n},<2.{n}')\n"
        },
    ),
    Project(
        "networkx",
        "networkx",
        (),
        "",
        (
            Plant("networkx/classes/graph.py", "Graph.add_edges_from", 0.10),
            Plant("networkx/classes/graph.py", "", 0.0),
        ),
        suite={
            "bench.py": "import networkx as nx\n\nEDGES = [(n % 997, (7 * n) % 991) for n in range(20000)]\n"
            "GRAPH = nx.Graph(EDGES)\n\n\ndef time_build():\n    graph = nx.Graph()\n"
            "    graph.add_edges_from(EDGES)\n\n\ndef time_components():\n"
            "    list(nx.connected_components(GRAPH))\n"
        },
    ),
    Project(
        "xarray",
        "xarray",
        ("numpy", "pandas", "cftime"),
        r"^(merge\.DatasetAddVariable|repr\.|accessors\.)",
        (
            Plant("xarray/core/dataset.py", "Dataset.__setitem__", 0.10),
            Plant("xarray/core/dataset.py", "", 0.0),
        ),
        config="asv_bench/asv.conf.json",
        options=("--rounds", "10", "--budget", "12"),
    ),
)


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _prepared(folder: Path, project: Project) -> Path:
    """The project's source as a repository of one commit, with asv set to virtualenv."""
    root = folder / f"{project.name}-project"
    shutil.rmtree(root, ignore_errors=True)
    (archive,) = folder.glob(f"{project.name}-*.tar.gz")
    with tarfile.open(archive) as packed:
        top = packed.getnames()[0].split("/")[0]
        packed.extractall(folder, filter="data")
    (folder / top).rename(root)
    config = root / project.config
    for name, text in project.suite.items():
        (root / "benchmarks").mkdir(exist_ok=True)
        (root / "benchmarks" / "__init__.py").touch()
        (root / "benchmarks" / name).write_text(text, encoding="utf-8")
    facts = {
        "version": 1,
        "project": project.name,
        "repo": os.path.relpath(root, config.parent),
        "branches": ["main"],
        "environment_type": "virtualenv",
        "pythons": [f"{sys.version_info[0]}.{sys.version_info[1]}"],
        "matrix": {name: [""] for name in project.requirements},
        "build_command": [],
        "install_command": ["python {conf_dir}/install_it.py {build_dir}"],
        "uninstall_command": ["return-code=any python -c pass"],
        "env_dir": ".asv/env",
        "results_dir": ".asv/results",
        "html_dir": ".asv/html",
    }
    config.write_text(json.dumps(facts, indent=1), encoding="utf-8")
    install = INSTALL.format(package=Path(project.source).name, source=project.source)
    (config.parent / "install_it.py").write_text(install, encoding="utf-8")
    (root / ".gitignore").write_text(".asv/\n__pycache__/\n", encoding="utf-8")
    _git(root, "init", "-q", "-b", "main")
    _git(root, "add", "-A")
    _git(root, "commit", "-q", "-m", "as released")
    return root


def _row(root: Path, project: Project, number: int, plant: Plant) -> str:
    _git(root, "checkout", "-q", "-B", f"plant-{number}", "main")
    path = root / plant.file
    text = SLOWER.format(target=plant.target, share=plant.share) if plant.share else "\n# nothing\n"
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")
    _git(root, "commit", "-qam", "planted")
    where = (root / project.config).parent
    chosen = ["--bench", project.bench] if project.bench else []
    command = ["compare", "main", "HEAD", "--measure", "--format", "json"]
    load, began = os.getloadavg()[0], time.monotonic()
    ours = subprocess.run(
        [sys.executable, "-m", "mlxcache", *command, *project.options, *chosen],
        cwd=where,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        check=False,
    )
    took, load = time.monotonic() - began, max(load, os.getloadavg()[0])
    facts = json.loads(ours.stdout)
    worse = [row for row in facts.get("series", []) if row["verdict"] == "regression"]
    names = "; ".join(f"{row['benchmark']} {row['change']:+.1%}" for row in worse)
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "asv", "machine", "--yes"], cwd=where, capture_output=True, check=False)
    theirs = subprocess.run(
        [sys.executable, "-m", "asv", "continuous", "-f", "1.05", *chosen, "main", "HEAD"],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = re.findall(r"^\|\s*\+\s.*$", theirs.stdout, re.MULTILINE)
    said = "; ".join(" ".join(line.split("|")[5].split()) for line in lines if line.count("|") > 5) or "nothing"
    if "Failed to build the project and import" in theirs.stdout + theirs.stderr:
        said = "could not import the suite"
    asv_took = time.monotonic() - began
    planted = f"{plant.target} +{plant.share:.0%}" if plant.share else "nothing"
    verdict = facts["verdict"] or facts["reason"]
    return (
        f"| {project.name} | {planted} | {load:.0f} | {verdict}{': ' if names else ''}{names} "
        f"| {took / 60:.1f} min | {said} | {asv_took / 60:.1f} min |"
    )


def main(arguments: list[str]) -> None:
    """Print a row for each plant."""
    folder = Path(arguments[0]).resolve()
    for project in PROJECTS:
        asked = [
            (number, plant)
            for number, plant in enumerate(project.plants)
            if not arguments[1:] or {project.name, f"{project.name}:{number}"} & set(arguments[1:])
        ]
        root = _prepared(folder, project) if asked else folder
        for number, plant in asked:
            print(_row(root, project, number, plant), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
