"""What a part of the tests needs: at home they are skipped without it, on CI a missing part is a failure."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def missing(reason: str) -> None:
    """End the test: skipped, or failed where CI is set."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason} (on CI nothing is skipped for that)")
    pytest.skip(reason, allow_module_level=True)


def module(name: str) -> Any:
    """A module that an optional dependency brings."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        return missing(f"{name} cannot be imported: {error}")
