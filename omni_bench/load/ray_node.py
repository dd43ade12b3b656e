"""One node's part of a level that is spread over a Ray cluster: its load processes, their lines and their audio.

It runs on that node and knows nothing of Ray: :mod:`omni_bench.load.ray_engine` makes an actor of it.
"""

from __future__ import annotations

import os
import platform
import queue
import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omni_bench import __version__
from omni_bench.errors import OmniBenchError
from omni_bench.load.events import RequestFinished, read_event, read_job, write_message
from omni_bench.load.files import allow_files, connections_of
from omni_bench.load.process import WorkerProcess
from omni_bench.load.shares import share, split
from omni_bench.records.level import Rate

POLL_S = 0.2
BATCH_BYTES = 8 << 20
"""Of lines and audio in one answer, beyond which the rest waits for the next."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id() -> str | None:
    """Names this start of this machine, whose monotonic clock all its processes share; None where it has none."""
    try:
        return Path(BOOT_ID).read_text(encoding="ascii").strip()
    except OSError:
        return None


@dataclass(frozen=True)
class Said:
    """A line that worker number ``worker`` of this node wrote, and the ``audio`` that goes with it.

    ``line`` is b"" when the worker has ended: with ``status``, and the end of its ``stderr``.
    """

    worker: int
    line: bytes
    audio: bytes | None = None
    status: int | None = None
    stderr: str = ""


class NodeLoad:
    """The load processes of one node. Every method returns within a second or so; several may be called at once."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._workers: list[WorkerProcess] = []
        self._lines: queue.SimpleQueue[tuple[WorkerProcess, bytes]] = queue.SimpleQueue()

    def facts(self) -> dict[str, Any]:
        """What has to be right about the node before it is given work."""
        return {"version": __version__, "python": platform.python_version(), "boot_id": boot_id()}

    def now(self) -> int:
        """Its monotonic clock, in ns."""
        return time.perf_counter_ns()

    def start(self, job: bytes, node: int, nodes: int, workers: int) -> str | None:
        """Start ``workers`` processes on share ``node`` of ``nodes`` of the level. Says what is wrong, if anything."""
        whole = read_job(job)
        if whole.api_key_env is not None and not os.environ.get(whole.api_key_env):
            return (
                f"client.api_key_env={whole.api_key_env} is not set there: export it on every node before `ray start`"
            )
        plan, slots = share(whole.plan, node, nodes, all_measured=False)
        self._spool = Path(tempfile.mkdtemp(prefix="omni-bench-load-"))
        self._stack.callback(shutil.rmtree, self._spool, ignore_errors=True)
        mine = replace(whole, plan=plan, slots=slots, spool_dir=str(self._spool))
        try:
            allow_files(connections_of(plan) if isinstance(plan.concurrency, Rate) else slots)
            jobs, pass_fds = split(mine, workers, self._stack)
            for one in jobs:
                process = WorkerProcess(write_message(one), self._lines, pass_fds)
                self._workers.append(self._stack.enter_context(process))
        except OmniBenchError as error:
            return str(error)
        return None

    def poll(self) -> list[Said]:
        """What the workers have said since; [] after :data:`POLL_S` of silence."""
        said: list[Said] = []
        size = 0
        try:
            worker, line = self._lines.get(timeout=POLL_S)
            while True:
                said.append(self._said(self._workers.index(worker), line))
                size += len(line) + len(said[-1].audio or b"")
                if size > BATCH_BYTES:
                    break
                worker, line = self._lines.get_nowait()
        except queue.Empty:
            pass
        return said

    def send(self, worker: int, message: dict[str, Any]) -> None:
        """As :meth:`WorkerProcess.send`."""
        self._workers[worker].send(message)

    def terminate(self, worker: int) -> None:
        """As :meth:`WorkerProcess.terminate`."""
        self._workers[worker].terminate()

    def kill(self, worker: int) -> None:
        """As :meth:`WorkerProcess.kill`."""
        self._workers[worker].kill()

    def close(self) -> None:
        """Leave no process and no file behind."""
        self._stack.close()

    def _said(self, worker: int, line: bytes) -> Said:
        if line == b"":
            process = self._workers[worker]
            return Said(worker, line, status=process.wait(1.0), stderr=process.stderr_tail())
        return Said(worker, line, self._audio(line))

    def _audio(self, line: bytes) -> bytes | None:
        if b'"spooled"' not in line or not line.endswith(b"\n"):  # most lines, and one that was cut short
            return None
        event = read_event(line)
        if not isinstance(event, RequestFinished) or not event.spooled:
            return None
        path = self._spool / f"{event.timeline.request_id}.pcm"
        audio = path.read_bytes()
        path.unlink()
        return audio
