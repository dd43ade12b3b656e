"""What this package adds to vLLM-Omni 0.30.0, by its entry points."""

from __future__ import annotations


def cpu_platform() -> str | None:
    """The platform's class where vLLM is built for the CPU, None elsewhere (``vllm_omni.platform_plugins``)."""
    from vllm.platforms import cpu_platform_plugin

    return "omni_bench_vllm_plugin.platform.CpuOmniPlatform" if cpu_platform_plugin() else None
