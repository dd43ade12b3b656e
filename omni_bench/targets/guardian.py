"""Runs a launch command and ends it when whoever asked for it is gone. A script without imports of this package.

python -I guardian.py PARENT_PID GRACE_S COMMAND...

It leads the process group that it was started in. A server of somebody else does not look for the
end of its parent, so that a harness that was killed (``kill -9``, out of memory) would leave a
server behind that holds the port and the card. It ends as the command ends, by the same exit code or signal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

POLL_S = 0.5
CANNOT_EXECUTE = 127


def main(arguments: list[str]) -> int:
    """Launch, wait for the end of the command or of the parent."""
    parent_pid, grace_s, command = int(arguments[0]), float(arguments[1]), arguments[2:]
    # The whole group gets SIGTERM: the command decides how it ends, and this process ends after it.
    signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        child = subprocess.Popen(command)
    except OSError as error:
        print(f"cannot execute {command[0]}: {error.strerror}", flush=True)
        return CANNOT_EXECUTE
    while True:
        try:
            return _same_end(child.wait(POLL_S))
        except subprocess.TimeoutExpired:
            if os.getppid() != parent_pid:
                print(f"stopping: the parent process {parent_pid} is gone", flush=True)
                _end_group(child, grace_s)


def _same_end(code: int) -> int:
    if code >= 0:
        return code
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


def _end_group(child: subprocess.Popen[bytes], grace_s: float) -> None:
    """SIGTERM to all, ``grace_s`` to obey, SIGKILL to all (this process too)."""
    os.killpg(0, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(POLL_S / 5)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
