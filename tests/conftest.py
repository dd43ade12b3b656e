"""What every test may rely on, and the order of the files."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

# A shell that starts a job in the background makes it ignore SIGINT, and so would every child of
# ours: tests that press Ctrl-C would wait for something that cannot happen.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Files run side by side: one core each. A PyTorch that takes all cores in each of them waits for the others.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# pytest-xdist runs with 80 columns, pytest alone with those of the caller: messages would break in other places.
os.environ.pop("COLUMNS", None)

settings.register_profile("no_deadline", deadline=None)  # a shared machine may be slow
settings.load_profile("no_deadline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: handed out last, one of them would run on alone when the other cores are done."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)
