"""A server as a child process: its own process group, its output in a file, gone at the end.

The child gets its own session, so Ctrl-C in the terminal reaches the harness alone, which
then stops the server in order. ``stop`` ends the whole group: workers that a server leaves
behind are killed too, also when the server itself died first, and also those that left the group for a session
of their own: they are found through the process tree and through an environment variable that all of them inherit.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import select
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from omni_bench.errors import StoreError, TargetError

POLL_S = 0.05
KILL_WAIT_S = 5.0
END_WAIT_S = 3.0
"""How long the guardian of a server that has ended may need to end too."""
DEAD_GRACE_S = 1.0
"""What is left of a server that has died may take so long to obey SIGTERM."""
MARK = "OMNI_BENCH_LAUNCH"
LOG_TAIL_LINES = 20
LOG_TAIL_BYTES = 16384
LOG_ERROR_BYTES = 2**20
"""How far back the last error is looked for: a server says much after it, while it ends."""
OUTPUT_BYTES = 65536
_ERROR = re.compile(r"\b((?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)|CUDA error): (.{1,300})")
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemory|MemoryError|bad_alloc|cannot allocate memory|not enough memory"
    r"|less than desired GPU memory utilization|no available memory for the cache blocks",
    re.IGNORECASE,
)
"""As PyTorch, CUDA, Python, C++, the operating system, vLLM and SGLang say it."""
_CONSEQUENCES = ("EngineDeadError", "CancelledError", "ServerDisconnectedError", "BrokenPipeError")


class OutOfMemory(TargetError):
    """A server ended during start-up for lack of memory, of this machine or of a GPU."""


class ServerProcess:
    """One launched server. Not thread-safe; used from the main thread.

    ``guarded``: ``command`` is that of :mod:`omni_bench.targets.guardian`, which tells when the server has ended.
    ``advice``: what to try, by a piece of the server's last error.
    """

    def __init__(
        self,
        command: Sequence[str],
        log_path: Path,
        env: Mapping[str, str] | None = None,
        *,
        guarded: bool = False,
        advice: Mapping[str, str] | None = None,
    ):
        self.command = tuple(command)
        self.log_path = log_path
        self._mark = uuid.uuid4().hex
        self._env = {**(os.environ if env is None else env), MARK: self._mark}
        self._process: subprocess.Popen[bytes] | None = None
        self._returncode: int | None = None
        self._log_start = 0
        self._guarded = guarded
        self._advice = advice or {}
        self._end_told: int | None = None

    def launch(self) -> None:
        """Start the process. Raises TargetError if it cannot be executed, StoreError without a log file."""
        try:
            log = self.log_path.open("ab")
        except OSError as error:
            raise StoreError(f"cannot write the server log {self.log_path}: {error.strerror}") from None
        with log:
            self._log_start = log.tell()
            # Before the launch, so that an interrupt right after it cannot leave the child behind.
            atexit.register(self.stop)
            stdin = subprocess.DEVNULL
            if self._guarded:
                self._end_told, stdin = os.pipe()
            try:
                self._process = subprocess.Popen(
                    self.command,
                    stdin=stdin,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env=self._env,
                )
            except OSError as error:
                raise TargetError(f"cannot execute {self.command[0]}: {error.strerror}") from None
            finally:
                if self._guarded:
                    os.close(stdin)

    @property
    def pid(self) -> int | None:
        """Process id, which is also the process group's; None before launch."""
        return self._process.pid if self._process else None

    def is_alive(self) -> bool:
        """True between launch and the end of the server."""
        return self._process is not None and self._process.poll() is None and not self._has_told_end()

    def _has_told_end(self) -> bool:
        """Whether the guardian has closed its end of the pipe, or is gone."""
        return self._end_told is not None and bool(select.select([self._end_told], [], [], 0)[0])

    def wait_until_ready(self, unready: Callable[[], str | None], timeout_s: float) -> float:
        """Poll ``unready``, which says why the server is not ready, until it is None; seconds since the call.

        Raises TargetError, with the end of the log, if the process dies (:class:`OutOfMemory` if for lack of memory) or
        the deadline passes.
        """
        started = time.monotonic()
        while True:
            if not self.is_alive():
                why = self.failure()  # it waits for the guardian, whose end tells of the signal
                kind = OutOfMemory if self._ran_out_of_memory() else TargetError
                raise kind(f"the server ended during start-up: {why}")
            if (why := unready()) is None:
                return time.monotonic() - started
            if time.monotonic() - started > timeout_s:
                raise TargetError(
                    f"the server was not ready within target.startup_timeout_s={timeout_s:g}: {why}; {self._log_tail()}"
                )
            time.sleep(POLL_S)

    def output(self) -> str:
        """What the process has written to its log since the launch, its first 64 KiB at most."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(self._log_start)
                return log.read(OUTPUT_BYTES).decode("utf-8", "replace")
        except OSError:  # failure() tells more
            return ""

    def failure(self) -> str:
        """How the process ended, its last error and what to try then, where they are known, and the end of its log."""
        if self._process is not None and self._has_told_end():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_WAIT_S)
        code = self._process.poll() if self._process else self._returncode
        if code is None:
            ended = "still running" if self._process else "not launched"
        elif code < 0:
            ended = f"killed by {_signal_name(-code)}"
        else:
            ended = f"exit code {code}"
        return "; ".join([ended, *self._last_error(), self._log_tail()])

    def stop(self, grace_s: float = 10.0) -> None:
        """SIGTERM to the group, ``grace_s`` to obey, then SIGKILL; returns when all are gone. Idempotent."""
        process = self._process
        if process is None:
            atexit.unregister(self.stop)
            return
        strays: set[psutil.Process] = set()
        try:
            # Those that left the group are found through the tree, while it still hangs together.
            strays |= self._strays(process.pid)
            if not self.is_alive():
                grace_s = min(grace_s, DEAD_GRACE_S)
            _signal_group(process.pid, signal.SIGTERM)
            deadline = time.monotonic() + grace_s
            while time.monotonic() < deadline:
                # poll() reaps the leader; its pid stays reserved while group members live.
                if process.poll() is not None and not _living_members(process.pid):
                    break
                time.sleep(POLL_S)
        finally:
            # Also on a second Ctrl-C during the wait: never leave a server behind.
            strays |= self._strays(process.pid)  # those born meanwhile
            _signal_group(process.pid, signal.SIGKILL)
            for stray in strays:
                with contextlib.suppress(psutil.Error):
                    stray.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(KILL_WAIT_S)
            deadline = time.monotonic() + KILL_WAIT_S
            while time.monotonic() < deadline and (_living_members(process.pid) or any(map(_runs, strays))):
                time.sleep(POLL_S)
            self._returncode = process.returncode
            self._process = None
            if self._end_told is not None:
                os.close(self._end_told)
                self._end_told = None
            atexit.unregister(self.stop)

    def _strays(self, pid: int) -> set[psutil.Process]:
        """Living processes of this launch, by descent or by their mark, whatever group they are in."""
        return {one for one in (*_descendants(pid), *_marked(self._mark)) if _runs(one)}

    def _log_end(self, size: int) -> str:
        """The last ``size`` bytes of the log since the launch. Raises OSError."""
        with self.log_path.open("rb") as log:
            log.seek(max(self._log_start, self.log_path.stat().st_size - size))
            return log.read(size).decode("utf-8", "replace")

    def _ran_out_of_memory(self) -> bool:
        """Whether its log says so, or it was killed by SIGKILL, as by the operating system then."""
        if self._process is not None and self._process.poll() == -signal.SIGKILL:
            return True
        try:
            return bool(_OUT_OF_MEMORY.search(self._log_end(LOG_ERROR_BYTES)))
        except OSError:
            return False

    def _last_error(self) -> list[str]:
        """The last line that names an exception, other than one that follows from another."""
        try:
            found = _ERROR.findall(self._log_end(LOG_ERROR_BYTES))
        except OSError:  # _log_tail tells
            return []
        errors = [
            f"{name}: {text.strip().rstrip('.')}"
            for name, text in found
            if name.rpartition(".")[2] not in _CONSEQUENCES
        ]
        advice = [f"try {what}" for piece, what in self._advice.items() if errors and piece in errors[-1]]
        return [f"its last error: {errors[-1]}", *advice] if errors else []

    def _log_tail(self) -> str:
        try:
            text = self._log_end(LOG_TAIL_BYTES)
        except OSError as error:
            return f"its log {self.log_path} cannot be read: {error.strerror}"
        lines = [line.rstrip() for line in text.splitlines() if line.strip()][-LOG_TAIL_LINES:]
        if not lines:
            return f"its log {self.log_path} is empty"
        return f"the end of its log {self.log_path}:\n" + "\n".join(f"    {line}" for line in lines)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _signal_group(pgid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, number)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def _marked(mark: str) -> list[psutil.Process]:
    """Processes that inherited ``mark``; those whose environment cannot be read belong to other users."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.append(process)
    return found


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _living_members(pgid: int) -> list[int]:
    """Processes of the group that still run; zombies wait for their own parent and do nothing."""
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return []
    except PermissionError:
        pass
    members = []
    for process in psutil.process_iter(["pid", "status"]):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(process.pid) == pgid and process.info["status"] != psutil.STATUS_ZOMBIE:
                members.append(process.pid)
    return members
