"""What the settings choose when weights are loaded."""

from __future__ import annotations

import pytest
import torch

from omni_bench.errors import ConfigError
from reference_impl.loading.from_settings import load_weights, resolve_device
from reference_impl.settings import ServerSettings


@pytest.mark.parametrize(
    ("more", "recorded"), [({}, True), ({"recorded": False}, False), ({"dtype": "bfloat16"}, False)]
)
def test_a_float32_model_on_a_cpu_is_recorded_unless_told_otherwise(more, recorded):
    model, _ = load_weights(ServerSettings(device="cpu", threads=1, **more))
    assert bool(model.code2wav._recordings) == recorded
    assert (model.talker.step != model.talker._step) == recorded


def test_a_device_that_is_not_there_is_named_with_those_that_are(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ConfigError, match="'cuda:2': this machine has cuda:0 to cuda:1"):
        resolve_device("cuda:2")
