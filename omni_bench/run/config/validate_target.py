"""Checks of the values of a target: what each kind needs, and what it cannot take."""

from __future__ import annotations

import json
import math
import re
import shlex

from omni_bench.errors import ConfigError, alternatives
from omni_bench.load.clients.urls import url_problem
from omni_bench.records.config import TargetConfig
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS
from omni_bench.targets.create import NAMED_SERVERS, TARGET_KINDS

_OF_NAMED_SERVERS = ("model", "deploy_config", "stage_overrides", "extra_args")
_DEVICES_VARIABLE = "CUDA_VISIBLE_DEVICES"
_SECRET_VARIABLE = re.compile(r"(?:.*_)?(?:TOKEN|KEY|SECRET|PASSWORD)", re.IGNORECASE)
_SECRET_OPTION = re.compile(r"--(?:api[-_]key|hf[-_]token|admin[-_]api[-_]key)(?:=.*)?", re.DOTALL)


def validate_target(target: TargetConfig) -> None:
    """Raise ConfigError for the first value that cannot be run."""
    if target.kind not in TARGET_KINDS:
        raise ConfigError(f"target.kind={target.kind!r}{alternatives(target.kind, TARGET_KINDS)}")
    if target.kind == "external":
        _external(target)
    elif target.url is not None:
        raise ConfigError(
            f"target.url: the target '{target.kind}' is launched here and takes no URL; "
            "use target=external for a server that already runs"
        )
    if target.kind == "command":
        _command(target)
    elif target.command is not None:
        raise ConfigError(f"target.command is for target=command, not for the target '{target.kind}'")
    if target.kind in NAMED_SERVERS:
        _named_server(target)
    else:
        for name in _OF_NAMED_SERVERS:
            if getattr(target, name):
                kinds = ", ".join(f"target={kind}" for kind in NAMED_SERVERS)
                raise ConfigError(f"target.{name} is for {kinds}, not for the target '{target.kind}'")
    _secrets(target)
    _devices(target)
    if not target.host:
        raise ConfigError("target.host='': an address to bind, such as 127.0.0.1")
    if not 0 <= target.port <= 65535:
        raise ConfigError(f"target.port={target.port}: 0 (a free port is chosen) to 65535")
    if not target.health_path.startswith("/"):
        raise ConfigError(f"target.health_path={target.health_path!r}: a path that starts with '/', such as /health")
    for name in ("startup_timeout_s", "stop_timeout_s"):
        value = getattr(target, name)
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"target.{name}={value}: a finite number above 0")
    if target.chaos is not None and target.chaos not in WIRE_FAULTS:
        raise ConfigError(f"target.chaos={target.chaos!r}{alternatives(target.chaos, WIRE_FAULTS)}")


def _external(target: TargetConfig) -> None:
    if not target.url:
        raise ConfigError("target.url is needed for target=external, such as target.url=http://127.0.0.1:8091")
    if (problem := url_problem(target.url)) is not None:
        raise ConfigError(f"target.url={problem}")
    for name in ("env", "python", "devices", "gpus"):
        if getattr(target, name):
            raise ConfigError(f"target.{name}: the target 'external' is not launched here, so that it cannot be set")


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


def _named_server(target: TargetConfig) -> None:
    if not target.model:
        raise ConfigError(f"target.model is needed for target={target.kind}: a folder with a model, or its hub id")
    if target.model.startswith("-"):
        raise ConfigError(f"target.model={target.model!r}: a folder with a model, or its hub id, and no option")
    if target.stage_overrides and target.kind != "vllm_omni":
        raise ConfigError(f"target.stage_overrides is for target=vllm_omni, not for the target '{target.kind}'")
    try:
        json.dumps(dict(target.stage_overrides), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"target.stage_overrides={target.stage_overrides!r} is not JSON: {error}") from None


def _secrets(target: TargetConfig) -> None:
    """Refuse what would be published with the run, which keeps its configuration. The message repeats no value."""
    kept = "would be stored with the run; a launched server inherits the environment, so export "
    for name in target.env:
        if _SECRET_VARIABLE.fullmatch(name):
            raise ConfigError(f"target.env.{name} looks like a secret and {kept}{name} before the run instead")
    for word in target.extra_args:
        if _SECRET_OPTION.fullmatch(word):
            option = word.partition("=")[0]
            raise ConfigError(
                f"target.extra_args: {option} looks like a secret and {kept}the variable that the server reads it from "
                "instead (such as VLLM_API_KEY, HF_TOKEN)"
            )


def _devices(target: TargetConfig) -> None:
    if target.gpus < 0:
        raise ConfigError(f"target.gpus={target.gpus}: how many GPUs the server needs, 0 for none")
    if target.devices is None:
        return
    bad = [one for one in target.devices if not one.strip() or "," in one]
    if bad or len(set(target.devices)) != len(target.devices):
        raise ConfigError(f"target.devices={target.devices}: the GPUs' numbers or UUIDs, each once, such as [0,1]")
    if target.gpus > len(target.devices):
        raise ConfigError(f"target.devices={target.devices}: fewer than target.gpus={target.gpus}")
    if _DEVICES_VARIABLE in target.env:
        raise ConfigError(f"target.devices and target.env.{_DEVICES_VARIABLE} say the same: give one of them")
