"""The kinds of target by the value of ``target.kind``, and from a configuration to a target."""

from __future__ import annotations

from pathlib import Path

from omni_bench.errors import choice
from omni_bench.plugins import Registry
from omni_bench.records.config import RunConfig
from omni_bench.targets import command, external, named_servers, reference
from omni_bench.targets.base import Target, TargetKind
from omni_bench.targets.chaos import ChaosTarget
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS

CHAOS_LOG = "chaos.log"
NAMED = (named_servers.VLLM_OMNI, named_servers.SGLANG_OMNI)
BUILT_IN = (reference.TARGET, external.TARGET, command.TARGET, *NAMED)
TARGETS = Registry("omni_bench.targets", TargetKind, {kind.name: kind for kind in BUILT_IN})


def create_target(config: RunConfig, log_path: Path) -> Target:
    """The target of ``config.target.kind``, behind a proxy that breaks it if ``config.target.chaos`` says so.

    A launched server logs to ``log_path``, the proxy beside it. Raises ConfigError.
    """
    target = TARGETS.require("target.kind", config.target.kind).create(config, log_path)
    if config.target.chaos is None:
        return target
    choice("target.chaos", config.target.chaos, tuple(WIRE_FAULTS))
    fault = WIRE_FAULTS[config.target.chaos]
    return ChaosTarget(target, fault, config.target, log_path.with_name(CHAOS_LOG))
