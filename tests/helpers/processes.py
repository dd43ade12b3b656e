"""What became of processes, and waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has, nobody waits for it here."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(condition: Callable[[], object]) -> None:
    """Until it holds; an AssertionError after 20 s."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
