"""Any server by its launch command."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from pathlib import Path

import psutil

from omni_bench.config.schema import TargetConfig
from omni_bench.errors import TargetError
from omni_bench.targets import guardian
from omni_bench.targets.base import TargetInfo
from omni_bench.targets.interpreter import Interpreter, ask_interpreter, interpreter_env
from omni_bench.targets.probe import Answer, check_port_free, free_port, get, url_of
from omni_bench.targets.process import ServerProcess

PROBE_TIMEOUT_S = 2.0


class CommandTarget:
    """The server that ``config.command`` launches, without a shell and in the foreground.

    It is ready when ``health_path`` answers with a 2xx, and ended with its whole process group. It runs under
    :mod:`omni_bench.targets.guardian`, so that it ends too if this process is killed.
    """

    def __init__(self, config: TargetConfig, log_path: Path):
        self._config = config
        self._process: ServerProcess | None = None
        self.log_path: Path | None = log_path
        self.base_url = ""

    def start(self) -> TargetInfo:
        """Launch and wait until ready. Raises TargetError (and leaves no process behind)."""
        config = self._config
        assert self.log_path is not None
        interpreter = ask_interpreter(config.python) if config.python is not None else None
        port = config.port or free_port(config.host)
        check_port_free(config.host, port)
        self.base_url = url_of(config.host, port)
        command = launch_command(config, port)
        env = launch_env(config, interpreter)
        if shutil.which(command[0], path=env.get("PATH")) is None:
            raise TargetError(f"target.command={config.command!r}: there is no program {command[0]!r}")
        self._process = ServerProcess(guarded_command(command, config.stop_timeout_s), self.log_path, env)
        launched_at = time.time()
        try:
            self._process.launch()
            startup_s = self._process.wait_until_ready(self._is_ready, config.startup_timeout_s)
            _refuse_stranger(port, self._process.pid, launched_at)
        except BaseException:
            self.stop()
            raise
        return TargetInfo(
            kind="command",
            base_url=self.base_url,
            startup_s=startup_s,
            # where programs live on this machine is nobody's business in a published report
            command=(Path(command[0]).name, *command[1:]),
            health=self._health().json(),
            models=get(f"{self.base_url}/v1/models", PROBE_TIMEOUT_S).json(),
            environment=interpreter.as_environment() if interpreter is not None else None,
        )

    def _is_ready(self) -> bool:
        status = self._health().status
        return status is not None and 200 <= status < 300

    def _health(self) -> Answer:
        return get(self.base_url + self._config.health_path, PROBE_TIMEOUT_S)

    def is_alive(self) -> bool:
        """True while the launched process runs."""
        return self._process is not None and self._process.is_alive()

    def failure(self) -> str:
        """How the server ended, and the end of its log."""
        return self._process.failure() if self._process else "not launched"

    def stop(self) -> None:
        """End the server and its children within ``stop_timeout_s``, by force if need be."""
        if self._process is not None:
            self._process.stop(self._config.stop_timeout_s)


def launch_command(config: TargetConfig, port: int) -> list[str]:
    """The words of ``config.command`` with {host}, {port} and {python} filled in; other braces stay as they are."""
    filled = {"{host}": config.host, "{port}": str(port), "{python}": config.python or sys.executable}
    words = shlex.split(config.command or "")
    for placeholder, value in filled.items():
        words = [word.replace(placeholder, value) for word in words]
    return words


def launch_env(config: TargetConfig, interpreter: Interpreter | None) -> dict[str, str]:
    """The environment variables of the command: this process's, or those of the other environment, and its own."""
    if interpreter is not None:
        return interpreter_env(interpreter.python, config.env)
    return {**os.environ, "PYTHONUNBUFFERED": "1", **config.env}


def guarded_command(command: list[str], grace_s: float) -> list[str]:
    """``command`` under the guardian, which ends it once this process is gone."""
    return [sys.executable, "-I", guardian.__file__, str(os.getpid()), str(grace_s), *command]


def _refuse_stranger(port: int, pid: int | None, launched_at: float) -> None:
    """Raise TargetError if a server from before the launch has taken the port meanwhile and answers in our place.

    A process that the command had somebody else start (a container) is younger than the launch, and fine; what the
    system does not let us see is believed.
    """
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:
        return
    for one in connections:
        if one.status != psutil.CONN_LISTEN or one.laddr.port != port or one.pid is None:
            continue
        try:
            process = psutil.Process(one.pid)
            own = os.getpgid(one.pid) == pid
            older, name = process.create_time() < launched_at, process.name()
        except (psutil.Error, OSError):
            continue
        if older and not own:
            raise TargetError(
                f"port {port} is answered by process {one.pid} ({name}), which target.command did not start; "
                "stop that server or choose another target.port"
            )
