"""What the settings choose when weights are loaded."""

from __future__ import annotations

import pytest

from reference_impl.loading import load_weights
from reference_impl.settings import ServerSettings


@pytest.mark.parametrize(
    ("more", "recorded"), [({}, True), ({"recorded": False}, False), ({"dtype": "bfloat16"}, False)]
)
def test_a_float32_model_on_a_cpu_is_recorded_unless_told_otherwise(more, recorded):
    model, _ = load_weights(ServerSettings(device="cpu", threads=1, **more))
    assert bool(model.code2wav._recordings) == recorded
    assert (model.talker.step != model.talker._step) == recorded
