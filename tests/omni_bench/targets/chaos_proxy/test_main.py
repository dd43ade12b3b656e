"""The proxy as a process: its address, its crash, its end."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import time

import pytest
from sent import send

from omni_bench.load.clients.session import open_session
from omni_bench.subprocesses import module_command
from omni_bench.targets.chaos_proxy.__main__ import CRASHED, main
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS
from omni_bench.targets.null_server import serving
from omni_bench.targets.probe import get


@pytest.fixture
def start():
    """``start(arguments...)`` -> (process, base_url)."""
    made = []

    def build(*arguments):
        command = module_command("omni_bench.targets.chaos_proxy", *arguments)
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        made.append(process)
        lines = []
        while not (address := re.search(r"listening on (http://127\.0\.0\.1:\d+)\n", "".join(lines))):
            line = process.stderr.readline()
            assert line, "".join(lines)
            lines.append(line)
        return process, address[1], "".join(lines)

    yield build
    for process in made:
        process.kill()
        process.communicate()


async def test_a_crash_is_the_end_of_the_process(start, make_upstream, options):
    upstream = make_upstream()
    upstream.gate.clear()  # streams stand still after two chunks
    async with serving(upstream) as port, open_session(options) as session:
        where = ("--upstream", f"http://127.0.0.1:{port}", "--chaos", "crash_at_c3")
        process, base_url, said = await asyncio.to_thread(start, *where)
        assert "FAULT INJECTED at the wire: crash_at_c3" in said
        how = {"concurrency": 3}
        answers = await asyncio.gather(
            *(send(session, base_url, options, request_id=f"c3-{number}", **how) for number in range(3))
        )
        assert [timeline.error.kind for timeline, _ in answers] == ["disconnected"] * 3
        assert [timeline.request_id for timeline, _ in answers] == ["c3-0", "c3-1", "c3-2"]
        assert await asyncio.to_thread(process.wait, 20) == CRASHED
        after, _ = await send(session, base_url, options, request_id="c3-3", **how)
        assert after.error is not None and after.error.kind == "connect"
        assert get(f"{base_url}/health", 2.0).status is None


def test_it_stops_when_told_and_when_its_parent_is_gone(start):
    process, base_url, _ = start("--upstream", "http://127.0.0.1:9", "--chaos", "cut")
    assert get(f"{base_url}/health", 5.0).status == 502
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0

    parent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        process, _, _ = start(
            "--upstream", "http://127.0.0.1:9", "--chaos", "cut", "--parent-pid", str(parent.pid), "--stall-s", "1.5"
        )
        time.sleep(0.1)
        assert process.poll() is None
    finally:
        parent.kill()
        parent.wait()
    assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--chaos", "cutt", "--upstream", "http://x"], "invalid choice: 'cutt'"),
        (["--upstream", "http://x"], "required: --chaos"),
        (["--chaos", "cut", "--upstream", "http://x", "--host", "0.0.0.0"], "not an address of this machine alone"),
        (["--chaos", "cut", "--upstream", "http://x", "--host", "localhost"], "valid: 127.0.0.1, ::1"),
        (["--chaos", "cut", "--upstream", "http://x", "--port", "65536"], "'65536' is not a port"),
        (["--chaos", "cut", "--upstream", "http://x", "--parent-pid", "0"], "'0' is not a process id"),
        (["--chaos", "cut", "--upstream", "http://x", "--stall-s", "inf"], "'inf' is not a number of seconds"),
        (["--chaos", "cut", "--upstream", "http://x", "--stall-s", "-1"], "'-1' is not a number of seconds"),
    ],
)
def test_usage(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_an_upstream_that_is_no_url(capsys):
    assert main(["--chaos", "cut", "--upstream", "127.0.0.1:80"]) == 2
    assert "--upstream '127.0.0.1:80': not an http or https URL" in capsys.readouterr().err


def test_a_port_in_use(start, capsys):
    _, base_url, _ = start("--upstream", "http://127.0.0.1:9", "--chaos", "cut")
    port = base_url.rpartition(":")[2]
    assert main(["--chaos", "cut", "--upstream", "http://127.0.0.1:9", "--port", port]) == 3
    assert f"cannot listen on --host 127.0.0.1, --port {port}" in capsys.readouterr().err


def test_help_lists_every_fault(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert "slow_drip" in shown and "crash_at_c3" in shown and "example:" in shown
    assert shown.count("every second request") == sum(fault.every == 2 for fault in WIRE_FAULTS.values())
