"""What keeps an engine from starting is one clear error."""

from __future__ import annotations

import pytest
import torch

from omni_bench.errors import CheckpointError, ConfigError
from reference_impl.build import build_engine
from reference_impl.settings import ServerSettings


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"preset": "huge"}, ConfigError, "valid: tiny"),
        ({"device": "tpu9"}, ConfigError, "valid: auto, cpu"),
        ({"dtype": "int4"}, ConfigError, "valid: auto, float32"),
        ({"predictor": "graph"}, ConfigError, "valid: kv_cache, reprefill, fixed_window"),
        ({"preset": "qwen3_tts_0_6b"}, CheckpointError, "no weights of qwen3_tts_0_6b come with this package"),
        ({"checkpoint": "/no/such/folder"}, CheckpointError, "no such folder"),
    ],
)
def test_bad_settings_are_one_clear_error(settings, error, match):
    with pytest.raises(error, match=match):
        build_engine(ServerSettings(**settings))


def test_a_fault_is_never_silently_left_out() -> None:
    with pytest.raises(ConfigError, match="needs graphs=off"):
        build_engine(ServerSettings(device="cpu", fault="stale_rows", graphs="full_step"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="then it is built")
def test_a_slowdown_goes_with_a_step_that_is_one_graph() -> None:
    with pytest.raises(ConfigError, match="needs a CUDA device"):
        build_engine(ServerSettings(device="cpu", fault="slow_8", graphs="full_step"))
