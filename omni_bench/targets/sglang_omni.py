"""SGLang-Omni, launched by name. The command line is that of its sglang_omni/cli/serve.py (2026)."""

from __future__ import annotations

from omni_bench.records.config import TargetConfig
from omni_bench.targets.command import launched
from omni_bench.targets.launch import NamedServer


def _arguments(config: TargetConfig, port: int) -> list[str]:
    words = ["serve", "--model-path", str(config.model), "--host", config.host, "--port", str(port)]
    if config.deploy_config is not None:
        words += ["--config", config.deploy_config]
    return [*words, *config.extra_args]


TARGET = launched(
    "sglang_omni",
    "SGLang-Omni, launched for the run: sgl-omni serve --model-path MODEL, with target.deploy_config",
    NamedServer("SGLang-Omni", "sgl-omni", "sglang-omni", "see github.com/sgl-project/sglang-omni", _arguments),
)
