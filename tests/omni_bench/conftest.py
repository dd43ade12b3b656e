"""What the tests of several stages share."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def runs() -> ModuleType:
    """The module ``run_factory.py`` beside this file: hand-made runs."""
    path = Path(__file__).with_name("run_factory.py")
    spec = importlib.util.spec_from_file_location("run_factory", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
