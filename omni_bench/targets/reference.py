"""The bundled reference server, launched for one run."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path

from omni_bench.config.schema import ReferenceConfig, TargetConfig
from omni_bench.targets.base import TargetInfo
from omni_bench.targets.probe import check_port_free, free_port, get, url_of
from omni_bench.targets.process import ServerProcess
from reference_impl.settings import ServerSettings

PROBE_TIMEOUT_S = 2.0


class ReferenceTarget:
    """``python -m reference_impl`` on a free (or the configured) port of ``config.host``."""

    def __init__(self, config: TargetConfig, reference: ReferenceConfig, log_path: Path):
        self._config = config
        self._reference = reference
        self._process: ServerProcess | None = None
        self.log_path: Path | None = log_path
        self.base_url = ""

    def start(self) -> TargetInfo:
        """Launch and wait for a 200 of ``health_path``. Raises TargetError (and leaves no process behind)."""
        config = self._config
        port = config.port or free_port(config.host)
        check_port_free(config.host, port)
        self.base_url = url_of(config.host, port)
        assert self.log_path is not None
        command = server_command(config.host, port, self._reference, parent_pid=os.getpid())
        self._process = ServerProcess(command, self.log_path, server_env())
        try:
            self._process.launch()
            health_url = self.base_url + config.health_path
            startup_s = self._process.wait_until_ready(
                lambda: get(health_url, PROBE_TIMEOUT_S).status == 200, config.startup_timeout_s
            )
        except BaseException:
            self.stop()
            raise
        return TargetInfo(
            kind="reference",
            base_url=self.base_url,
            startup_s=startup_s,
            command=self._process.command,
            health=get(health_url, PROBE_TIMEOUT_S).json(),
            models=get(f"{self.base_url}/v1/models", PROBE_TIMEOUT_S).json(),
        )

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


def server_command(host: str, port: int, reference: ReferenceConfig, parent_pid: int | None = None) -> list[str]:
    """The command line of the server; with ``parent_pid`` it ends itself when that process is gone."""
    # -P: no file of the current folder can stand in for a module.
    command = [sys.executable, "-P", "-m", "reference_impl", "--host", host, "--port", str(port)]
    command += ["--settings", ServerSettings(**asdict(reference)).to_json()]
    return command if parent_pid is None else [*command, "--parent-pid", str(parent_pid)]


def server_env() -> dict[str, str]:
    """The environment of the server: unbuffered logs, and in a checkout the packages beside this one."""
    env = dict(os.environ, PYTHONUNBUFFERED="1")
    root = Path(__file__).resolve().parents[2]
    if (root / "pyproject.toml").is_file():
        env["PYTHONPATH"] = os.pathsep.join([str(root), *filter(None, [env.get("PYTHONPATH")])])
    return env
