"""Servers of other projects that are launched by name: what they are called, installed as, and started with.

Their command lines are those of vllm-omni's CLI guide and of sglang_omni/cli/serve.py (both in 2026).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from omni_bench.records.config import TargetConfig


@dataclass(frozen=True)
class Server:
    """One kind of server. ``program`` is installed by ``package``; ``arguments`` are its words for a port."""

    kind: str
    title: str
    program: str
    package: str
    install: str
    arguments: Callable[[TargetConfig, int], list[str]]


def _vllm_omni(config: TargetConfig, port: int) -> list[str]:
    words = ["serve", str(config.model), "--omni", "--host", config.host, "--port", str(port)]
    if config.deploy_config is not None:
        words += ["--deploy-config", config.deploy_config]
    if config.stage_overrides:
        words += ["--stage-overrides", json.dumps(dict(config.stage_overrides))]
    return [*words, *config.extra_args]


def _sglang_omni(config: TargetConfig, port: int) -> list[str]:
    words = ["serve", "--model-path", str(config.model), "--host", config.host, "--port", str(port)]
    if config.deploy_config is not None:
        words += ["--config", config.deploy_config]
    return [*words, *config.extra_args]


SERVERS = {
    one.kind: one
    for one in (
        Server("vllm_omni", "vLLM-Omni", "vllm", "vllm-omni", "pip install vllm vllm-omni", _vllm_omni),
        Server(
            "sglang_omni",
            "SGLang-Omni",
            "sgl-omni",
            "sglang-omni",
            "see github.com/sgl-project/sglang-omni",
            _sglang_omni,
        ),
    )
}
"""By ``target.kind``."""
