"""The load worker as a child process: lines in, lines out, and a sure end."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import IO, Any

from omni_bench.errors import OmniBenchError
from omni_bench.load.clients.responses import one_line
from omni_bench.subprocesses import start_module

STDERR_TAIL_LINES = 20


class WorkerProcess:
    """Starts the worker in a session of its own (the terminal's Ctrl-C does not reach it) and gives it ``job``.

    ``module`` and its ``arguments``: what runs.
    ``lines``: where it puts itself with each line of its stdout, b"" at the end; several workers may share one.
    ``pass_fds``: open files that it inherits. A context manager: on leaving, the worker is gone, killed if need be.
    Raises OmniBenchError when it cannot be started.
    """

    def __init__(
        self,
        job: bytes,
        lines: queue.SimpleQueue[tuple[WorkerProcess, bytes]],
        pass_fds: Sequence[int] = (),
        module: str = "omni_bench.load.worker",
        arguments: Sequence[str] = (),
    ) -> None:
        try:
            self._process = start_module(module, *arguments, stderr=subprocess.PIPE, pass_fds=pass_fds)
        except OSError as error:
            raise OmniBenchError(f"cannot start the load worker with {sys.executable}: {error}") from None
        self._lines = lines
        self._to_write: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._stderr: deque[str] = deque(maxlen=STDERR_TAIL_LINES)
        self._stderr_reader = self._start_thread(self._read_stderr, self._process.stderr)
        self._threads = [
            self._start_thread(self._write_to, self._process.stdin),
            self._start_thread(self._read_lines, self._process.stdout),
            self._stderr_reader,
        ]
        self._to_write.put(job)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()
        self._process.wait()
        self._to_write.put(None)
        for thread in self._threads:
            thread.join()

    def send(self, message: dict[str, Any]) -> None:
        """Queue one JSON line for the worker's stdin; returns at once, also when the worker is gone."""
        self._to_write.put(json.dumps(message).encode() + b"\n")

    def wait(self, timeout_s: float) -> int | None:
        """Its exit status (negative: a signal), or None if it has not ended in time."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stderr_tail(self) -> str:
        """The end of its stderr, for an error message (waits a second at most for it to end)."""
        self._stderr_reader.join(timeout=1.0)
        lines = "\n".join(self._stderr)
        return f"its stderr ends with:\n{lines}" if lines else "its stderr is empty"

    def why_ended(self, status: int | None) -> str:
        """An error message for one that ended before its time."""
        return f"the load worker ended early, with status {status}; {self.stderr_tail()}"

    def terminate(self) -> None:
        """SIGTERM: stop sending, keep what is finished."""
        self._process.terminate()

    def kill(self) -> None:
        """SIGKILL; nothing happens if it has already ended."""
        self._process.kill()

    @staticmethod
    def _start_thread(work: Callable[[IO[bytes]], None], pipe: IO[bytes] | None) -> threading.Thread:
        thread = threading.Thread(target=work, args=(pipe,), daemon=True)
        thread.start()
        return thread

    def _write_to(self, stdin: IO[bytes]) -> None:
        # A worker that is gone shows itself as the end of its stdout; there is nothing to do here.
        with contextlib.suppress(OSError):
            while (data := self._to_write.get()) is not None:
                stdin.write(data)
                stdin.flush()
        with contextlib.suppress(OSError):
            stdin.close()

    def _read_lines(self, stdout: IO[bytes]) -> None:
        with stdout:
            for line in stdout:
                self._lines.put((self, line))
        self._lines.put((self, b""))

    def _read_stderr(self, stderr: IO[bytes]) -> None:
        with stderr:
            for line in stderr:
                self._stderr.append(one_line(line.decode("utf-8", errors="replace")))
