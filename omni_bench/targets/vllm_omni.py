"""vLLM-Omni, launched by name. The command line is that of its CLI guide (2026)."""

from __future__ import annotations

import json

from omni_bench.records.config import TargetConfig
from omni_bench.targets.command import launched
from omni_bench.targets.launch import NamedServer


def _arguments(config: TargetConfig, port: int) -> list[str]:
    words = ["serve", str(config.model), "--omni", "--host", config.host, "--port", str(port)]
    if config.deploy_config is not None:
        words += ["--deploy-config", config.deploy_config]
    if config.stage_overrides:
        words += ["--stage-overrides", json.dumps(dict(config.stage_overrides))]
    return [*words, *config.extra_args]


TARGET = launched(
    "vllm_omni",
    "vLLM-Omni, launched for the run: vllm serve MODEL --omni, with target.deploy_config, target.stage_overrides",
    NamedServer("vLLM-Omni", "vllm", "vllm-omni", "pip install vllm vllm-omni", _arguments),
    "stage_overrides",
)
