"""What became of processes, waiting for it, and fake servers in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil
from repository import HELPERS

from omni_bench.targets.probe import free_port, get


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


@contextmanager
def fake_server(script: str, *words: object, status: int = 200) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """``script`` of this folder on a free port, once its /health answers ``status``; the port and the process."""
    port = free_port("127.0.0.1")
    command = [sys.executable, str(HELPERS / script), str(port), *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: process.poll() is not None or get(f"http://127.0.0.1:{port}/health", 1.0).status == status)
        assert process.poll() is None
        yield port, process
    finally:
        process.kill()
        process.wait()
