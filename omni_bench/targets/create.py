"""From configuration to a target."""

from __future__ import annotations

from pathlib import Path

from omni_bench.config.schema import RunConfig
from omni_bench.config.validate import TARGET_KINDS, choice
from omni_bench.targets.base import Target
from omni_bench.targets.external import ExternalTarget
from omni_bench.targets.reference import ReferenceTarget


def create_target(config: RunConfig, log_path: Path) -> Target:
    """The target of ``config.target.kind``; a launched server logs to ``log_path``. Raises ConfigError."""
    choice("target.kind", config.target.kind, TARGET_KINDS)
    if config.target.kind == "reference":
        return ReferenceTarget(config.target, config.reference, log_path)
    return ExternalTarget(config.target)
