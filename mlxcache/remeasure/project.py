"""What asv.conf.json says of a project: where its commits are, and where its results go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlxcache.remeasure.driver_process import MeasureError
from mlxcache.support.git import run_git

_NAMES = ("asv.conf.json", "asv.conf.jsonc")


@dataclass(frozen=True)
class Place:
    """A repository on disk, and what a reader must know of it, or ""."""

    folder: str
    notice: str = ""


def find_config(start: str | os.PathLike[str] = ".") -> Path:
    """The asv configuration in `start` or `start`/benchmarks, or `start` itself if it is a file.

    Raises MeasureError if there is none, or two beside each other, of which asv takes neither.
    """
    root = Path(start)
    if root.is_file():
        return root.resolve()
    for folder in (root, root / "benchmarks", root / "asv_bench"):
        there = [folder / name for name in _NAMES if (folder / name).is_file()]
        if len(there) > 1:
            raise MeasureError(
                f"{folder.resolve()} has {' and '.join(_NAMES)}; give the one that is meant: --config"
            )
        if there:
            return there[0].resolve()
    raise MeasureError(f"no asv.conf.json in {root.resolve()}; go to the project or give --config")


def read_config(config: Path) -> dict[str, Any]:
    """The configuration, which may hold comments.

    Raises MeasureError if it cannot be read or is no object.
    """
    import json5

    try:
        facts = json5.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MeasureError(f"{config} is no configuration of asv: {error}") from error
    if not isinstance(facts, dict):
        raise MeasureError(f"{config} is no configuration of asv: expected an object")
    return facts


def results_folder(given: str | None, start: str | os.PathLike[str]) -> str:
    """The folder of results: what was given, else the configuration's results_dir, else "results"."""
    if given is not None:
        return given
    try:
        config = find_config(start)
        named = read_config(config).get("results_dir", "results")
    except MeasureError:
        return "results"
    return os.path.relpath(config.parent / str(named))


def repository(given: str | None, config: Path) -> Place:
    """Where the project's commits are: what was given, else what asv builds from.

    Raises MeasureError if the configuration names a repository that cannot be had.
    """
    if given is not None:
        return Place(given)
    facts = read_config(config)
    repo = str(facts.get("repo") or ".")
    around = os.path.relpath(config.parent)
    local = Path(os.path.normpath(config.parent / repo))
    if local.is_dir():
        if _common(local) == _common(config.parent):
            return Place(around)
        return Place(str(local), f"revisions are those of {local}, from which asv builds the project")
    mirror = config.parent / str(facts.get("project") or "project")
    if not mirror.is_dir():
        done = run_git(config.parent, "clone", "--quiet", "--mirror", repo, str(mirror))
        if not done.ok:
            raise MeasureError(f'"repo" in {config} is {repo}, which cannot be cloned: {done.reason}')
    else:
        run_git(mirror, "fetch", "--quiet", "origin")
    if _roots(mirror) & _roots(config.parent):
        return Place(around)  # a checkout of the project itself; what is not pushed the driver will miss
    return Place(str(mirror), f"revisions are those of {repo}, from which asv builds the project")


def _common(folder: Path) -> str:
    asked = run_git(folder, "rev-parse", "--git-common-dir")
    return os.path.realpath(folder / asked.text.strip()) if asked.ok else ""


def _roots(folder: Path) -> set[str]:
    return set(run_git(folder, "rev-list", "--max-parents=0", "--all").text.split())
