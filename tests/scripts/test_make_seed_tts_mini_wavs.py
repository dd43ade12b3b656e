"""The script that speaks the reference recordings: what it reads, and what it refuses to write."""

from __future__ import annotations

import make_seed_tts_mini_wavs as script
import numpy as np
import pytest

from omni_bench.errors import DatasetError, EngineError
from reference_impl.engine_api import AudioChunk, Failed, Finished


class FakeEngine:
    """Answers every request with the given events."""

    sample_rate_hz = 24000

    def __init__(self, *events):
        self.events = events

    def submit(self, request, on_event):
        for event in self.events:
            on_event(event)


def tone(seconds, level=5000):
    pcm = np.full(int(24000 * seconds), level, dtype="<i2").tobytes()
    return AudioChunk(pcm=pcm, frames=int(12.5 * seconds))


def finished(reason="stop"):
    return Finished(reason=reason, frames=25, prompt_tokens=9)


def test_recordings_and_their_texts(tmp_path):
    meta = tmp_path / "meta.lst"
    meta.write_text("a|One.|w/1.wav|x\nb|Two.|w/2.wav|y\nc|One.|w/1.wav|z\nd|||no reference\n")
    assert script.recordings_of(meta) == {"w/1.wav": "One.", "w/2.wav": "Two."}


@pytest.mark.parametrize(
    ("row", "words"), [("b|Other.|w.wav|y", "two different"), ("b|x|../w.wav|y", "leaves"), ("b|x|/w.wav|y", "leaves")]
)
def test_meta_that_cannot_be_spoken(tmp_path, row, words):
    meta = tmp_path / "meta.lst"
    meta.write_text(f"a|One.|w.wav|x\n{row}\n")
    with pytest.raises(DatasetError, match=f"line 2.*{words}"):
        script.recordings_of(meta)


def test_speech_is_the_chunks_in_order():
    samples = script.speak(FakeEngine(tone(1, 5000), tone(1, -7000), finished()), "x", "heart", 0)
    assert samples.size == 48000 and samples[0] == 5000 and samples[-1] == -7000


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ((tone(0.5), finished()), "0.50 s"),
        ((tone(13), finished()), "13.00 s"),
        ((tone(2, level=3), finished()), "silent"),
        ((tone(2), finished("length")), "length"),
        ((tone(2), Failed("broken")), "broken"),
        ((finished(),), "0.00 s"),
    ],
)
def test_what_is_not_a_recording_is_refused(events, words):
    with pytest.raises(EngineError, match=words):
        script.speak(FakeEngine(*events), "x", "heart", 0)
