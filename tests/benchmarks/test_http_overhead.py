"""The engine that keeps a card's time, and a row of the benchmark around it."""

from __future__ import annotations

import queue

import pytest

from benchmarks.http_overhead import __main__ as bench
from reference_impl.engine_api import AudioChunk, Finished, SpeechRequest


@pytest.fixture
def pace():
    return bench.EnginePace(step_ms=1.0, host_ms=0.1, prefill_ms=0.1, code2wav_ms=0.1, frames=20)


def test_every_frame_of_every_request_is_spoken(pace):
    engine, events = bench.PacedEngine(pace), queue.SimpleQueue()
    for seed in range(9):
        request = SpeechRequest(f"{seed}.1", "", "tone", seed)
        engine.submit(request, lambda event, seed=seed: events.put((seed, event)))
    heard = {seed: [] for seed in range(9)}
    while not all(found and isinstance(found[-1], Finished) for found in heard.values()):
        seed, event = events.get(timeout=60)
        heard[seed].append(event)
    engine.stop()
    lengths = set()
    for found in heard.values():
        *chunks, end = found
        assert all(isinstance(chunk, AudioChunk) and len(chunk.pcm) == 3840 * chunk.frames for chunk in chunks)
        assert sum(chunk.frames for chunk in chunks) == end.frames == len(end.codes)
        assert chunks[0].frames == 1 and max(chunk.frames for chunk in chunks) <= 8
        lengths.add(end.frames)
    assert min(lengths) == 12 and max(lengths) == 28
    assert len(engine.records.first_ns) == 9 and all(0 < at < first for at, first in engine.records.first_ns.values())
    assert engine.records.frames == sum(found[-1].frames for found in heard.values())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["one", "two"])
def test_a_row(pace, mode):
    (plan,) = bench.plans([2], 1)
    row = dict(zip(bench.HEADERS, bench.served("it", mode, pace, plan), strict=True))
    assert (row["server"], row["c"], row["failed"]) == ("it", 2, 0)
    assert all(value is not None and value > 0 for name, value in row.items() if name not in ("server", "failed"))


def test_the_row_without_http(pace):
    (plan,) = bench.plans([2], 1)
    row = dict(zip(bench.HEADERS, bench.alone(pace, plan), strict=True))
    assert row["failed"] == 0 and row["audio-s/s"] > 0 and row["step ms"] >= 1.0
    assert row["in p50 ms"] is None and row["lag p99 ms"] is None
    assert bench.middle((None, 3.0, 1.0, 2.0)) == 2.0 and bench.middle((None,)) is None
