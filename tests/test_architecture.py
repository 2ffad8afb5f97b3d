"""Imports run one way, and what needs no mlx imports none."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mlxcache

PACKAGE = Path(mlxcache.__file__).parent

# Each room of the house and the rooms that it may import from, apart from itself. A room's own wings are in WINGS.
ROOMS: dict[str, tuple[str, ...]] = {
    "kv": (),
    "mlx_lm": ("kv",),
    "support": (),
    "counters": (),
    "history": ("support",),
    "remeasure": ("counters", "history", "support"),
    "runner": ("counters", "history", "support"),
    "exports": ("history", "support"),
    "reports": ("history", "remeasure", "support"),
    "dashboard": ("history", "remeasure", "reports", "support"),
    "commands": ("counters", "history", "remeasure", "runner", "exports", "reports", "dashboard", "support"),
}

# The wings of a room, each with the wings of the same room that it may import from.
WINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "kv": {"storage": ()},
    "history": {
        "asv": (),
        "statistics": (),
        "repository": ("asv", "statistics"),
        "loading": ("asv", "repository", "statistics"),
        "changes": ("asv", "repository", "loading", "statistics"),
        "comparing": ("asv", "repository", "loading", "statistics", "changes"),
        "answering": ("asv", "repository", "loading", "statistics", "changes", "comparing"),
        "analysing": ("asv", "repository", "loading", "statistics", "changes", "comparing"),
        "merging": ("asv", "repository", "loading", "changes"),
    },
    "runner": {"system": ()},
    "dashboard": {
        "data": (),
        "drawings": ("data",),
        "figures": ("data",),
        "writing": ("data", "drawings"),
        "pages": ("data", "drawings", "writing"),
    },
}

# More modules than this in one folder, and nobody finds a thing by its name.
MOST_MODULES = 15


def _files() -> Iterator[tuple[Path, tuple[str, ...]]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path, path.relative_to(PACKAGE).parts


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def _ours(path: Path) -> set[tuple[str, ...]]:
    return {tuple(name.split(".")[1:]) for name in _imports(path) if name.startswith("mlxcache.")}


def test_every_folder_is_a_room_of_the_plan() -> None:
    """A new folder is entered above, with what it may import."""
    rooms = {parts[0] for _, parts in _files() if len(parts) > 1}
    assert rooms == set(ROOMS)
    for room, wings in WINGS.items():
        found = {parts[1] for _, parts in _files() if parts[0] == room and len(parts) > 2}
        assert found == set(wings)


def _table() -> dict[str, tuple[set[str], str]]:
    """The rows of docs/architecture.md: a room's wings, and what its last cell says that it may import."""
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8").partition("\n\nEvery")[0]
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return {
        row[0].split("`")[1].strip("/"): (set(re.findall(r"`(\w+)/`", row[1])), row[3].strip()) for row in rows
    }


def test_the_table_of_the_docs_is_the_plan() -> None:
    """Every row: the room, its wings and what it may import, beside `support`, which the text allows most."""
    table = _table()
    assert set(table) == {*ROOMS, "benchmarks"}
    for room, allowed in ROOMS.items():
        wings, said = table[room]
        assert wings == set(WINGS.get(room, {})), room
        if said == "nothing of ours":
            expected: set[str] = set()
        elif said == "all of the above but the cache":
            expected = set(ROOMS) - {"kv", "mlx_lm", "commands"}
        elif said == "`reports` and what that may":
            expected = {"reports", *ROOMS["reports"]}
        else:
            expected = {*re.findall(r"`(\w+)`", said), *({"support"} if room != "mlx_lm" else set())}
        assert set(allowed) == expected, room


def test_the_suite_imports_the_cache_alone() -> None:
    """A benchmark of the cache needs neither history nor commands, and imports on commits that lack them."""
    wrong = {
        (path.name, name)
        for path in sorted((PACKAGE.parent / "benchmarks").glob("*.py"))
        for name in _imports(path)
        if name.startswith("mlxcache.") and name.split(".")[1] in set(ROOMS) - {"kv", "mlx_lm"}
    }
    assert not wrong


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_one_way(room: str) -> None:
    """A room imports itself and the rooms that the plan allows it, nothing else of the package."""
    allowed = {room, *ROOMS[room]}
    wrong = {
        ("/".join(parts), ".".join(name))
        for path, parts in _files()
        if parts[0] == room
        for name in _ours(path)
        if name[0] in {*ROOMS, "cli"} - allowed
    }
    assert not wrong


@pytest.mark.parametrize(("room", "wing"), [(room, wing) for room, wings in WINGS.items() for wing in wings])
def test_wings_import_one_way(room: str, wing: str) -> None:
    """A wing imports itself and the wings of its room that the plan allows it."""
    wings = WINGS[room]
    allowed = {wing, *wings[wing]}
    wrong = {
        ("/".join(parts), ".".join(name))
        for path, parts in _files()
        if parts[:2] == (room, wing)
        for name in _ours(path)
        if name[0] == room and len(name) > 1 and name[1] in set(wings) - allowed
    }
    assert not wrong


def test_no_folder_is_crowded() -> None:
    """A room with too many modules gets walls."""
    crowd: dict[Path, int] = {}
    for path, _ in _files():
        if path.name != "__init__.py":
            crowd[path.parent] = crowd.get(path.parent, 0) + 1
    assert {folder.name: count for folder, count in crowd.items() if count > MOST_MODULES} == {}


def test_the_glossary_has_every_word_of_a_module_s_name() -> None:
    """Who does not know a word of a folder or module finds it, in the singular or plural."""
    told = set(re.findall(r"[a-z0-9]+", (PACKAGE.parent / "docs" / "glossary.md").read_text().lower()))
    used = {
        word for _, parts in _files() for part in parts for word in part.removesuffix(".py").split("_") if word
    }
    assert {word for word in used if not told & {word, f"{word}s", word.removesuffix("s")}} == {"init"}


@pytest.mark.parametrize(
    "room", ["counters", "history", "support", "remeasure", "exports", "reports", "dashboard"]
)
def test_judging_needs_no_mlx(room: str) -> None:
    """Results can be read, compared and shown where mlx does not install."""
    wrong = {
        ("/".join(parts), name)
        for path, parts in _files()
        if parts[0] == room
        for name in _imports(path)
        if name.split(".")[0] in ("mlx", "mlx_lm") or name.startswith(("mlxcache.kv", "mlxcache.mlx_lm"))
    }
    assert not wrong


@pytest.mark.parametrize("module", ["mlxcache", "mlxcache.kv.storage.layout", "mlxcache.history", "mlxcache.cli"])
def test_importing_does_not_import_mlx(module: str) -> None:
    """These import without mlx, so that results can be read on any machine."""
    code = f"import sys, {module}; sys.exit(any(n == 'mlx' or n.startswith('mlx.') for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_there() -> None:
    """Each name of __all__ is found at the place the lazy table says."""
    assert [name for name in mlxcache.__all__ if getattr(mlxcache, name).__name__ != name] == []
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = mlxcache.nothing  # type: ignore[attr-defined]


def test_former_names_are_the_same_modules() -> None:
    """A program that imports the cache's modules where they once lay gets the very same classes."""
    code = (
        "from mlxcache.step import Gather\nfrom mlxcache.pool import Pool\nimport mlxcache.cells\n"
        "import mlxcache.kv.step, mlxcache\n"
        "assert Gather is mlxcache.kv.step.Gather is mlxcache.Gather and Pool is mlxcache.Pool\n"
        "assert mlxcache.cells.MLXCellCache is mlxcache.MLXCellCache\n"
        "assert mlxcache.kv.step.__spec__.name == mlxcache.kv.step.__name__ == 'mlxcache.kv.step'"
    )
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], check=False).returncode == 0
