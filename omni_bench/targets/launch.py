"""The words, the environment and the interpreter of a launch command. Nothing is launched here."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from omni_bench.records.config import TargetConfig
from omni_bench.targets import guardian
from omni_bench.targets.gpus import DEVICES_VARIABLE
from omni_bench.targets.interpreter import interpreter_env


@dataclass(frozen=True)
class NamedServer:
    """A server of another project that is launched by name.

    ``program`` is installed by the Python package ``package``, in the way that ``install`` tells people;
    ``arguments``: its words for a port; ``advice``: what to try when it dies, by a piece of its last error.
    """

    title: str
    program: str
    package: str
    install: str
    arguments: Callable[[TargetConfig, int], list[str]]
    advice: Mapping[str, str] = field(default_factory=dict)


def launch_command(config: TargetConfig, port: int, server: NamedServer | None = None) -> list[str]:
    """The words that launch a server on ``port``: those of ``server``, or those of ``config.command``.

    In the latter {host}, {port} and {python} are filled in; other braces stay as they are.
    """
    if server is not None:
        return [server.program, *server.arguments(config, port)]
    filled = {"{host}": config.host, "{port}": str(port), "{python}": config.python or sys.executable}
    words = shlex.split(config.command or "")
    for placeholder, value in filled.items():
        words = [word.replace(placeholder, value) for word in words]
    return words


def launch_env(config: TargetConfig, server: NamedServer | None = None) -> dict[str, str]:
    """The environment variables of the command: this process's, or those of ``config.python``, and its own.

    A named server is looked for beside this interpreter first, whether its environment is activated or not.
    """
    if config.python is not None:
        env = interpreter_env(config.python, config.env)
    else:
        env = {**os.environ, "PYTHONUNBUFFERED": "1", **config.env}
        if server is not None:
            env["PATH"] = os.pathsep.join(filter(None, (str(Path(sys.executable).parent), env.get("PATH"))))
    return env | device_env(config)


def device_env(config: TargetConfig) -> dict[str, str]:
    """What makes a server see ``config.devices`` alone; nothing if none are named."""
    return {} if config.devices is None else {DEVICES_VARIABLE: ",".join(config.devices)}


def find_program(config: TargetConfig, server: NamedServer | None = None) -> str | None:
    """Where the program of the launch command is, None if it is nowhere on its PATH."""
    return shutil.which(launch_command(config, config.port, server)[0], path=launch_env(config, server).get("PATH"))


def server_python(config: TargetConfig, program: str, server: NamedServer | None = None) -> str | None:
    """The interpreter whose packages ``program`` runs with, None if that cannot be told.

    ``config.python``, or that of the ``bin`` folder in which a named server's program lies (symbolic links followed).
    """
    if config.python is not None or server is None:
        return config.python
    folders = (Path(program).parent, Path(os.path.realpath(program)).parent)
    candidates = (folder / name for folder in folders for name in ("python", "python3"))
    return next((str(path) for path in candidates if os.access(path, os.X_OK) and path.is_file()), None)


def guarded_command(command: list[str], grace_s: float) -> list[str]:
    """``command`` under the guardian, which ends it once this process is gone."""
    return [sys.executable, "-I", guardian.__file__, str(os.getpid()), str(grace_s), *command]
