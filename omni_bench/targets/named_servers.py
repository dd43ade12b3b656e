"""Servers launched by name. Their command lines are those of vLLM-Omni's CLI guide and of SGLang-Omni's
sglang_omni/cli/serve.py (both 2026)."""

from __future__ import annotations

import json

from omni_bench.records.config import TargetConfig
from omni_bench.targets.command import launched
from omni_bench.targets.launch import NamedServer


def _vllm_omni(config: TargetConfig, port: int) -> list[str]:
    words = ["serve", str(config.model), "--omni", "--host", config.host, "--port", str(port)]
    if config.deploy_config is not None:
        words += ["--deploy-config", config.deploy_config]
    if config.stage_overrides:
        words += ["--stage-overrides", json.dumps(dict(config.stage_overrides))]
    return [*words, *config.extra_args]


# Seen in 0.20.0 at 32 sequences with its shipped 512 tokens: a prompt that is split over two steps ends stage 0.
_VLLM_OMNI_ADVICE = {
    "Missing tts_pad_embed": "more max_num_batched_tokens in stage 0, so that no prompt is split over two steps "
    "(target.stage_overrides={0:{max_num_batched_tokens:1024}}), or a lower load.concurrency"
}

VLLM_OMNI = launched(
    "vllm_omni",
    "vLLM-Omni, launched for the run: vllm serve MODEL --omni, with target.deploy_config, target.stage_overrides",
    NamedServer("vLLM-Omni", "vllm", "vllm-omni", "pip install vllm vllm-omni", _vllm_omni, _VLLM_OMNI_ADVICE),
    "stage_overrides",
)


def _sglang_omni(config: TargetConfig, port: int) -> list[str]:
    words = ["serve", "--model-path", str(config.model), "--host", config.host, "--port", str(port)]
    if config.deploy_config is not None:
        words += ["--config", config.deploy_config]
    return [*words, *config.extra_args]


SGLANG_OMNI = launched(
    "sglang_omni",
    "SGLang-Omni, launched for the run: sgl-omni serve --model-path MODEL, with target.deploy_config",
    NamedServer("SGLang-Omni", "sgl-omni", "sglang-omni", "see github.com/sgl-project/sglang-omni", _sglang_omni),
)
