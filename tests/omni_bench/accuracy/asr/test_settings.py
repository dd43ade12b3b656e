"""The judge's settings: defaults, limits, and errors that name the value."""

import pytest

from omni_bench.accuracy.asr.settings import JudgeSettings, judge_settings
from omni_bench.errors import ConfigError
from omni_bench.records.config import AsrConfig


def test_the_silence_is_that_of_both_ends():
    assert JudgeSettings(16, 250, 200).silence_s == 0.45


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0, 250, 200), "asr.batch_size=0: at least 1"),
        ((16, -1, 200), "asr.lead_silence_ms=-1: 0 to 5000"),
        ((16, 250, 5001), "asr.tail_silence_ms=5001: 0 to 5000"),
    ],
)
def test_values_out_of_range_are_named(values, message):
    with pytest.raises(ConfigError, match=message):
        JudgeSettings(*values)


@pytest.mark.parametrize(("device", "batch_size"), [("cpu", 8), ("cuda", 16), ("cuda:1", 16)])
def test_the_batch_follows_the_device_unless_it_is_given(device, batch_size):
    asr = AsrConfig(kind="whisper", lead_silence_ms=1, tail_silence_ms=2)
    assert judge_settings(asr, device) == JudgeSettings(batch_size, 1, 2)
    asr.batch_size = 3
    assert judge_settings(asr, device).batch_size == 3
