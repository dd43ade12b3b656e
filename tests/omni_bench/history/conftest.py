"""Hand-made nights."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def made() -> ModuleType:
    """The module ``night_factory.py`` of the folder above."""
    path = Path(__file__).parents[1] / "night_factory.py"
    spec = importlib.util.spec_from_file_location("night_factory", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
