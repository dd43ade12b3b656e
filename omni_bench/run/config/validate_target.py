"""Checks of the values of a target: what each kind needs, and what it cannot take."""

from __future__ import annotations

import math
import re
import shlex

from omni_bench.errors import ConfigError, alternatives
from omni_bench.records.config import TargetConfig
from omni_bench.targets.base import TargetKind
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS
from omni_bench.targets.create import TARGETS

OWN_KEYS = ("url", "command", "model", "deploy_config", "stage_overrides", "extra_args")
"""Settings that only some kinds of target take."""

_DEVICES_VARIABLE = "CUDA_VISIBLE_DEVICES"
_SECRET_VARIABLE = re.compile(r"(?:.*_)?(?:TOKEN|KEY|SECRET|PASSWORD)", re.IGNORECASE)
_SECRET_OPTION = re.compile(r"--(?:api[-_]key|hf[-_]token|admin[-_]api[-_]key)(?:=.*)?", re.DOTALL)


def validate_target(target: TargetConfig) -> None:
    """Raise ConfigError for the first value that cannot be run."""
    kind = TARGETS.require("target.kind", target.kind)
    for key in OWN_KEYS:
        if getattr(target, key) and key not in kind.takes:
            if key == "url":
                raise ConfigError(
                    f"target.url: the target '{kind.name}' is launched here and takes no URL; "
                    "use target=external for a server that already runs"
                )
            kinds = [one.name for one in TARGETS.usable().values() if isinstance(one, TargetKind) and key in one.takes]
            listed = ", ".join(f"target={name}" for name in kinds)
            raise ConfigError(f"target.{key} is for {listed}, not for the target '{kind.name}'")
    _secrets(target)  # before any message that repeats a value
    kind.validate(target)
    _devices(target)
    if target.cores < 0:
        raise ConfigError(f"target.cores={target.cores}: how many CPU cores the server gets, 0 to share all with it")
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


def _secrets(target: TargetConfig) -> None:
    """Refuse what would be published with the run, which keeps its configuration. The message repeats no value."""
    kept = "would be stored with the run; a launched server inherits the environment, so export "
    for name in target.env:
        if _SECRET_VARIABLE.fullmatch(name):
            raise ConfigError(f"target.env.{name} looks like a secret and {kept}{name} before the run instead")
    words = [("extra_args", word) for word in target.extra_args]
    try:
        command = shlex.split(target.command or "")
    except ValueError:  # which the target's kind will say
        command = (target.command or "").split()
    words += [("command", word) for word in command]
    for key, word in words:
        if _SECRET_OPTION.fullmatch(word):
            option = word.partition("=")[0]
            raise ConfigError(
                f"target.{key}: {option} looks like a secret and {kept}the variable that the server reads it from "
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
