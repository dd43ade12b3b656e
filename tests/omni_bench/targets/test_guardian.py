"""The process between the harness and a server: how it ends, and what it leaves."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest
from processes import wait_until

from omni_bench.targets import guardian
from omni_bench.targets.launch import guarded_command
from omni_bench.targets.process import ServerProcess

ORPHANS = """
import subprocess, sys, time
child = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'pass'], start_new_session=True)"
for _ in range(5):
    subprocess.run([sys.executable, "-c", child])
print("made", flush=True)
time.sleep(600)
"""


@pytest.fixture
def guarded(tmp_path):
    made = []

    def launch(code):
        made.append(ServerProcess(guarded_command([sys.executable, "-c", code], 1.0), tmp_path / "log", guarded=True))
        made[-1].launch()
        return made[-1]

    yield launch
    for one in made:
        one.stop(0)


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("import sys; sys.exit(7)", "exit code 7"),
        ("pass", "exit code 0"),
        ("import os; os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        ("import os; os.kill(os.getpid(), 11)", "killed by SIGSEGV"),
    ],
)
def test_it_ends_as_the_command_ends(code, how, guarded):
    process = guarded(code)
    wait_until(lambda: not process.is_alive())
    assert process.failure().startswith(how)


def test_a_command_that_cannot_be_executed(tmp_path):
    process = ServerProcess(guarded_command([str(tmp_path / "nothing")], 1.0), tmp_path / "log", guarded=True)
    process.launch()
    wait_until(lambda: not process.is_alive())
    assert process.failure().startswith(f"exit code {guardian.CANNOT_EXECUTE}")
    assert "nothing: No such file or directory" in process.failure()
    process.stop()


def test_the_end_is_told_while_the_rest_is_still_being_ended(guarded):
    """A child that ignores SIGTERM takes the guardian a second."""
    sleeper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    process = guarded(
        f"import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', {sleeper!r}], stdout=subprocess.PIPE)\n"
        "c.stdout.readline(); sys.exit(3)"
    )
    wait_until(lambda: not process.is_alive())
    assert process._process.poll() is None, "the guardian is still at it"
    assert process.failure().startswith("exit code 3"), "and is waited for"


@pytest.mark.skipif(sys.platform != "linux", reason="adoption is Linux's")
def test_adopted_processes_that_have_ended_are_buried(guarded):
    process = guarded(ORPHANS)
    wait_until(lambda: "made" in process.output())
    leader = psutil.Process(process.pid)
    wait_until(lambda: len(leader.children()) == 1)


def test_stdin_of_the_command_is_empty(guarded):
    process = guarded("import sys; sys.exit(5 if sys.stdin.read() == '' else 6)")
    wait_until(lambda: not process.is_alive())
    assert process.failure().startswith("exit code 5")


def test_no_file_descriptor_is_kept(guarded):
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    for _ in range(3):
        process = guarded("pass")
        wait_until(lambda process=process: not process.is_alive())
        process.stop()
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_parent_that_is_gone_ends_the_command(tmp_path):
    """Its parent is said to be another process than the one that waits for it."""
    code = "import time; print('up', flush=True); time.sleep(600)"
    command = [sys.executable, "-I", guardian.__file__, "1", "1", sys.executable, "-c", code]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=60)
    assert "stopping: the parent process 1 is gone" in out and process.returncode == 1


def test_a_stop_in_the_middle_of_a_launch(guarded):
    process = guarded("import time; time.sleep(600)")
    pid = process.pid
    process.stop(0)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert process.failure().startswith("killed by SIG")
