"""The Code2Wav worker by itself: what is heard of its streams, and in which order."""

from __future__ import annotations

import threading

import numpy as np
import torch

from reference_impl.engine.code2wav_worker import SILENT_FRAMES, AudioJob, AudioWorker, to_pcm
from reference_impl.engine_api import AudioChunk, Finished

WAIT_S = 60.0


def frames(count):
    return np.zeros((count, 16), dtype=np.int64)


def test_a_stream_that_nobody_has_heard_yet_goes_first_on_a_cpu(tiny):
    failures, order = [], []
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def listener(name):
        def on_event(event):
            order.append((name, event.frames if isinstance(event, AudioChunk) else "end"))
            if len(order) == 1:
                begun.set()
                go_on.wait(WAIT_S)
            if sum(what == "end" for _, what in order) == 2:
                done.set()

        return on_event

    worker = AudioWorker(tiny, 2, failures.append)
    try:
        old, new = worker.open(), worker.open()
        hear_old, hear_new = listener("old"), listener("new")
        worker.submit(AudioJob(old, hear_old, frames(1)))
        assert begun.wait(WAIT_S)
        end = Finished("stop", 3, 1)
        worker.submit(AudioJob(old, hear_old, frames(3)))
        worker.submit(AudioJob(old, hear_old, frames(4), end))
        worker.submit(AudioJob(new, hear_new, frames(1)))
        worker.submit(AudioJob(new, hear_new, frames(2), end))
        go_on.set()
        assert done.wait(WAIT_S)
    finally:
        go_on.set()
        worker.stop()
    assert order == [("old", 1), ("new", 1), ("old", 3), ("old", 4), ("old", "end"), ("new", 2), ("new", "end")]
    assert not failures


def test_a_reference_in_pieces_leaves_the_state_that_it_leaves_as_a_whole(tiny):
    codes = np.random.default_rng(3).integers(0, tiny.code2wav.config.codebook_size, (23, 16))
    with torch.inference_mode():
        whole = to_pcm(tiny.code2wav.decode(torch.from_numpy(codes.T)[None]))[0]
    heard, failures, done = [], [], threading.Event()

    def on_event(event):
        heard.append(event)
        if isinstance(event, Finished):
            done.set()

    worker = AudioWorker(tiny, 1, failures.append)
    try:
        slot = worker.open()
        worker.submit(AudioJob(slot, on_event, codes[:20], silent=True))
        worker.submit(AudioJob(slot, on_event, codes[20:], Finished("stop", 3, 1)))
        assert done.wait(WAIT_S)
    finally:
        worker.stop()
    assert not failures
    (chunk,) = heard[:-1]
    samples = np.frombuffer(chunk.pcm, "<i2")
    assert np.abs(samples.astype(int)).max() > 100, "this is silence, which would equal anything"
    # 16-bit steps; a stream that had not heard the reference is thousands of them away
    assert np.abs(samples.astype(int) - whole[20 * 1920 :]).max() <= 2


def test_cancelling_in_the_middle_of_a_reference_frees_the_stream_after_the_piece_it_is_in(tiny, monkeypatch):
    pieces, failures = [], []
    in_a_piece, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def push(codes, state, rows):
        pieces.append(codes.shape[-1])
        in_a_piece.set()
        go_on.wait(WAIT_S)
        return torch.zeros(1, 1920 * codes.shape[-1])

    monkeypatch.setattr(tiny.code2wav, "push", push)
    worker = AudioWorker(tiny, 1, failures.append)
    try:
        slot = worker.open()
        worker.submit(AudioJob(slot, lambda event: None, frames(750), silent=True))
        assert in_a_piece.wait(WAIT_S)
        worker.submit(AudioJob(slot, lambda event: done.set(), None, Finished("cancelled", 0, 1)))
        go_on.set()
        assert done.wait(WAIT_S)
        assert worker.open() == slot
    finally:
        go_on.set()
        worker.stop()
    assert pieces == [SILENT_FRAMES["cpu"]] and not failures
