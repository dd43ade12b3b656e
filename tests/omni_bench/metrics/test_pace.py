"""The pace of a level, and the sample rate that it hints at."""

from __future__ import annotations

import math

import numpy as np
import pytest

from omni_bench.metrics.pace import language_pace, letters, level_pace, pace, references_pace, speech_s

RATES = (8000, 16000, 22050, 24000, 32000, 44100, 48000)


def spoken(voice: float, made_at_hz: int, read_at_hz: int, spread: float = 0.08, count: int = 24) -> list[float]:
    """Paces of ``count`` texts by a voice of ``voice`` letters a second, evenly spread, read at another rate."""
    steps = np.linspace(-1.7, 1.7, count) * spread
    return [voice * math.exp(step) * read_at_hz / made_at_hz for step in steps]


def test_the_pace_is_of_the_letters_and_of_what_is_heard() -> None:
    """Silence before and after is not spoken, nor are spaces and marks; short texts tell nothing."""
    voice = np.concatenate([np.zeros(12_000), np.full(24_000, 0.1), np.zeros(6_000), np.full(24_000, 0.1), np.zeros(9)])
    assert speech_s(voice, 24_000) == pytest.approx(2.25, abs=0.02)
    assert speech_s(np.zeros(24_000), 24_000) is None
    assert letters("Ça, 42 – नमस्ते!") == 2 + 2 + 3 + 1
    assert pace("Fifteen letters!", 2.0) == 7.0
    assert pace("Yes.", 1.0) is None and pace("Fifteen letters!", None) is None


@pytest.mark.parametrize("voice", [11.0, 12.6, 14.0, 16.4, 18.0])
def test_no_usual_voice_is_in_doubt_at_its_own_rate(voice: float) -> None:
    """From a book read slowly to the reference recordings."""
    english = language_pace("en-GB")
    assert english is not None
    found = level_pace(spoken(voice, 24_000, 24_000), english, 24_000)
    assert found is not None and not found.in_doubt


@pytest.mark.parametrize(("made_at_hz", "read_at_hz"), [(44_100, 24_000), (16_000, 24_000), (48_000, 24_000)])
def test_a_rate_far_off_is_in_doubt_by_the_language_alone(made_at_hz: int, read_at_hz: int) -> None:
    """A pace that nobody speaks at; the true rate is among those that fit."""
    english = language_pace("en")
    assert english is not None
    found = level_pace(spoken(16.4, made_at_hz, read_at_hz), english, read_at_hz)
    assert found is not None and found.in_doubt and made_at_hz in found.fitting_hz


@pytest.mark.parametrize("made_at_hz", RATES)
@pytest.mark.parametrize("read_at_hz", RATES)
def test_recordings_of_the_voice_tell_rates_apart_that_are_8_percent_apart(made_at_hz: int, read_at_hz: int) -> None:
    """With 60 recordings of the same spread every pair of usual rates is told apart, and the true one fits best."""
    expected = references_pace(spoken(15.0, 24_000, 24_000, count=60))
    assert expected is not None
    found = level_pace(spoken(15.0, made_at_hz, read_at_hz, count=60), expected, read_at_hz)
    assert found is not None and found.in_doubt == (made_at_hz != read_at_hz)
    assert not found.in_doubt or found.fitting_hz[0] == made_at_hz


def test_what_no_rate_explains_and_what_is_too_few_is_no_doubt() -> None:
    """A voice 5 % faster than its recordings, 4 utterances, and a language of no known pace."""
    expected = references_pace(spoken(15.0, 24_000, 24_000, count=60))
    assert expected is not None
    found = level_pace(spoken(15.75, 24_000, 24_000, count=60), expected, 24_000)
    assert found is not None and not found.in_doubt
    slower = level_pace(spoken(13.4, 24_000, 24_000, count=60), expected, 24_000)  # 27 kHz is no usual rate
    assert slower is not None and not slower.in_doubt
    assert level_pace(spoken(30.0, 24_000, 24_000, count=4), expected, 24_000) is None
    assert references_pace([15.0] * 4) is None
    assert language_pace("sw") is None


def test_a_speed_that_was_asked_for_is_expected() -> None:
    """``speed`` in the body changes the pace and not the rate."""
    fast = language_pace("en", speed=1.8)
    assert fast is not None
    found = level_pace(spoken(14.0 * 1.8, 24_000, 24_000), fast, 24_000)
    assert found is not None and not found.in_doubt


def test_audio_that_is_not_of_its_texts_says_nothing() -> None:
    """Answers that are all equally long, whatever they should say: a fake server, or a broken one."""
    english = language_pace("en")
    assert english is not None
    assert level_pace(spoken(24.0, 24_000, 24_000, spread=0.3), english, 24_000) is None
