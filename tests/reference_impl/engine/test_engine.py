"""The engine end to end on the bundled voice: what a request gets, alone and in company."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from spoken import Spoken

from reference_impl.build import build_engine
from reference_impl.engine import engine as engine_module
from reference_impl.engine import scheduler
from reference_impl.engine.engine import MAX_FRAMES, Engine
from reference_impl.engine.scheduler import PrefillGate
from reference_impl.engine.stages import chunk_schedule
from reference_impl.engine_api import EngineDead, Failed, QueueFull, RequestRejected, SpeechRequest
from reference_impl.settings import ServerSettings

TEXTS = (
    "The train to the coast leaves in the morning.",
    "Could you turn the music down a little?",
    "She bought three apples and some bread.",
    "Why did nobody tell me about this?",
)


def speak(engine: Engine, *requests: SpeechRequest) -> list[Spoken]:
    spoken = [Spoken() for _ in requests]
    for request, sink in zip(requests, spoken, strict=True):
        engine.submit(request, sink)
    return [s.wait() for s in spoken]


def request(i: int, text: str | None = None, seed: int | None = None, **more) -> SpeechRequest:
    return SpeechRequest(f"r{i}", text or TEXTS[i % len(TEXTS)], "heart", seed=i if seed is None else seed, **more)


@pytest.fixture(scope="module")
def engine():
    built = build_engine(ServerSettings(max_batch=16, max_queue=4, device="cpu"))
    yield built
    built.stop()


def test_the_tiny_voice_says_what_it_can_follow(engine):
    can = engine.capabilities
    assert (can.clones, can.follows_instructions) == (False, False)
    assert (can.task_types, can.languages) == (("CustomVoice", "VoiceDesign", "Base"), ("auto", "english", "en"))


@pytest.fixture(scope="module")
def fixed_shape():
    built = build_engine(ServerSettings(max_batch=16, max_seq_len=192, deterministic=True, device="cpu"))
    yield built
    built.stop()


def whole_decode(engine: Engine, codes: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return engine.model.code2wav.decode(torch.from_numpy(codes.T.astype(np.int64))[None])[0].numpy()


def test_stream_equals_whole_decode_alone_and_with_fifteen_neighbours(engine):
    alone = speak(engine, request(0))[0]
    crowd = speak(engine, *(request(i) for i in range(16)))
    for spoken in (alone, crowd[0], crowd[9]):
        assert spoken.end.reason == "stop"
        assert spoken.pcm.size == 1920 * spoken.end.frames == 1920 * len(spoken.end.codes)
        difference = np.abs(spoken.pcm / 32767.0 - whole_decode(engine, spoken.end.codes))
        assert difference.max() < 1e-4  # half a step of 16 bits is 1.5e-5
    assert len({s.pcm.tobytes() for s in crowd}) == 16


@pytest.mark.slow
def test_deterministic_mode_gives_the_same_codes_alone_and_in_company(fixed_shape):
    mine = request(1, seed=77, max_new_tokens=16)
    alone = speak(fixed_shape, mine)[0]
    neighbours = [request(i, seed=100 + i, max_new_tokens=16) for i in range(2, 16)]
    # among others at another row, and behind a row that empties early (the row is moved)
    crowd = speak(fixed_shape, request(0, max_new_tokens=6), *neighbours, mine)[-1]
    assert np.array_equal(alone.end.codes, crowd.end.codes)
    assert np.array_equal(alone.pcm, crowd.pcm)


def test_another_seed_gives_other_codes(engine):
    one, two = speak(engine, request(0, seed=1), request(0, seed=2))
    frames = min(one.end.frames, two.end.frames)
    assert not np.array_equal(one.end.codes[:frames], two.end.codes[:frames])


def test_chunks_start_small_and_grow_to_the_steady_size(engine, monkeypatch):
    spoken = speak(engine, request(0))[0]
    sizes = [c.frames for c in spoken.chunks]
    assert (sizes[0], sum(sizes)) == (1, spoken.end.frames)
    assert max(sizes) <= 8
    doubling = replace(engine.settings, deterministic=True)
    monkeypatch.setattr(engine, "_new_schedule", partial(chunk_schedule, doubling, 0.08))
    doubled = speak(engine, request(0))[0]
    sizes = [c.frames for c in doubled.chunks]
    assert sizes[:4] == [1, 2, 4, 8]
    assert all(size == 8 for size in sizes[3:-1])
    assert 1 <= sizes[-1] <= 8
    assert np.array_equal(doubled.end.codes, spoken.end.codes)


def test_a_long_text_is_spoken_in_segments(engine):
    text = " ".join(TEXTS[:2])
    spoken, *parts = speak(engine, request(0, text), *(request(i) for i in range(2)))
    total = sum(p.end.frames for p in parts)
    assert spoken.end.reason == "stop"
    assert 0.7 * total < spoken.end.frames < 1.3 * total
    difference = np.abs(spoken.pcm / 32767.0 - whole_decode(engine, spoken.end.codes))
    assert difference.max() < 1e-4


def test_length_cap_is_exact_and_named(engine):
    spoken = speak(engine, request(0, max_new_tokens=7))[0]
    assert (spoken.end.reason, spoken.end.frames, spoken.pcm.size) == ("length", 7, 7 * 1920)


def test_more_requests_than_rows_wait_and_then_the_queue_is_full(engine):
    sinks = [Spoken() for _ in range(20)]
    for i, sink in enumerate(sinks):
        engine.submit(request(i, max_new_tokens=12), sink)
    with pytest.raises(QueueFull, match="max_queue is 4"):
        for i in range(20, 60):
            sinks.append(Spoken())
            engine.submit(request(i, max_new_tokens=12), sinks[-1])
    sinks.pop()  # the refused one hears nothing
    assert all(s.wait().end.reason == "length" for s in sinks)


@pytest.fixture
def prompts_before_each_frame(engine, monkeypatch):
    """A function: fourteen requests that all wait once the first is admitted -> how many prompts are read before each
    frame."""
    done, prefill, step = [], engine._prefill, engine._step
    all_wait, sinks = threading.Event(), [Spoken() for _ in range(14)]

    def counted(running):
        done.append("prompt")
        prefill(running)
        assert all_wait.wait(timeout=60)  # the first request is admitted alone, the rest together beside it

    monkeypatch.setattr(engine, "_prefill", counted)
    monkeypatch.setattr(engine, "_step", lambda: (done.append("frame"), step()))

    def speak_all() -> list[int]:
        for i, sink in enumerate(sinks):
            engine.submit(request(i, TEXTS[0], max_new_tokens=8), sink)
        all_wait.set()
        assert all(sink.wait().end.reason == "length" for sink in sinks)
        return [len(run.split("prompt")) - 1 for run in " ".join(done).split("frame")]

    return speak_all


@pytest.mark.parametrize(("budget_s", "prompts", "most"), [(0.0, 99, 1), (60.0, 99, 6), (60.0, 2, 2)])
def test_prompts_between_two_frames_of_a_running_request_are_bounded(
    engine, monkeypatch, prompts_before_each_frame, budget_s, prompts, most
):
    monkeypatch.setattr(engine_module, "PREFILL_BUDGET_S", budget_s)
    (segment,) = engine._prompts.segments(request(0, TEXTS[0]))
    monkeypatch.setattr(scheduler, "PREFILL_POSITIONS_PER_STEP", prompts * segment.length)
    between = prompts_before_each_frame()
    # nobody runs before the first frame: there the count alone is the limit
    assert max(between[1:]) == most
    assert sum(between) == 14


def test_prompts_gather_where_they_are_read_together(engine, monkeypatch, prompts_before_each_frame):
    monkeypatch.setattr(engine._scheduler.waiting, "_gate", PrefillGate(3, 14, batches_prefill=True))
    monkeypatch.setattr(engine_module, "PREFILL_BUDGET_S", 60.0)
    between = prompts_before_each_frame()
    # a whole call's worth at once, and the rest two frames later than they could have
    assert between[:4] == [8, 0, 0, 6] and sum(between) == 14


def test_where_nothing_runs_all_that_wait_begin_together(engine, monkeypatch):
    done, prefill, step = [], engine._prefill, engine._step
    monkeypatch.setattr(engine._batch, "batches_prefill", True)
    monkeypatch.setattr(engine, "_prefill", lambda *states: (done.append(len(states)), prefill(*states)))
    monkeypatch.setattr(engine, "_step", lambda: (done.append("frame"), step()))
    sinks = [Spoken() for _ in range(14)]
    with engine._wake:  # the engine looks when all of them wait
        for i, sink in enumerate(sinks):
            engine.submit(request(i, TEXTS[0], max_new_tokens=4), sink)
    assert all(sink.wait().end.reason == "length" for sink in sinks)
    assert done[:3] == [8, 6, "frame"]


def test_cancel_stops_at_the_next_frame_and_spares_the_others(engine):
    first, second = Spoken(), Spoken()
    engine.submit(request(0), first)
    engine.submit(request(1, seed=50), second)
    engine.cancel("r0")
    engine.cancel("nobody")
    assert first.wait().end.reason == "cancelled"
    assert second.wait().end.reason == "stop"
    assert np.array_equal(second.end.codes, speak(engine, request(1, seed=50))[0].end.codes)


def test_cancelling_while_a_request_is_admitted_ends_it_and_nobody_else(engine, monkeypatch):
    """The cancel falls between leaving the queue and taking a slot."""
    allocate = engine._batch.allocate_slot

    def cancel_first(uniforms):
        engine.cancel("late")
        return allocate(uniforms)

    with monkeypatch.context() as patched:
        patched.setattr(engine._batch, "allocate_slot", cancel_first)
        late, other = speak(engine, SpeechRequest("late", TEXTS[0], "heart", seed=1), request(1))
    assert late.end.reason == "cancelled"
    assert other.end.reason == "stop"
    assert speak(engine, request(2))[0].end.reason == "stop"


def test_a_waiting_request_can_be_cancelled_and_leaves_the_queue(engine):
    sinks = [Spoken() for _ in range(20)]
    for i, sink in enumerate(sinks):
        engine.submit(request(i, max_new_tokens=8), sink)
    for i in range(16, 20):
        engine.cancel(f"r{i}")
    reasons = [s.wait().end.reason for s in sinks]
    assert reasons[:16] == ["length"] * 16
    assert set(reasons[16:]) <= {"cancelled", "length"}
    assert engine.stats().waiting == 0


def test_a_segment_that_does_not_stop_gives_way_to_the_next(engine, monkeypatch):
    build = engine._prompts.segments
    monkeypatch.setattr(engine._prompts, "segments", lambda asked: [replace(s, max_frames=5) for s in build(asked)])
    spoken = speak(engine, request(0, f"{TEXTS[0]} {TEXTS[1]}"))[0]
    assert (spoken.end.reason, spoken.end.frames) == ("length", 10)


@pytest.mark.parametrize(
    ("text", "voice", "param"),
    [("Hello.", "alloy", "voice"), ("!!! ...", "heart", "input"), ("你好", "heart", "input")],
)
def test_what_cannot_be_spoken_is_rejected_with_the_field(engine, text, voice, param):
    with pytest.raises(RequestRejected) as caught:
        engine.submit(SpeechRequest("x", text, voice, seed=0), Spoken())
    assert caught.value.param == param


def test_counters_add_up(engine):
    before = engine.stats()
    spoken = speak(engine, request(0), request(1, max_new_tokens=5))
    after = engine.stats()
    assert after.requests_total - before.requests_total == 2
    assert after.finished_length_total - before.finished_length_total == 1
    assert after.finished_stop_total - before.finished_stop_total == 1
    assert after.frames_total - before.frames_total == sum(s.end.frames for s in spoken)
    assert (after.running, after.waiting, after.alive) == (0, 0, True)


def test_stopping_fails_what_is_unfinished_and_refuses_more():
    built = build_engine(ServerSettings(max_batch=1, device="cpu", recorded=False))
    sinks = [Spoken(), Spoken()]
    for i, sink in enumerate(sinks):
        built.submit(request(i), sink)
    built.stop()
    assert all(isinstance(s.wait().end, Failed) for s in sinks)
    assert not built.stats().alive
    with pytest.raises(EngineDead):
        built.submit(request(3), Spoken())


def test_an_error_in_code2wav_reaches_every_caller(monkeypatch):
    built = build_engine(ServerSettings(max_batch=2, device="cpu", recorded=False))

    def broken(*_):
        raise RuntimeError("no such kernel, say")

    monkeypatch.setattr(built.model.code2wav, "push", broken)
    sink = Spoken()
    built.submit(request(0), sink)
    assert "no such kernel, say" in sink.wait().end.message
    with pytest.raises(EngineDead):
        built.submit(request(1), Spoken())


def test_an_error_in_the_loop_reaches_every_caller(monkeypatch):
    built = build_engine(ServerSettings(max_batch=2, device="cpu", recorded=False))

    def broken():
        raise RuntimeError("out of memory, say")

    monkeypatch.setattr(built._batch, "step", broken)
    sinks = [Spoken(), Spoken(), Spoken()]
    for i, sink in enumerate(sinks):
        try:
            built.submit(request(i), sink)
        except EngineDead:
            sinks = sinks[:i]
            break
    assert sinks
    assert all("out of memory, say" in s.wait().end.message for s in sinks)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_stream_equals_whole_decode_in_company():
    built = build_engine(ServerSettings(max_batch=16, device="cuda"))
    try:
        for spoken in speak(built, *(request(i) for i in range(16))):
            codes = torch.from_numpy(spoken.end.codes.T.astype(np.int64))[None].cuda()
            with torch.inference_mode():
                whole = built.model.code2wav.decode(codes)[0].cpu().numpy()
            assert np.abs(spoken.pcm / 32767.0 - whole).max() < 1e-4
            assert spoken.end.frames < MAX_FRAMES
    finally:
        built.stop()


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_deterministic_mode_gives_the_same_codes_alone_and_in_company():
    built = build_engine(ServerSettings(max_batch=16, max_seq_len=192, deterministic=True, device="cuda"))
    try:
        mine = request(1, seed=77)
        alone = speak(built, mine)[0]
        crowd = speak(built, *(request(i, seed=100 + i) for i in range(2, 17)), mine)[-1]
        assert np.array_equal(alone.end.codes, crowd.end.codes)
    finally:
        built.stop()
