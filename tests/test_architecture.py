"""Imports run one way, and what needs no mlx imports none."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mlxcache

PACKAGE = Path(mlxcache.__file__).parent
CACHE_MODULES = sorted(path for path in PACKAGE.glob("*.py") if path.name not in ("cli.py", "__init__.py"))


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("path", CACHE_MODULES, ids=lambda path: path.stem)
def test_cache_modules_import_neither_history_nor_dashboard(path: Path) -> None:
    """The cache knows nothing of what is made of its measurements."""
    wrong = [name for name in _imports(path) if name.startswith(("mlxcache.history", "mlxcache.dashboard"))]
    assert not wrong


@pytest.mark.parametrize("path", sorted((PACKAGE / "history").glob("**/*.py")), ids=lambda path: path.stem)
def test_history_imports_neither_mlx_nor_dashboard(path: Path) -> None:
    """History reads files: it works where mlx does not install and knows no page."""
    wrong = [
        name
        for name in _imports(path)
        if name == "mlx" or name.startswith(("mlx.", "mlx_lm", "mlxcache.dashboard", "mlxcache.commands"))
    ]
    assert not wrong


# What each layer may import of the package, apart from itself; commands may import all.
LAYERS = {"history": (), "runner": ("history",), "exports": ("history",), "dashboard": ("history",)}


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_import_one_way(layer: str) -> None:
    """Measuring, exporting and showing rest on the history and know nothing of each other or of the commands."""
    allowed = {layer, *LAYERS[layer]}
    layers = {*LAYERS, "commands", "cli"}
    wrong = {
        (path.name, name)
        for path in (PACKAGE / layer).glob("**/*.py")
        for name in _imports(path)
        if name.startswith("mlxcache.") and name.split(".")[1] in layers - allowed
    }
    assert not wrong


@pytest.mark.parametrize("module", ["mlxcache", "mlxcache.layout", "mlxcache.history", "mlxcache.cli"])
def test_importing_does_not_import_mlx(module: str) -> None:
    """These import without mlx, so that results can be read on any machine."""
    code = f"import sys, {module}; sys.exit(any(n == 'mlx' or n.startswith('mlx.') for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_there() -> None:
    """Each name of __all__ is found at the place the lazy table says."""
    assert [name for name in mlxcache.__all__ if getattr(mlxcache, name).__name__ != name] == []
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = mlxcache.nothing  # type: ignore[attr-defined]
