"""Fixtures of the reference model: loading takes under a second, but one load serves all tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from reference_impl.checkpoint import BUNDLED, Model, load_model


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Threads inside an operation wait for each other: on two busy cores one is many times faster than two."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny() -> Model:
    """The bundled voice in float32 on the CPU."""
    return load_model(BUNDLED["tiny"], torch.device("cpu"), torch.float32, max_positions=512, max_frames=2049)


@pytest.fixture(scope="session")
def fake():
    """The module ``fake_engine.py`` beside this file: an engine for the server's tests."""
    path = Path(__file__).with_name("fake_engine.py")
    spec = importlib.util.spec_from_file_location("fake_engine", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
