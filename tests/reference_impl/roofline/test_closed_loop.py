"""The closed loop: how many requests it sends, what it makes of their chunks, and what it does not hide."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.ladder.__main__ import texts_around
from benchmarks.ladder.codes import codes_of
from omni_bench.errors import EngineError
from reference_impl.engine_api import AudioChunk, EngineStats, Failed, Finished
from reference_impl.prompt.builder import forced_frames
from reference_impl.roofline import closed_loop as module
from reference_impl.roofline.closed_loop import Spoken, closed_loop, stall_s, text_of

FRAME_S = 0.08


class FakeEngine:
    """Answers at once: one frame, then four."""

    voices = ("someone",)
    model = SimpleNamespace(config=SimpleNamespace(frame_rate_hz=12.5))

    def __init__(self, end=None):
        self.requests, self.end = [], end
        self.frames = self.together = self.most_together = 0

    def submit(self, request, on_event):
        self.requests.append(request)
        self.together += 1
        self.most_together = max(self.most_together, self.together)
        for frames in (1, 4):
            self.frames += frames
            on_event(AudioChunk(b"", frames))
        self.together -= 1
        codes = np.full((5, 16), len(self.requests), dtype=np.int16)
        on_event(self.end or Finished("stop", 5, 3, codes))

    def stats(self):
        values = dict.fromkeys(EngineStats.__dataclass_fields__, 0)
        return EngineStats(**{**values, "frames_total": self.frames, "steps_total": self.frames})


def test_every_place_speaks_every_round_with_a_seed_of_its_own():
    engine = FakeEngine()
    pace = closed_loop(engine, "hello", concurrency=3, rounds=2, seed=7, max_frames=9)
    assert len(pace.spoken) == 6 and pace.frames == 30
    assert len({request.seed for request in engine.requests}) == 6
    assert len({request.request_id for request in engine.requests}) == 6
    assert {request.max_new_tokens for request in engine.requests} == {9}
    assert len(codes_of(pace)) == 6
    assert pace.ms_per_frame == pytest.approx(pace.wall_s * 1e3 / 10)
    assert pace.audio_per_s == pytest.approx(30 * FRAME_S / pace.wall_s)
    assert pace.rtf == pytest.approx(pace.wall_s / (10 * FRAME_S))
    assert pace.summary()["steps"] == 30


def test_several_texts_take_turns_and_every_round_speaks_each_equally_often():
    engine, texts = FakeEngine(), ["a", "b", "c", "d"]
    closed_loop(engine, texts, concurrency=8, rounds=4)
    place_and_round = {tuple(map(int, request.request_id.split("-")[1:])): request.text for request in engine.requests}
    for number in range(4):
        assert sorted(place_and_round[place, number] for place in range(8)) == sorted(2 * texts)
    for place in range(8):
        assert sorted(place_and_round[place, number] for number in range(4)) == texts
    assert len({tuple(place_and_round[place, number] for number in range(4)) for place in range(4)}) == 4


def test_unequal_texts_have_the_wanted_length_on_average():
    lengths = [len(text) for text in texts_around(46, 12.5)]
    assert sum(lengths) / len(lengths) == pytest.approx(len(text_of(46, 12.5)), rel=0.03)
    assert max(lengths) > 2.5 * min(lengths)


def test_a_failed_request_is_an_error():
    with pytest.raises(EngineError, match="out of memory"):
        closed_loop(FakeEngine(Failed("out of memory")), "hello", concurrency=2, rounds=1)


def test_silence_is_an_error(monkeypatch):
    engine = FakeEngine()
    monkeypatch.setattr(engine, "submit", lambda request, on_event: None)
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    with pytest.raises(EngineError, match="no request ended"):
        closed_loop(engine, "hello", concurrency=1, rounds=1)


@pytest.mark.parametrize(
    ("chunks_s", "frames", "stalled_s"),
    [
        ([1.0, 1.08, 1.2], [1, 4, 4], 0.0),  # the second arrives as the first ends
        ([1.0, 1.2, 1.3], [1, 4, 4], 0.12),
        ([1.0, 1.2, 1.6], [1, 4, 4], 0.12 + 0.08),  # the listener is as late as the second was
        ([5.0], [3], 0.0),
    ],
)
def test_stalls(chunks_s, frames, stalled_s):
    assert stall_s(Spoken(0.0, chunks_s, frames), FRAME_S) == pytest.approx(stalled_s)


@pytest.mark.parametrize("frames", [4, 24, 100])
def test_a_text_takes_about_as_many_frames_as_asked(frames):
    config = SimpleNamespace(frame_rate_hz=12.5)
    assert abs(forced_frames(text_of(frames, 12.5), config) - frames) <= 1
