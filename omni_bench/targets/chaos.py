"""Any target behind a proxy that injects one fault of the wire."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from omni_bench.records.config import TargetConfig
from omni_bench.subprocesses import LISTENING_ON, child_env, module_command
from omni_bench.targets.base import Target, TargetInfo
from omni_bench.targets.chaos_proxy.catalogue import WireFault
from omni_bench.targets.probe import get
from omni_bench.targets.process import ServerProcess
from omni_bench.terminal import say_aside

PROBE_TIMEOUT_S = 2.0
_ADDRESS = re.compile(re.escape(LISTENING_ON) + r"(http://127\.0\.0\.1:\d+)\n")


class ChaosTarget:
    """``inner``, reached through ``python -m omni_bench.targets.chaos_proxy``, listening on a free port of 127.0.0.1.

    The proxy starts after ``inner`` and stops before it; ``chaos_log`` is its log.
    """

    def __init__(self, inner: Target, fault: WireFault, config: TargetConfig, chaos_log: Path):
        self._inner = inner
        self._fault = fault
        self._config = config
        self._chaos_log = chaos_log
        self._proxy: ServerProcess | None = None
        self.base_url = ""
        self.log_path: Path | None = inner.log_path

    def start(self) -> TargetInfo:
        """Start the target, then the proxy before it; the facts are the target's own, at the proxy's address.

        Says on stderr that a fault is injected. Raises TargetError (and leaves no process behind).
        """
        fault = self._fault
        say_aside(f"FAULT INJECTED at the wire: {fault.name}: {fault.what} ({fault.whom})")
        try:
            info = self._inner.start()
            self._proxy = ServerProcess(
                proxy_command(info.base_url, fault.name, os.getpid()),
                self._chaos_log,
                child_env(PYTHONUNBUFFERED="1"),
            )
            self._proxy.launch()
            self._proxy.wait_until_ready(self._unready, self._config.startup_timeout_s)
        except BaseException:
            self.stop()
            raise
        chaos = {**fault.as_dict(), "upstream": info.base_url}
        return replace(info, base_url=self.base_url, chaos=chaos)

    def _unready(self) -> str | None:
        assert self._proxy is not None
        if not self.base_url:
            address = _ADDRESS.search(self._proxy.output())
            if address is None:
                return "the proxy has not bound its port"
            self.base_url = address[1]
        answer = get(self.base_url + self._config.health_path, PROBE_TIMEOUT_S)
        return f"the proxy {answer.said}" if answer.status is None else None

    def is_alive(self) -> bool:
        """False once the target or the proxy is gone."""
        return self._proxy is not None and self._proxy.is_alive() and self._inner.is_alive()

    def failure(self) -> str:
        """Which of the two is gone, and how it ended."""
        if not self._inner.is_alive():
            return self._inner.failure()
        if self._proxy is None:
            return "the proxy of injected faults was not launched"
        return f"FAULT INJECTED at the wire: {self._fault.name}: the proxy before the server: {self._proxy.failure()}"

    def stop(self) -> None:
        """Stop the proxy, then the target."""
        try:
            if self._proxy is not None:
                self._proxy.stop(self._config.stop_timeout_s)
        finally:
            self._inner.stop()


def proxy_command(upstream: str, fault: str, parent_pid: int) -> list[str]:
    """The command line of the proxy; it ends itself when process ``parent_pid`` is gone."""
    arguments = {"--upstream": upstream, "--chaos": fault, "--host": "127.0.0.1", "--port": "0"}
    flat = [part for pair in arguments.items() for part in pair]
    return module_command("omni_bench.targets.chaos_proxy", *flat, "--parent-pid", str(parent_pid))
