"""The Code2Wav worker by itself: whose chunk is decoded next."""

from __future__ import annotations

import threading

import numpy as np

from reference_impl.engine_api import AudioChunk, Finished
from reference_impl.streaming import AudioJob, AudioWorker

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
        again = worker.open()
        assert again not in worker._heard, "a slot that is used again is a stream that nobody has heard"
    finally:
        go_on.set()
        worker.stop()
    assert order == [("old", 1), ("new", 1), ("old", 3), ("old", 4), ("old", "end"), ("new", 2), ("new", "end")]
    assert not failures
