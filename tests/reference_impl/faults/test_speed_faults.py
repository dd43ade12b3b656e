"""Every fault in speed only: the speech stays, and the mechanism is really there. Nothing here is timed."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.engine.stages import Stages
from reference_impl.engine_api import AudioChunk
from reference_impl.faults import batches
from reference_impl.faults.catalogue import FAULTS, SPEED
from reference_impl.faults.engines import with_fault
from reference_impl.settings import ServerSettings

SETTINGS = ServerSettings(max_batch=1, max_seq_len=32)
NAMES = [fault.name for fault in FAULTS.values() if fault.kind == SPEED]


@pytest.mark.parametrize("name", NAMES)
def test_the_codes_do_not_change(broken, expected, name):
    for spoken, right in zip(broken(name).crowd(), expected, strict=True):
        assert np.array_equal(spoken.codes, right.codes)
        if name != "longer_audio":
            # chunks of another size are rounded otherwise
            assert np.abs(spoken.pcm.astype(int) - right.pcm).max() <= 1


def test_host_roundtrip_goes_there_and_back_around_each_of_fifteen_passes(broken):
    speak = broken("host_roundtrip")
    strategy = speak.engine._batch._strategy
    before = strategy.trips
    frames = speak.alone(0).end.frames
    assert strategy.trips - before == 2 * 15 * frames


def test_slow_attribute_searches_at_each_of_fifteen_passes(broken):
    speak = broken("slow_attribute")
    strategy = speak.engine._batch._strategy
    before = strategy.searches
    frames = speak.alone(0).end.frames
    assert strategy.searches - before == 2 * 15 * frames


def test_serial_predictor_takes_one_row_at_a_time(broken, monkeypatch):
    speak = broken("serial_predictor")
    strategy, rows = speak.engine._batch._strategy, []
    start = strategy.start
    monkeypatch.setattr(strategy, "start", lambda inputs: (rows.append(len(inputs)), start(inputs))[1])
    spoken = speak.crowd()
    assert rows == [1] * sum(one.end.frames for one in spoken)


def test_late_first_chunk_has_one_size(broken):
    assert [chunk.frames for chunk in broken("late_first_chunk").alone(0).chunks] == [8, 8, 1]


def test_bursty_chunks_waits_with_all_but_the_first(broken, ask, monkeypatch):
    speak, order = broken("bursty_chunks"), []
    code2wav = speak.engine._audio._code2wav
    decode = code2wav.push

    def logged_push(codes, state, rows):
        order.append("decoded")
        return decode(codes, state, rows)

    monkeypatch.setattr(code2wav, "push", logged_push)
    ended = threading.Event()

    def on_event(event):
        order.append("sent" if isinstance(event, AudioChunk) else "end")
        if not isinstance(event, AudioChunk):
            ended.set()

    speak.engine.submit(ask(0), on_event)
    assert ended.wait(timeout=240)
    assert order == ["decoded", "sent", *["decoded"] * 4, *["sent"] * 4, "end"]


def test_bursty_chunks_sends_a_burst_when_it_is_together(broken, monkeypatch):
    speak = broken("bursty_chunks")
    monkeypatch.setattr(speak.engine._audio, "BURST_FRAMES", 4)
    assert [chunk.frames for chunk in speak.alone(0).chunks] == [1, 2, 4, 8, 2]


def test_longer_audio_speaks_two_frames_in_twenty_five_twice(broken, ask, expected):
    speak = broken("longer_audio")
    spoken = speak.alone(0)
    assert spoken.pcm.size == 18 * 1920 and expected[0].pcm.size == 17 * 1920  # 8 % of 17 is 1.4
    worker = speak.engine._audio
    order = [frame for chunk in (1, 2, 4, 8, 8, 8, 8, 8, 3) for frame in worker._spoken(0, chunk)]
    assert len(order) == 54  # of 50


@pytest.mark.parametrize(("name", "share"), [("slow_5", 0.05), ("slow_8", 0.08)])
def test_a_slow_step_takes_its_share_longer_whatever_the_timer_does(tiny, monkeypatch, name, share):
    clock = SimpleNamespace(now=0.0, slept=0.0)

    def sleep(seconds):
        assert seconds > 0
        clock.slept += seconds + 0.07  # a coarse timer
        clock.now += seconds + 0.07

    def step(self):
        clock.now += 1.0
        return np.zeros((0, 17), dtype=np.int64)

    monkeypatch.setattr(batches, "time", SimpleNamespace(perf_counter=lambda: clock.now, sleep=sleep))
    monkeypatch.setattr(DecodeBatch, "step", step)
    batch = with_fault(name, Stages())[1].batch(tiny, SETTINGS, 20)
    for _ in range(100):
        batch.step()
    assert clock.slept == pytest.approx(100 * share, abs=0.1)
