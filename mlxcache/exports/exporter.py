"""What an export format is: a name, what it is, and what it makes of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from mlxcache.exports.selection import Value


@dataclass(frozen=True)
class Asked:
    """What a user asked for: the table, the project's name, and where to."""

    table: pd.DataFrame
    project: str
    out: Path


@dataclass(frozen=True)
class OfOneCommit:
    """A format that takes one commit's values: makes each file's content, by its path."""

    name: str
    says: str
    contents: Callable[[Asked, list[Value]], Mapping[Path, bytes]]


@dataclass(frozen=True)
class OneFile:
    """A format of one file with the whole table: writes it to a path."""

    name: str
    says: str
    write: Callable[[Asked, Path], None]


@dataclass(frozen=True)
class Folder:
    """A format of several files: fills an empty folder, which appears whole or not at all."""

    name: str
    says: str
    fill: Callable[[Asked, Path], None]


Exporter = OfOneCommit | OneFile | Folder
