"""The null server keeps its pace and says when it sent what."""

import array
import asyncio
import json
import os
import urllib.request

import pytest

from omni_bench.load.clients.abort import AbortSwitch
from omni_bench.load.clients.exchange import RequestContext
from omni_bench.load.clients.openai_speech import FORM
from omni_bench.load.clients.session import WireOptions, open_session
from omni_bench.load.clients.urls import speech_url
from omni_bench.load.null_server import NullServer, NullServerProcess, Pace, serving, tone
from omni_bench.records.plan import PlannedRequest

OPTIONS = WireOptions(sample_rate_hz=24_000, request_timeout_s=20.0, connect_timeout_s=5.0, max_audio_s=60.0)


async def one_request(base_url):
    async with open_session(OPTIONS) as session:
        return await FORM.send(
            RequestContext(
                session,
                speech_url(base_url),
                PlannedRequest("r1", "p", {}, None, False, None),
                b"{}",
                concurrency=1,
                scheduled_ns=0,
                options=OPTIONS,
                abort=AbortSwitch(),
            )
        )


def test_the_tone_is_audible_and_far_from_clipping():
    samples = array.array("h", tone(2400, 24_000))
    assert len(samples) == 2400
    assert 8000 < max(samples) <= 8192 and -8192 <= min(samples) < -8000


async def test_chunks_come_no_earlier_than_their_pace():
    pace = Pace(first_ms=30, interval_ms=20, chunk_ms=10, chunks=3, sample_rate_hz=16_000)
    server = NullServer(pace)
    async with serving(server) as port:
        timeline, audio = await one_request(f"http://127.0.0.1:{port}")
    assert timeline.ok and timeline.sample_rate_hz == 16_000
    assert b"".join(audio) == tone(160, 16_000) * 3
    record = server.records["r1"]
    assert record.first_sent_ns - record.received_ns >= 30e6
    assert record.last_sent_ns - record.received_ns >= 70e6
    # both clocks are CLOCK_MONOTONIC of this machine: the client cannot see a byte before it was sent
    assert timeline.started_ns <= record.received_ns
    assert timeline.first_audio_ns >= record.first_sent_ns
    assert timeline.ended_ns >= record.last_sent_ns


async def test_records_are_bounded(monkeypatch):
    monkeypatch.setattr("omni_bench.load.null_server.RECORDS_KEPT", 0)
    server = NullServer(Pace(first_ms=0, interval_ms=0, chunks=1))
    async with serving(server) as port:
        assert (await one_request(f"http://127.0.0.1:{port}"))[0].ok
    assert server.records == {}


def test_in_a_process_of_its_own_that_is_gone_afterwards():
    with NullServerProcess(Pace(first_ms=1, interval_ms=1, chunks=2)) as server:
        timeline, _ = asyncio.run(one_request(server.base_url))
        assert timeline.ok
        with urllib.request.urlopen(f"{server.base_url}/records", timeout=10) as response:
            assert json.load(response)["r1"]["first_sent_ns"] > 0
        pid = server.process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_it_ends_when_its_parent_closes_its_stdin():
    with NullServerProcess(Pace()) as server:
        server.process.stdin.close()
        assert server.process.wait(timeout=20) == 0
        server.process.stdin = None
