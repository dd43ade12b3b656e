"""Any server that a command launches: one that the user gives, or that of a named server."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import time
from pathlib import Path

import psutil

from omni_bench.errors import ConfigError, TargetError
from omni_bench.records.api_key import ApiKey, key_of
from omni_bench.records.config import TargetConfig
from omni_bench.targets.base import TargetInfo, TargetKind
from omni_bench.targets.gpus import gpu_processes, left_behind
from omni_bench.targets.interpreter import Interpreter, ask_interpreter
from omni_bench.targets.launch import NamedServer, guarded_command, launch_command, launch_env, server_python
from omni_bench.targets.preflight import check_target, missing_program, preflight
from omni_bench.targets.probe import ProbeAnswer, check_port_free, free_port, get, key_advice, url_of
from omni_bench.targets.process import ServerProcess
from omni_bench.terminal import say_aside

PROBE_TIMEOUT_S = 2.0
NO_SUCH_PATH = (404, 405)
NO_PATH_S = 60.0
"""A server that listens, and has had no such path for so long, will not get one."""


class CommandTarget:
    """The server that a command launches, ``server``'s or the user's, without a shell and in the foreground.

    It is ready when ``health_path`` answers with a 2xx and ``/v1/models`` with no server error (or when it has no such
    path and lists its models), and ended with all of its processes. It runs under :mod:`omni_bench.targets.guardian`,
    so that it ends too if this process is killed.
    """

    def __init__(
        self, config: TargetConfig, log_path: Path, server: NamedServer | None = None, key: ApiKey | None = None
    ):
        self._config = config
        self._key = key
        self._server = server
        self._process: ServerProcess | None = None
        self._no_path_since: float | None = None
        self._on_gpus_before: dict[int, str] | None = None
        self.log_path: Path | None = log_path
        self._folder = log_path.parent
        self.base_url = ""

    def start(self) -> TargetInfo:
        """Launch and wait until ready. Raises TargetError (and leaves no process behind)."""
        config = self._config
        assert self.log_path is not None
        port = config.port or free_port(config.host)
        check_port_free(config.host, port)
        self.base_url = url_of(config.host, port)
        command, env = launch_command(config, port, self._server), launch_env(config, self._server)
        program = shutil.which(command[0], path=env.get("PATH"))
        if program is None:
            raise TargetError(missing_program(config, self._server))
        python = server_python(config, program, self._server)
        interpreter = ask_interpreter(python) if python is not None else None
        self._on_gpus_before = gpu_processes()
        self._process = ServerProcess(
            guarded_command([program, *command[1:]], config.stop_timeout_s),
            self.log_path,
            env,
            guarded=True,
            advice=self._server.advice if self._server else None,
        )
        try:
            self._process.launch()
            startup_s = self._process.wait_until_ready(self._unready, config.startup_timeout_s)
            _refuse_stranger(port, self._process.pid)
        except BaseException:
            self.stop()
            raise
        return self._info(command, interpreter, startup_s)

    def _info(self, command: list[str], interpreter: Interpreter | None, startup_s: float) -> TargetInfo:
        server = self._server
        return TargetInfo(
            kind=self._config.kind,
            base_url=self.base_url,
            startup_s=startup_s,
            # paths of this machine do not belong in a published report
            command=(Path(command[0]).name, *(word.replace(f"{self._folder}/", "") for word in command[1:])),
            health=self._get(self._config.health_path).json(),
            models=self._get("/v1/models").json(),
            environment=interpreter.as_environment() if interpreter is not None else None,
            version=interpreter.package_version(server.package) if server and interpreter else None,
            commit=interpreter.package_commit(server.package) if server and interpreter else None,
            stated_version=self._get("/version").json(),
        )

    def _unready(self) -> str | None:
        health = self._get(self._config.health_path)
        if advice := key_advice(health.status, self._key):
            raise TargetError(f"the server {health.said} at {self._config.health_path}: {advice}")
        if health.status in NO_SUCH_PATH:
            return self._without_health(health)
        self._no_path_since = None
        if health.status is None or not 200 <= health.status < 300:
            return f"{self._config.health_path} {health.said}"
        models = self._get("/v1/models")  # 404 and the like: not every server lists its models
        return f"/v1/models {models.said}" if models.status is None or models.status >= 500 else None

    def _without_health(self, health: ProbeAnswer) -> str | None:
        if self._get("/v1/models").status == 200:
            return None
        now_s = time.monotonic()
        self._no_path_since = now_s if self._no_path_since is None else self._no_path_since
        why = f"{self._config.health_path} {health.said}, and /v1/models lists nothing"
        advice = "set target.health_path to a path that answers with 200 once the server is ready"
        if now_s - self._no_path_since > NO_PATH_S:
            raise TargetError(f"the server listens, but for {NO_PATH_S:g} s {why}; {advice}")
        return f"{why}; {advice}"

    def _get(self, path: str) -> ProbeAnswer:
        return get(self.base_url + path, PROBE_TIMEOUT_S, self._key)

    def is_alive(self) -> bool:
        """True while the launched process runs."""
        return self._process is not None and self._process.is_alive()

    def failure(self) -> str:
        """How the server ended, and the end of its log."""
        return self._process.failure() if self._process else "not launched"

    def stop(self) -> None:
        """End the server and its children within ``stop_timeout_s``, by force if need be.

        Says on stderr if a process is still on a GPU that was not there before the launch.
        """
        if self._process is None:
            return
        self._process.stop(self._config.stop_timeout_s)
        before, self._on_gpus_before = self._on_gpus_before, None
        left = left_behind(before)
        if left:
            listed = ", ".join(f"process {pid} on {gpu}" for pid, gpu in sorted(left.items()))
            say_aside(f"warning: the server is stopped, but since its launch came to stay: {listed}")


def _refuse_stranger(port: int, pid: int | None) -> None:
    """Raise TargetError if a server from before the launch has taken the port meanwhile and answers in our place.

    ``pid``: of the launch. A process that the command had another program start (a container) is younger than the
    launch, and fine; what the system does not let us see is believed.
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
            older, name = process.create_time() < psutil.Process(pid).create_time(), process.name()
        except (psutil.Error, OSError):
            continue
        if older and not own:
            raise TargetError(
                f"port {port} is answered by process {one.pid} ({name}), which was not launched here; "
                "stop that server or choose another target.port"
            )


def _command(target: TargetConfig) -> None:
    if not target.command:
        raise ConfigError(
            "target.command is needed for target=command: what launches the server, in the foreground, with {host} "
            "and {port} where those belong"
        )
    try:
        words = shlex.split(target.command)
    except ValueError as error:
        raise ConfigError(f"target.command={target.command!r}: {str(error).lower()}") from None
    if not words:
        raise ConfigError(f"target.command={target.command!r}: names no program")
    if target.port == 0 and "{port}" not in target.command:
        raise ConfigError(
            f"target.command={target.command!r}: needs {{port}} where the port belongs, or target.port=N if the "
            "command always takes port N"
        )


TARGET = TargetKind(
    name="command",
    what="Any server by its launch command (target.command, with {host} and {port}): stopped after the run, children "
    "and all",
    create=lambda config, log_path: CommandTarget(config.target, log_path, key=key_of(config.client)),
    findings=lambda config: preflight(config.target),
    validate=_command,
    check=lambda config: check_target(config.target),
    takes=("command",),
    defaults={"startup_timeout_s": 900.0},
)


def launched(name: str, what: str, server: NamedServer, *own_keys: str) -> TargetKind:
    """The target ``name`` of a server that is launched by its own command. ``own_keys``: those it takes beside model,
    deploy_config and extra_args."""
    return TargetKind(
        name=name,
        what=what,
        create=lambda config, log_path: CommandTarget(config.target, log_path, server, key_of(config.client)),
        findings=lambda config: preflight(config.target, server),
        validate=_named_server,
        check=lambda config: check_target(config.target, server),
        takes=("model", "deploy_config", "extra_args", *own_keys),
        # ``model``: a folder, or a hub id whose files are in the local cache: nothing is downloaded
        defaults={
            "model": "${client.model}",
            "gpus": 1,
            "env": {"HF_HUB_OFFLINE": "1"},
            "startup_timeout_s": 900.0,
            "stop_timeout_s": 30.0,
        },
        server=server,
    )


def _named_server(target: TargetConfig) -> None:
    if not target.model:
        raise ConfigError(f"client.model, or target.model, is needed for target={target.kind}: a folder, or a hub id")
    if target.model.startswith("-"):
        raise ConfigError(f"client.model, or target.model, is {target.model!r}: a folder or a hub id, and no option")
    try:
        json.dumps(dict(target.stage_overrides), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"target.stage_overrides={target.stage_overrides!r} is not JSON: {error}") from None
