"""``python -m omni_bench.targets.chaos_proxy``: the proxy as a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import math
import os
import signal
import sys
from collections.abc import Sequence

from omni_bench.errors import ConfigError, OmniBenchError
from omni_bench.load.clients.urls import url_problem
from omni_bench.subprocesses import LISTENING_ON, port, process_id, wait_for_end
from omni_bench.targets.chaos_proxy.catalogue import STALL_S, WIRE_FAULTS, WireFault
from omni_bench.targets.chaos_proxy.proxy import ChaosProxy, serving

log = logging.getLogger("omni_bench.targets.chaos_proxy")

CRASHED = 86
"""Exit status of the injected crash."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to stop; the exit code: 0 after a clean stop, :data:`CRASHED`, else the error's."""
    options = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    fault = WIRE_FAULTS[options.chaos]
    try:
        if (problem := url_problem(options.upstream)) is not None:
            raise ConfigError(f"--upstream {problem}")
        proxy = ChaosProxy(options.upstream, fault, on_crash=_crash, stall_s=options.stall_s)
        asyncio.run(_serve(proxy, fault, options))
    except OmniBenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:  # before the signal handlers were in place
        return 130
    return 0


async def _serve(proxy: ChaosProxy, fault: WireFault, options: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watching = asyncio.create_task(_watch(options.parent_pid, stop)) if options.parent_pid is not None else None
    try:
        async with serving(proxy, options.host, options.port) as (host, port):
            log.warning("FAULT INJECTED at the wire: %s: %s (%s)", fault.name, fault.what, fault.whom)
            log.info("%shttp://%s:%d", LISTENING_ON, f"[{host}]" if ":" in host else host, port)
            await stop.wait()
    finally:
        if watching is not None:
            watching.cancel()


def _crash() -> None:
    """Die as a process does that crashed: nothing is finished, the system closes every connection."""
    log.warning("crashing now")
    logging.shutdown()
    os._exit(CRASHED)


async def _watch(pid: int, stop: asyncio.Event) -> None:
    """Request the stop once process ``pid`` is gone."""
    await wait_for_end(pid)
    stop.set()


def _parser() -> argparse.ArgumentParser:
    lines = [
        f"  {fault.name:<16} {fault.what} ({fault.whom}{f'; {fault.only} alone' if fault.only else ''})"
        for fault in WIRE_FAULTS.values()
    ]
    parser = argparse.ArgumentParser(
        prog="python -m omni_bench.targets.chaos_proxy",
        description="A proxy that injects one fault into the speech requests that pass through it: POST "
        "/v1/audio/speech (samples, WAV or events), POST /v1/chat/completions (events), and the WebSocket "
        "/v1/audio/speech/stream.",
        epilog="faults:\n" + "\n".join(lines) + "\n\nexample: python -m omni_bench.targets.chaos_proxy "
        "--upstream http://127.0.0.1:8091 --chaos cut --port 8092",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--upstream", required=True, metavar="URL", help="the server behind")
    parser.add_argument("--chaos", required=True, choices=tuple(WIRE_FAULTS), metavar="NAME", help="the fault")
    parser.add_argument("--host", type=_loopback, default="127.0.0.1", help="loopback address (default: %(default)s)")
    parser.add_argument("--port", type=port, default=0, help="0 takes any free one (default: %(default)s)")
    parser.add_argument(
        "--stall-s", type=_seconds, default=STALL_S, metavar="S", help="silence of a stall (default: %(default)g)"
    )
    parser.add_argument("--parent-pid", type=process_id, metavar="N", help="end when process N is gone")
    return parser


def _loopback(text: str) -> str:
    try:
        if ipaddress.ip_address(text).is_loopback:
            return text
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not an address of this machine alone; valid: 127.0.0.1, ::1")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isfinite(value) and value >= 0:
        return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds; valid: 0 and up")


if __name__ == "__main__":
    sys.exit(main())
