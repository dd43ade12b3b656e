"""Runs that nothing is timed in, made in a process of its own: ``python -m omni_bench.selftest.untimed``.

Its parent (:func:`beside`) writes one JSON line with all of them on its stdin; for each the process writes a line with
``problem`` and ``duration_s`` on its stdout, in order. It ends with the last run, and as at Ctrl-C when its stdin ends
before that, that is, when the parent is gone or was interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omni_bench.errors import OmniBenchError
from omni_bench.records.config import RunConfig
from omni_bench.run.config.compose import compose
from omni_bench.run.orchestrate import run
from omni_bench.subprocesses import start_module


@dataclass(frozen=True)
class Order:
    """One run to make: its configuration as ``KEY=VALUE``, its folder, and the command line that it records."""

    overrides: tuple[str, ...]
    folder: str
    command: tuple[str, ...]


def one_run(config: RunConfig, folder: Path, command: Sequence[str]) -> str | None:
    """Make a run. Why it did not come to its end; None if it did (valid or not)."""
    try:
        run(config, folder, command, quiet=True)
    except OmniBenchError as error:
        return str(error).splitlines()[0]
    return None


@contextmanager
def beside(orders: Sequence[Order]) -> Iterator[Iterator[dict[str, Any]]]:
    """Make the runs in another process; within the block its answers can be waited for, one for each run.

    An answer has ``problem`` (see :func:`one_run`) and ``duration_s``. Raises OmniBenchError if the process ends early.
    """
    process = start_module("omni_bench.selftest.untimed")
    assert process.stdin is not None and process.stdout is not None
    try:
        with suppress(BrokenPipeError):  # it is gone already, and has no answers
            process.stdin.write(json.dumps([asdict(order) for order in orders]).encode() + b"\n")
            process.stdin.flush()
        yield _answers(process.stdout, orders)
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()
        process.stdout.close()


def _answers(stdout: Any, orders: Sequence[Order]) -> Iterator[dict[str, Any]]:
    for order in orders:
        line = stdout.readline()
        if not line.endswith(b"\n"):  # killed, perhaps in the middle of an answer
            raise OmniBenchError(f"the process of the untimed runs ended before {order.folder}; see its messages above")
        yield json.loads(line)


def main() -> None:
    """Make the runs of stdin."""
    replies, sys.stdout = sys.stdout, sys.stderr  # what a run prints is no answer
    orders = [Order(**fields) for fields in json.loads(sys.stdin.readline())]
    finished = threading.Event()
    threading.Thread(target=_interrupt_at_end_of, args=(sys.stdin, finished), daemon=True).start()
    for order in orders:
        started = time.monotonic()
        problem = one_run(compose(order.overrides), Path(order.folder), order.command)
        answer = json.dumps({"problem": problem, "duration_s": time.monotonic() - started})
        if order is orders[-1]:
            finished.set()
        print(answer, file=replies, flush=True)


def _interrupt_at_end_of(stdin: Any, finished: threading.Event) -> None:
    stdin.read()
    if not finished.is_set():
        os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
