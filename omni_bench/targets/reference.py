"""The bundled reference server, launched for one run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omni_bench.errors import ConfigError, TargetError
from omni_bench.records.config import RunConfig, TargetConfig
from omni_bench.subprocesses import LISTENING_ON, child_env, module_command
from omni_bench.targets.base import OK, PROBLEM, Finding, TargetInfo, TargetKind, checked
from omni_bench.targets.interpreter import Interpreter, ask_interpreter, interpreter_env
from omni_bench.targets.launch import device_env
from omni_bench.targets.probe import ProbeAnswer, check_port_free, free_port, get, url_of
from omni_bench.targets.process import ServerProcess
from reference_impl.faults.catalogue import FAULTS, slow_percent
from reference_impl.settings import BUNDLED, ServerSettings

PROBE_TIMEOUT_S = 2.0
_ADDRESS = re.compile(re.escape(LISTENING_ON) + r"http://(?:\[([^\]\s]+)\]|([^:\s]+)):(\d+)\n")


class ReferenceTarget:
    """``python -m reference_impl`` on a free (or the configured) port of ``config.host``.

    With ``config.python`` it is that environment's reference server, which may be of another version.
    """

    def __init__(self, config: TargetConfig, reference: ServerSettings, log_path: Path):
        self._config = config
        self._reference = reference
        self._process: ServerProcess | None = None
        self.log_path: Path | None = log_path
        self.base_url = ""

    def start(self) -> TargetInfo:
        """Launch and wait for a 200 of ``health_path``. Raises TargetError (and leaves no process behind).

        The address is taken from the server's own log, once it is bound: whatever else may
        answer at the configured port meanwhile is not measured in its place.
        """
        config = self._config
        check_port_free(config.host, config.port)
        assert self.log_path is not None
        interpreter = ask_interpreter(config.python) if config.python is not None else None
        command = server_command(config.host, config.port, self._reference, os.getpid(), interpreter)
        env = server_env() | config.env if interpreter is None else interpreter_env(interpreter.python, config.env)
        self._process = ServerProcess(command, self.log_path, env | device_env(config))
        try:
            self._process.launch()
            startup_s = self._process.wait_until_ready(self._unready, config.startup_timeout_s)
        except BaseException:
            self.stop()
            raise
        return TargetInfo(
            kind="reference",
            base_url=self.base_url,
            startup_s=startup_s,
            # paths of this machine do not belong in a published report
            command=(Path(self._process.command[0]).name, *self._process.command[1:]),
            health=self._health().json(),
            models=get(f"{self.base_url}/v1/models", PROBE_TIMEOUT_S).json(),
            environment=interpreter.as_environment() if interpreter is not None else None,
        )

    def _unready(self) -> str | None:
        assert self._process is not None
        if not self.base_url:
            address = _ADDRESS.search(self._process.output())
            if address is None:
                return "it has not bound its port"
            self.base_url = url_of(address[1] or address[2], int(address[3]))
        answer = self._health()
        return None if answer.status == 200 else f"{self._config.health_path} {answer.said}"

    def _health(self) -> ProbeAnswer:
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


def injected_fault(kind: str, health: Any) -> str | None:
    """The fault that a reference server says is injected into it; None of any other server, whatever it says.

    ``kind``: of the target. One that was not launched here is known by its /health, which tells the hash of its
    checkpoint and a fault of the catalogue.
    """
    fault = health.get("fault") if isinstance(health, Mapping) else None
    if not isinstance(fault, str) or not fault or kind not in ("reference", "external"):
        return None
    is_ours = "checkpoint_sha256" in health and (fault in FAULTS or slow_percent(fault) is not None)
    return fault if kind == "reference" or is_ours else None


def server_command(
    host: str,
    port: int,
    reference: ServerSettings,
    parent_pid: int | None = None,
    interpreter: Interpreter | None = None,
) -> list[str]:
    """The command line of the server; with ``parent_pid`` it ends itself when that process is gone.

    ``interpreter``: of another environment, whose server may know fewer settings; raises TargetError if one of
    those it does not know has a value of its own.
    """
    settings = asdict(reference)
    arguments = ["--host", host, "--port", str(port), "--settings"]
    if interpreter is None:
        command = module_command("reference_impl", *arguments, json.dumps(settings))
    else:
        known = json.dumps(_known_settings(settings, interpreter))
        command = [interpreter.python, "-P", "-m", "reference_impl", *arguments, known]
    return command if parent_pid is None else [*command, "--parent-pid", str(parent_pid)]


def _known_settings(settings: dict[str, Any], interpreter: Interpreter) -> dict[str, Any]:
    """Settings without those that another version does not have, all of which must be at their defaults."""
    if interpreter.settings is None:
        raise TargetError(f"target.python={interpreter.python}: there is no reference_impl in that environment")
    unknown = {name: value for name, value in settings.items() if name not in interpreter.settings}
    defaults = asdict(ServerSettings())
    for name, value in unknown.items():
        if value != defaults[name]:
            raise TargetError(
                f"reference.{name}={value}: the reference server of target.python={interpreter.python} has no such "
                f"setting; it knows {', '.join(interpreter.settings)}"
            )
    return {name: value for name, value in settings.items() if name not in unknown}


def server_env() -> dict[str, str]:
    """The environment of the server: that of every child, and unbuffered logs."""
    return child_env(PYTHONUNBUFFERED="1")


def check_checkpoint(reference: ServerSettings) -> None:
    """Raise ConfigError if ``reference.checkpoint`` is a folder that is not there."""
    folder = Path(reference.checkpoint).absolute()
    if reference.checkpoint not in ("bundled", "random") and not folder.is_dir():
        raise ConfigError(
            f"reference.checkpoint={reference.checkpoint!r}: there is no folder {folder}; "
            "valid: bundled, random, or the folder of a checkpoint"
        )


def _findings(config: RunConfig) -> Iterator[Finding]:
    yield checked("checkpoint", lambda: _checkpoint(config.reference))
    yield checked("port", lambda: _port(config.target.host))


def _checkpoint(reference: ServerSettings) -> Finding:
    given = reference.checkpoint
    if given != "bundled":
        check_checkpoint(reference)
        return Finding(OK, "checkpoint", f"{reference.preset}: {given}")
    folder = BUNDLED[reference.preset]
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        return Finding(PROBLEM, "checkpoint", f"no *.safetensors in {folder}: the installation is incomplete")
    size = sum(path.stat().st_size for path in files)
    count = f"{len(files)} file{'s' * (len(files) > 1)}"
    return Finding(OK, "checkpoint", f"{reference.preset}: {count}, {size / 2**20:.0f} MiB, in {folder}")


def _port(host: str) -> Finding:
    return Finding(OK, "port", f"{host} can be bound, for example port {free_port(host)}")


TARGET = TargetKind(
    name="reference",
    what="The bundled reference server: launched for the run, stopped after it",
    create=lambda config, log_path: ReferenceTarget(config.target, config.reference, log_path),
    findings=_findings,
    check=lambda config: check_checkpoint(config.reference),
)
