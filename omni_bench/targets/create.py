"""From configuration to a target."""

from __future__ import annotations

from pathlib import Path

from omni_bench.errors import choice
from omni_bench.records.config import RunConfig
from omni_bench.targets.base import Target
from omni_bench.targets.chaos import ChaosTarget
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS
from omni_bench.targets.command import CommandTarget
from omni_bench.targets.external import ExternalTarget
from omni_bench.targets.reference import ReferenceTarget

CHAOS_LOG = "chaos.log"


def create_target(config: RunConfig, log_path: Path) -> Target:
    """The target of ``config.target.kind``, behind a proxy that breaks it if ``config.target.chaos`` says so.

    A launched server logs to ``log_path``, the proxy beside it. Raises ConfigError.
    """
    choice("target.kind", config.target.kind, TARGET_KINDS)
    target: Target
    if config.target.kind == "reference":
        target = ReferenceTarget(config.target, config.reference, log_path)
    elif config.target.kind == "external":
        target = ExternalTarget(config.target)
    else:
        target = CommandTarget(config.target, log_path)
    if config.target.chaos is None:
        return target
    choice("target.chaos", config.target.chaos, tuple(WIRE_FAULTS))
    fault = WIRE_FAULTS[config.target.chaos]
    return ChaosTarget(target, fault, config.target, log_path.with_name(CHAOS_LOG))


NAMED_SERVERS = ("vllm_omni", "sglang_omni")
"""Launched by their own command; what they are: :mod:`omni_bench.targets.named_servers`."""


TARGET_KINDS = ("reference", "external", "command", *NAMED_SERVERS)
