"""What a target needs before it can be launched, a clear sentence each: for ``doctor``, and before every run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omni_bench.errors import TargetError
from omni_bench.records.config import TargetConfig
from omni_bench.targets.gpus import DEVICES_VARIABLE, other_accelerator, visible_gpus
from omni_bench.targets.interpreter import ask_interpreter
from omni_bench.targets.launch import find_program, launch_command, launch_env, server_python
from omni_bench.targets.model_files import model_problem
from omni_bench.targets.named_servers import SERVERS, Server
from omni_bench.targets.probe import check_port_free, free_port

OK, NOTE, PROBLEM = "ok", "note", "PROBLEM"
LAUNCH_COMMAND_KINDS = ("command", *SERVERS)


@dataclass(frozen=True)
class Finding:
    """One line: ``state`` is ``ok``, ``note`` (something is not to be had, the job goes on) or ``PROBLEM``."""

    state: str
    what: str
    detail: str


def check_target(config: TargetConfig) -> None:
    """Raise TargetError, with every problem in a line, if the target cannot be launched here."""
    problems = [finding.detail for finding in preflight(config) if finding.state == PROBLEM]
    if problems:
        raise TargetError("\n  ".join(problems))


def preflight(config: TargetConfig) -> Iterator[Finding]:
    """The findings about a target that a command launches, one by one as they are made; none about any other kind."""
    if config.kind not in LAUNCH_COMMAND_KINDS:
        return
    yield from installed(config)
    if config.gpus or config.devices is not None:
        yield _gpus(config)
    if config.kind in SERVERS:
        yield _model(config)
        if config.deploy_config is not None:
            yield _deploy_config(config.deploy_config)
    yield _port(config)


def installed(config: TargetConfig) -> Iterator[Finding]:
    """Whether the program is there and, of a named server, the package that it needs."""
    program = find_program(config)
    server = SERVERS.get(config.kind)
    what = "program" if server is None else server.package
    if program is None:
        yield Finding(PROBLEM, what, missing_program(config))
        return
    if server is None:
        yield Finding(OK, what, f"target.command: {program}")
        return
    yield _package(config, server, program)


def missing_program(config: TargetConfig) -> str:
    """The sentence about a launch command whose program is nowhere."""
    name = launch_command(config, config.port)[0]
    server = SERVERS.get(config.kind)
    if server is None:
        return f"target.command={config.command!r}: there is no program {name!r}"
    where, ways = "this environment or", f"{server.install}, or target.python=/PATH/TO/ENV/bin/python of another"
    if config.python is not None:
        where, ways = f"the environment of target.python={config.python} or", server.install
    return f"{server.title} is not installed: there is no program {name!r} in {where} on PATH ({ways})"


def _package(config: TargetConfig, server: Server, program: str) -> Finding:
    python = server_python(config, program)
    if python is None:
        return Finding(NOTE, server.package, f"{program} is there; of which version cannot be told")
    try:
        found = ask_interpreter(python)
    except TargetError as error:
        return Finding(PROBLEM, server.package, str(error))
    version = found.package_version(server.package)
    if version is None:
        return Finding(
            PROBLEM,
            server.package,
            f"{server.title} is not installed: {program} is there, but {python} knows no package {server.package} "
            f"({server.install})",
        )
    commit = found.package_commit(server.package)
    of = f" of commit {commit[:12]}" if commit else ""
    return Finding(OK, server.package, f"{version}{of} is installed: {program}")


def _gpus(config: TargetConfig) -> Finding:
    env, needed = launch_env(config), max(config.gpus, len(config.devices or ()))
    gpus = visible_gpus(env)
    if gpus is None:
        other = other_accelerator()
        if other is not None:
            return Finding(NOTE, "GPU", f"{other} instead of an NVIDIA GPU: how many there are is not checked")
        return Finding(
            PROBLEM,
            "GPU",
            f"target={config.kind} needs {_count(needed)} (target.gpus, target.devices), and nvidia-smi shows none "
            "here; target.gpus=0 is for a server that runs without",
        )
    names = ", ".join(f"{gpu.index} {gpu.name}" for gpu in gpus) or "none"
    if len(gpus) < needed:
        listed = f" within {DEVICES_VARIABLE}={env[DEVICES_VARIABLE]}" if DEVICES_VARIABLE in env else ""
        return Finding(
            PROBLEM, "GPU", f"target={config.kind} needs {_count(needed)}, and there are {len(gpus)}{listed}: {names}"
        )
    return Finding(OK, "GPU", f"{_count(needed)} needed, {len(gpus)} visible: {names}")


def _count(gpus: int) -> str:
    return "1 GPU" if gpus == 1 else f"{gpus} GPUs"


def _model(config: TargetConfig) -> Finding:
    model = str(config.model)
    problem = model_problem(model, launch_env(config))
    if problem is not None:
        return Finding(PROBLEM, "model", f"target.model={model}: {problem}")
    return Finding(OK, "model", f"{model} is here")


def _deploy_config(path: str) -> Finding:
    if not Path(path).is_file():
        return Finding(PROBLEM, "deploy file", f"target.deploy_config={path}: there is no such file")
    readable = os.access(path, os.R_OK)
    return Finding(OK if readable else PROBLEM, "deploy file", path if readable else f"{path} cannot be read")


def _port(config: TargetConfig) -> Finding:
    try:
        check_port_free(config.host, config.port)
    except TargetError as error:
        return Finding(PROBLEM, "port", str(error))
    port = config.port or free_port(config.host)
    return Finding(OK, "port", f"{config.host}:{port} can be bound")
