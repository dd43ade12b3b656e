"""Runs a launch command and ends it when the process that asked for it is gone. A script without package imports.

python -I guardian.py PARENT_PID GRACE_S COMMAND...

It leads the process group that it was started in. Other people's servers do not look for the
end of its parent, so that a harness that was killed (``kill -9``, out of memory) would leave a
server behind that holds the port and the card. It ends as the command ends, by the same exit code or signal,
and leaves none of the command's descendants, also not those with a session of their own: on Linux it adopts
them when their parent dies (a child subreaper, prctl(2)).
Its standard input is the writing end of a pipe, which it closes as soon as the command has ended: the reader
knows then, also while this process is still busy with what is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil

POLL_S = 0.5
REST_GRACE_S = 1.0
"""What descendants may take to obey SIGTERM once the command itself has ended."""
ORPHAN_GRACE_S = 3.0
"""How long the command may take to obey SIGTERM once it is no longer waited for."""
KILL_WAIT_S = 5.0
CANNOT_EXECUTE = 127
PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str]) -> int:
    """Launch, wait for the end of the command or of the parent, end what is left of the command."""
    parent_pid, grace_s, command = int(arguments[0]), float(arguments[1]), arguments[2:]
    # The whole group gets SIGTERM: the command decides how it ends, and this process ends after it.
    signal.signal(signal.SIGTERM, lambda *_: None)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        print(f"cannot execute {command[0]}: {error.strerror}", flush=True)
        return CANNOT_EXECUTE
    while True:
        try:
            code = child.wait(POLL_S)
        except subprocess.TimeoutExpired:
            _bury_adopted(child.pid)
            if os.getppid() != parent_pid:
                print(f"stopping: the parent process {parent_pid} is gone", flush=True)
                _end_command(child, min(grace_s, ORPHAN_GRACE_S))
                end_descendants(REST_GRACE_S)
                return 1
        else:
            os.close(sys.stdin.fileno())
            end_descendants(min(grace_s, REST_GRACE_S))
            return _same_end(code)


def _end_command(child: subprocess.Popen[bytes], grace_s: float) -> None:
    """SIGTERM to all; returns when the command has ended, or after ``grace_s``."""
    _signal_all(psutil.Process.terminate)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(grace_s)


def end_descendants(grace_s: float) -> None:
    """SIGTERM to all processes below this one, ``grace_s`` to obey, then SIGKILL until there is none."""
    _signal_all(psutil.Process.terminate)
    _wait_for_none(grace_s)
    deadline = time.monotonic() + KILL_WAIT_S
    while _living() and time.monotonic() < deadline:  # more than once: one may have been born meanwhile
        _signal_all(psutil.Process.kill)
        _wait_for_none(POLL_S)


def _wait_for_none(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while _living() and time.monotonic() < deadline:
        time.sleep(POLL_S / 10)


def _signal_all(send: Callable[[psutil.Process], None]) -> None:
    for process in _living():
        with contextlib.suppress(psutil.Error):
            send(process)


def _living() -> list[psutil.Process]:
    """Descendants that still run; a zombie does nothing."""
    living = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                living.append(process)
    return living


def _bury_adopted(child_pid: int) -> None:
    """Wait for adopted processes that have ended, so that no zombies pile up; the command itself is left alone."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != child_pid:
            os.waitpid(ended.si_pid, 0)


def _same_end(code: int) -> int:
    if code >= 0:
        return code
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
