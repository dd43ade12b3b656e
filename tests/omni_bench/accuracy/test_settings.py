import pytest

from omni_bench.accuracy.settings import JudgeSettings
from omni_bench.errors import ConfigError


def test_the_silence_is_that_of_both_ends():
    assert JudgeSettings(16, 250, 200).silence_s == 0.45


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0, 250, 200), "asr.batch_size=0, valid are 1 and more"),
        ((16, -1, 200), "asr.lead_silence_ms=-1, valid are 0 to 5000"),
        ((16, 250, 5001), "asr.tail_silence_ms=5001, valid are 0 to 5000"),
    ],
)
def test_values_out_of_range_are_named(values, message):
    with pytest.raises(ConfigError, match=message):
        JudgeSettings(*values)
