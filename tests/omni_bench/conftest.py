"""What the tests of several stages share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import answers
import pytest
from fake_environment import FakeEnvironment

from omni_bench.accuracy.parity.compare import ParityAnswer


@pytest.fixture
def fake_environment(tmp_path: Path) -> Iterator[FakeEnvironment]:
    """An environment with fake servers; those that a test has left running are killed at the end."""
    made = FakeEnvironment(tmp_path / "env")
    made.make()
    yield made
    made.kill_all()


@pytest.fixture
def make_answer(tmp_path: Path) -> Callable[..., ParityAnswer]:
    """:func:`answers.make_answer` with its audio in the test's own folder."""
    return partial(answers.make_answer, tmp_path)
