"""Audio in which nobody speaks, put into stored recordings of one voice: before, within and after the speech."""

import re
from functools import cache
from math import comb

import numpy as np
import pytest
import soundfile

from omni_bench.accuracy.signal.checks import signal_findings
from omni_bench.accuracy.signal.dead_air import Quiet, level_quiet, may_pause, quiet_of
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


@pytest.mark.parametrize(("where", "seconds"), [("before", 0.6), ("after", 0.9)])
def test_silence_at_an_end_of_every_answer_shows_in_the_level(where, seconds):
    """In three answers already: no voice begins or ends with so much."""
    found = level(lambda samples, rate: with_quiet(samples, rate, where, seconds, -60))
    traits = {name: one.traits for name, one in found.items()}
    few = level_audio(dict(list(traits.items())[:3]), 24_000)
    assert few.pausing == 3 and [reason.code for reason in audio_reasons(few, 24_000)] == ["long_pauses"]
    together = level_audio(traits, 24_000)
    (reason,) = audio_reasons(together, 24_000)
    assert together.pausing_at == ((12, 0, 0) if where == "before" else (0, 0, 12))
    assert reason.figures["before" if where == "before" else "after"] == 12


def usual(number, **more):
    quiet = {"before_s": 0.1, "after_s": 0.2, "pause_s": 0.1, "share": 0.1} | more
    return Quiet(**quiet), f"text {number}"


@pytest.mark.parametrize("more", [{"before_s": 0.61}, {"after_s": 0.71}, {"pause_s": 0.61}])
def test_half_a_second_more_than_the_others_in_one_of_eight_answers(more):
    """p of 4 of 32 by the binomial distribution at 1 in 1000, for two tests."""
    found = level_quiet([usual(number, **more if number % 8 == 0 else {}) for number in range(32)])
    expected = sum(comb(32, k) * 0.001**k * 0.999 ** (32 - k) for k in range(4, 33))
    assert found.long == {0, 8, 16, 24} and found.p == pytest.approx(2 * expected) and found.is_proven
    assert not level_quiet([usual(number, **more if number % 11 == 0 else {}) for number in range(32)]).is_proven


def test_one_text_that_is_spoken_with_silence_is_one_text_however_often():
    assert not level_quiet(
        [usual(number % 8, before_s=0.7 if number % 8 == 0 else 0.1) for number in range(32)]
    ).is_proven
    assert level_quiet([usual(0, before_s=0.7)] * 11).is_proven, "but no voice speaks all of its answers so"


def test_silence_that_a_voice_always_has_is_none_of_the_servers():
    assert level_quiet([usual(number, before_s=0.48, after_s=0.86) for number in range(200)]).p == 1.0
    assert level_quiet([]).p is None


def test_a_text_of_sentences_may_pause_for_long():
    pauses = [
        (usual(0, pause_s=0.9 if number % 8 == 0 else 0.3)[0], f"Text {number}{{}} and more.") for number in range(32)
    ]
    assert level_quiet([(quiet, text.format(",")) for quiet, text in pauses]).is_proven
    assert not level_quiet([(quiet, text.format(".")) for quiet, text in pauses]).is_proven


def test_a_short_tail_in_every_answer_shows_in_figures_only():
    """Kokoro pads its answers with as much: half a second more proves nothing, and is told."""
    tail = level(lambda samples, rate: with_quiet(samples, rate, "after", 0.5, -200))
    clean, longer = (
        level_audio({name: found.traits for name, found in one.items()}, 24_000) for one in (level(), tail)
    )
    assert clean.quiet_share < 0.15 < 0.2 < longer.quiet_share
    assert longer.after_s == pytest.approx(clean.after_s + 0.5, abs=0.021) and longer.before_s == clean.before_s
    assert not any(found.faults for found in tail.values()) and longer.pausing == 0


@pytest.mark.timeout(20)
def test_a_text_full_of_marks_takes_no_minutes():
    assert not may_pause("a" + "!" * 100_000) and not may_pause("a!" + " " * 100_000) and may_pause("a! " * 30_000)


def test_a_text_with_a_mark_may_pause():
    assert not any(map(may_pause, ["Send the well-known book.", "It's here!", "今天天气很好。", "", "..."]))
    assert all(map(may_pause, ["Well, yes.", "No. Yes.", "one\ntwo", "今天，天气", "yes - no", "yes — no", "สวัสดี ครับ"]))
