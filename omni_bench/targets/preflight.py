"""What a target needs before it can be launched, a clear sentence each: for ``doctor``, and before every run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from omni_bench.errors import TargetError
from omni_bench.records.config import TargetConfig
from omni_bench.targets.base import NOTE, OK, PROBLEM, Finding
from omni_bench.targets.gpus import DEVICES_VARIABLE, other_accelerator, visible_gpus
from omni_bench.targets.interpreter import ask_interpreter
from omni_bench.targets.launch import NamedServer, find_program, launch_command, launch_env, server_python
from omni_bench.targets.probe import check_port_free, free_port


def check_target(config: TargetConfig, server: NamedServer | None = None) -> None:
    """Raise TargetError, with every problem in a line, if the target cannot be launched here."""
    problems = [finding.detail for finding in preflight(config, server) if finding.state == PROBLEM]
    if problems:
        raise TargetError("\n  ".join(problems))


def preflight(config: TargetConfig, server: NamedServer | None = None) -> Iterator[Finding]:
    """The findings about a target that ``server``'s or the user's command launches, one by one as they are made."""
    yield from installed(config, server)
    if config.gpus or config.devices is not None:
        yield _gpus(config, server)
    if server is not None:
        yield _model(config, server)
        if config.deploy_config is not None:
            yield _deploy_config(config.deploy_config)
    yield _port(config)


def installed(config: TargetConfig, server: NamedServer | None = None) -> Iterator[Finding]:
    """Whether the program is there and, of a named server, the package that it needs."""
    program = find_program(config, server)
    what = "program" if server is None else server.package
    if program is None:
        yield Finding(PROBLEM, what, missing_program(config, server))
        return
    if server is None:
        yield Finding(OK, what, f"target.command: {program}")
        return
    yield _package(config, server, program)


def missing_program(config: TargetConfig, server: NamedServer | None = None) -> str:
    """The sentence about a launch command whose program is nowhere."""
    name = launch_command(config, config.port, server)[0]
    if server is None:
        return f"target.command={config.command!r}: there is no program {name!r}"
    where, ways = "this environment or", f"{server.install}, or target.python=/PATH/TO/ENV/bin/python of another"
    if config.python is not None:
        where, ways = f"the environment of target.python={config.python} or", server.install
    return f"{server.title} is not installed: there is no program {name!r} in {where} on PATH ({ways})"


def _package(config: TargetConfig, server: NamedServer, program: str) -> Finding:
    python = server_python(config, program, server)
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


def _gpus(config: TargetConfig, server: NamedServer | None) -> Finding:
    env, needed = launch_env(config, server), max(config.gpus, len(config.devices or ()))
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


def _model(config: TargetConfig, server: NamedServer) -> Finding:
    model = str(config.model)
    problem = model_problem(model, launch_env(config, server))
    if problem is not None:
        return Finding(PROBLEM, "model", f"client.model, or target.model, is {model}: {problem}")
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


CONFIG_FILE = "config.json"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+|[A-Za-z0-9][\w.-]*")


def model_problem(model: str, env: Mapping[str, str]) -> str | None:
    """Why a server with the environment ``env`` cannot load ``model`` from this machine, None if it can.

    A model is a folder with a config.json, or a hub id with a snapshot in the cache that holds one. Whether all the
    weights are there too only the server knows.
    """
    folder = Path(os.path.expanduser(model))
    if folder.is_dir():
        return None if (folder / CONFIG_FILE).is_file() else f"the folder has no {CONFIG_FILE}, so that it is no model"
    if model.startswith((".", "/", "~")) or not _HUB_ID.fullmatch(model):
        return "there is no such folder"
    cache = hub_cache(env)
    snapshots = cache / f"models--{model.replace('/', '--')}" / "snapshots"
    if any(snapshots.glob(f"*/{CONFIG_FILE}")):
        return None
    return (
        f"neither a folder nor in the local cache of the hub ({cache}); omni-bench downloads no models: fetch it first "
        f"(hf download {model}), or give the folder it is in"
    )


def hub_cache(env: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps its files, by the variables that it documents."""
    home = Path(env.get("HOME") or Path.home())
    candidates = (env.get("HF_HUB_CACHE"), env.get("HUGGINGFACE_HUB_CACHE"))
    if (given := next(filter(None, candidates), None)) is not None:
        return Path(os.path.expanduser(given))
    if env.get("HF_HOME"):
        return Path(os.path.expanduser(env["HF_HOME"])) / "hub"
    return Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "huggingface" / "hub"
