"""The Code2Wav worker over graphs: which calls it makes. The graphs are counted, not run; they need no card."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from reference_impl.engine.code2wav_worker import AudioJob
from reference_impl.engine_api import AudioChunk, Finished

pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
from reference_impl.engine.cuda import audio

WAIT_S = 60.0
HOP = 4


class CountedGraphs:
    """Samples are the numbers of the frames; a call waits until it may go on."""

    def __init__(self, model, slots, rows, frames):
        self.stream, self.rows, self.frames, self.hop = None, rows, frames, HOP
        self.calls: list[tuple[int, ...]] = []
        self.resets: list[int] = []
        self.began = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)

    def push(self, chunks, slots):
        assert len(chunks) <= self.rows and max(map(len, chunks)) <= self.frames
        self.calls.append((max(map(len, chunks)), *slots))
        self.began.release()
        assert self.may_end.acquire(timeout=WAIT_S)
        return [codes[:, 0].repeat(HOP).astype("<i2") for codes in chunks]

    def reset(self, slots):
        self.resets += slots


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.setattr(audio, "Code2WavGraphs", CountedGraphs)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    failures = deque()
    model = SimpleNamespace(device=torch.device("cuda"), code2wav=None)
    built = audio.GraphAudioWorker(model, 8, failures.append, 4, 8)
    yield built
    built._graphs.may_end.release(100)
    built.stop()
    assert not failures


def numbered(first: int, count: int) -> np.ndarray:
    return np.repeat(np.arange(first, first + count)[:, None], 16, axis=1)


class Listener:
    def __init__(self):
        self.samples, self.chunk, self.end = [], threading.Event(), threading.Event()

    def __call__(self, event):
        if isinstance(event, AudioChunk):
            self.samples += np.frombuffer(event.pcm, "<i2").tolist()
            self.chunk.set()
        else:
            self.end.set()


def test_a_chunk_that_comes_while_a_reference_is_decoded_waits_for_one_call(worker):
    graphs, running, cloned = worker._graphs, Listener(), Listener()
    one, two = worker.open(), worker.open()
    worker.submit(AudioJob(one, cloned, numbered(0, 37), silent=True))
    worker.submit(AudioJob(one, cloned, numbered(37, 1), Finished("stop", 1, 1)))
    assert graphs.began.acquire(timeout=WAIT_S)
    worker.submit(AudioJob(two, running, numbered(0, 2)))
    graphs.may_end.release(2)  # the reference's first piece, then the chunk with the next one
    assert running.chunk.wait(WAIT_S)
    worker.submit(AudioJob(two, running, None, Finished("stop", 2, 1)))
    graphs.may_end.release(100)
    assert cloned.end.wait(WAIT_S) and running.end.wait(WAIT_S)
    # nothing of the 37 frames is heard
    assert graphs.calls[:2] == [(8, one), (8, two, one)]
    assert [call[0] for call in graphs.calls if one in call] == [8, 8, 8, 8, 5, 1]
    assert cloned.samples == [37] * HOP and running.samples == [0] * HOP + [1] * HOP


def test_references_of_several_streams_and_chunks_share_calls(worker):
    graphs, listener = worker._graphs, Listener()
    first, *slots = (worker.open() for _ in range(4))
    worker.submit(AudioJob(first, listener, numbered(0, 1)))
    assert graphs.began.acquire(timeout=WAIT_S)
    for slot in slots[:2]:
        worker.submit(AudioJob(slot, listener, numbered(0, 16), silent=True))
    worker.submit(AudioJob(slots[2], listener, numbered(0, 8), Finished("stop", 8, 1)))
    graphs.may_end.release(100)
    assert listener.end.wait(WAIT_S)
    assert graphs.calls[1] == (8, *slots)


def test_a_long_chunk_takes_several_calls_rather_than_kernels_of_its_length(monkeypatch):
    monkeypatch.setattr(audio, "Code2WavGraphs", CountedGraphs)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    model = SimpleNamespace(device=torch.device("cuda"), code2wav=None)
    worker = audio.GraphAudioWorker(model, 8, lambda error: None, 4, 256)
    worker.stop()
    assert worker._graphs.frames == worker.piece(256) == audio.MOST_FRAMES < 256


def test_a_chunk_longer_than_a_call_is_heard_whole_and_its_stream_begins_anew(worker):
    graphs, listener = worker._graphs, Listener()
    slot = worker.open()
    worker.submit(AudioJob(slot, listener, numbered(0, 20)))
    worker.submit(AudioJob(slot, listener, numbered(20, 3), Finished("stop", 23, 1)))
    graphs.may_end.release(100)
    assert listener.end.wait(WAIT_S)
    assert listener.samples == [frame for frame in range(23) for _ in range(HOP)]
    assert graphs.resets == [slot]


def lengths_of_calls(*lengths: int, rows: int = 32) -> list[list[int]]:
    job = AudioJob(0, print, None)
    return [[len(piece) for _, piece in call] for call in audio.calls([(job, numbered(0, n)) for n in lengths], rows)]


def test_few_pieces_of_unlike_lengths_share_a_call():
    assert lengths_of_calls(8, 1, 3, 8, 2) == [[1, 2, 3, 8, 8]]
    assert lengths_of_calls() == []


def test_many_short_pieces_do_not_wait_for_a_long_one_nor_are_filled_up_to_its_length():
    assert lengths_of_calls(8, *[1] * 30) == [[1] * 30, [8]]
    # the shortest ones go first, where they go apart
    assert lengths_of_calls(*[8] * 16, *[1] * 9, 2) == [[*[1] * 9, 2], [8] * 16]


def test_no_call_takes_more_streams_than_there_are_rows():
    assert lengths_of_calls(*[8] * 5, rows=2) == [[8, 8], [8, 8], [8]]
    # what would not fit into one call does not wait for a second one
    assert lengths_of_calls(8, 8, 1, rows=2) == [[1], [8, 8]]
