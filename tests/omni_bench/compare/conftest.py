"""Hand-made runs for the tests of a comparison: as views, as run folders, and as results of vllm bench."""

from __future__ import annotations

import pytest
from compare_factory import Factory


@pytest.fixture
def make(tmp_path):
    """The factory of runs."""
    return Factory(tmp_path)


@pytest.fixture
def bench_result():
    """A function that makes a result of ``vllm bench serve --save-result`` with vllm-omni's audio fields."""

    def result(concurrency=4, *, slower=1.0, **changes):
        return {
            "date": "20261128-000000",
            "endpoint_type": "openai-audio-speech",
            "backend": "openai-audio-speech",
            "label": None,
            "model_id": "Qwen/Qwen3-TTS",
            "tokenizer_id": "Qwen/Qwen3-TTS",
            "num_prompts": 32,
            "request_rate": "inf",
            "burstiness": 1.0,
            "max_concurrency": concurrency,
            "duration": 20.5,
            "completed": 32,
            "failed": 0,
            "request_throughput": 1.6 / slower,
            "audio_throughput": 5.5 / slower,
            "mean_ttft_ms": 0.0,
            "median_ttft_ms": 0.0,
            "mean_e2el_ms": 900.0 * slower,
            "median_e2el_ms": 880.0 * slower,
            "std_e2el_ms": 40.0,
            "p99_e2el_ms": 1200.0 * slower,
            "mean_audio_rtf": 0.26 * slower,
            "median_audio_rtf": 0.25 * slower,
            "p99_audio_rtf": 0.4 * slower,
            "mean_audio_ttfp_ms": 120.0 * slower,
            "median_audio_ttfp_ms": 110.0 * slower,
            "p90_audio_ttfp_ms": 150.0 * slower,
            "mean_audio_duration_s": 3.4,
            "median_audio_duration_s": 3.3,
            **changes,
        }

    return result
