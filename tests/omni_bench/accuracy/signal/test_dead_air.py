"""Audio in which nobody speaks, put into stored recordings of one voice: before, within and after the speech."""

import re
from functools import cache

import numpy as np
import pytest
import soundfile

from omni_bench.accuracy.signal.checks import signal_findings
from omni_bench.accuracy.signal.dead_air import may_pause, quiet_of
from omni_bench.accuracy.signal.level_audio import level_audio
from omni_bench.accuracy.signal.speech_level import active_rms
from omni_bench.datasets.bundled import bundled_root
from omni_bench.datasets.seed_tts import META_NAME, parse_meta
from omni_bench.run.validity import audio_reasons

FOLDER = bundled_root() / "seed_tts_mini" / "en"


@cache
def recordings():
    """(samples in −1..1, rate, text) of the bundled reference recordings."""
    entries = {row.wav: row.ref_text for row in parse_meta((FOLDER / META_NAME).read_bytes(), META_NAME) if row.wav}
    return [(*soundfile.read(FOLDER / wav), text) for wav, text in entries.items()]


def with_quiet(samples, rate, where, seconds, dbfs):
    """Silence, or fresh noise, at an end or in the quietest 50 ms of the middle."""
    added = np.random.default_rng(0).normal(0, 10 ** (dbfs / 20), round(seconds * rate))
    window = rate // 20
    starts = range(len(samples) // 4, 3 * len(samples) // 4, window)
    within = min(starts, key=lambda start: np.abs(samples[start : start + window]).mean()) + window // 2
    at = {"before": 0, "inside": within, "after": len(samples)}[where]
    return np.concatenate([samples[:at], added, samples[at:]])


def words(text):
    """Without the marks at which a voice may pause for longer."""
    return " ".join(re.findall(r"[\w'-]+", text))


def level(damage=lambda samples, rate: samples, as_text=str):
    heard = [((damage(samples, rate) * 32767).astype(np.int16), rate, text) for samples, rate, text in recordings()]
    return {
        str(number): signal_findings(samples, rate, (), as_text(text), splices=False)
        for number, (samples, rate, text) in enumerate(heard)
    }


@pytest.mark.parametrize("where", ["before", "inside", "after"])
@pytest.mark.parametrize(
    ("seconds", "dbfs"), [(3, -200), (3, -45), (3, -40), (3, -30), (1.5, -200), (1.5, -48), (1.5, -40)]
)
def test_what_no_voice_does_is_dead_air_in_every_answer(where, seconds, dbfs):
    for samples, rate, _ in recordings():
        loud = samples * 2  # speech at −20 dBFS
        sent = with_quiet(loud, rate, where, seconds, dbfs)
        assert quiet_of(sent, active_rms(sent, rate), rate).is_dead_air
        assert not quiet_of(loud, active_rms(loud, rate), rate).is_dead_air


def test_the_signal_checks_name_it_and_clean_speech_is_none():
    assert [found.faults for found in level().values()] == [()] * 12
    dead = level(lambda samples, rate: with_quiet(samples, rate, "inside", 3, -200))
    assert all("dead_air" in found.faults for found in dead.values())


@pytest.mark.parametrize(("seconds", "dbfs", "as_text"), [(0.5, -200, words), (0.9, -200, str), (0.9, -53, str)])
def test_a_pause_in_every_answer_shows_in_the_level(seconds, dbfs, as_text):
    clean = level_audio({name: found.traits for name, found in level(as_text=as_text).items()}, 24_000)
    assert clean.pausing <= 2 and list(audio_reasons(clean, 24_000)) == []
    found = level(lambda samples, rate: with_quiet(samples, rate, "inside", seconds, dbfs), as_text)
    together = level_audio({name: one.traits for name, one in found.items()}, 24_000)
    (reason,) = audio_reasons(together, 24_000)
    assert reason.code == "long_pauses" and together.pausing == 12 == len(together.suspects["long_pauses"])


def test_a_short_tail_shows_as_a_share_of_the_audio_only():
    """Kokoro pads its answers with a second: half a second proves nothing, and is told."""
    tail = level(lambda samples, rate: with_quiet(samples, rate, "after", 0.5, -200))
    shares = [
        level_audio({name: found.traits for name, found in one.items()}, 24_000).quiet_share for one in (level(), tail)
    ]
    assert shares[0] < 0.15 < 0.2 < shares[1]
    assert not any(found.faults for found in tail.values())


def test_a_text_with_a_mark_may_pause():
    assert not any(map(may_pause, ["Send the well-known book.", "It's here!", "今天天气很好。", "", "..."]))
    assert all(map(may_pause, ["Well, yes.", "No. Yes.", "one\ntwo", "今天，天气", "yes - no", "yes — no", "สวัสดี ครับ"]))
