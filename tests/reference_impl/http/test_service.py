"""The codes of finished requests: what is kept, what is forgotten, and the endpoint."""

from __future__ import annotations

import fake_engine as fake
import numpy as np
import pytest
from aiohttp.test_utils import TestClient, TestServer

from reference_impl.http.app import create_app
from reference_impl.http.service import FinishedCodes


def codes(frames: int, first: int = 0) -> np.ndarray:
    return (first + np.arange(frames * 16, dtype=np.int16)).reshape(frames, 16)


def test_an_answer_has_the_numbers_and_the_shape():
    kept = FinishedCodes()
    kept.keep("a", codes(3))
    assert kept.answer("a") == {"request_id": "a", "frames": 3, "codebooks": 16, "codes": codes(3).tolist()}
    assert kept.answer("b") is None


def test_the_oldest_goes_first():
    kept = FinishedCodes(max_requests=2)
    for name in "abc":
        kept.keep(name, codes(1))
    assert [kept.answer(name) is not None for name in "abc"] == [False, True, True]


def test_frames_are_bounded_too_and_a_repeated_id_counts_once():
    kept = FinishedCodes(max_requests=100, max_frames=10)
    kept.keep("a", codes(4))
    for _ in range(5):
        kept.keep("b", codes(6))
    assert kept.answer("a") is not None
    kept.keep("b", codes(7, first=1))
    assert kept.answer("a") is None
    assert kept.answer("b")["codes"][0][0] == 1
    kept.keep("c", codes(11))  # more than there is room for: not kept either
    assert kept.answer("b") is None and kept.answer("c") is None
    kept.keep("d", codes(10))
    assert kept.answer("d") is not None


@pytest.fixture
async def client():
    engine = fake.FakeEngine(codes=codes(3))
    client = TestClient(TestServer(create_app(engine)))
    await client.start_server()
    yield client
    engine.stop()
    await client.close()


@pytest.mark.parametrize("stream_format", [None, "audio", "sse"])
async def test_the_endpoint_answers_by_the_id_that_was_told(client, stream_format):
    body = {"input": "Hello.", "seed": 5, "stream_format": stream_format}
    spoken = await client.post("/v1/audio/speech", json=body)
    await spoken.read()
    request_id = spoken.headers["x-request-id"]
    answer = await client.get(f"/v1/audio/speech/{request_id}/codes")
    assert answer.status == 200
    assert await answer.json() == {"request_id": request_id, "frames": 3, "codebooks": 16, "codes": codes(3).tolist()}


async def test_the_endpoint_knows_the_clients_own_id(client):
    spoken = await client.post("/v1/audio/speech", json={"input": "Hello."}, headers={"x-request-id": "mine.7"})
    await spoken.read()
    answer = await client.get("/v1/audio/speech/mine.7/codes")
    assert (await answer.json())["request_id"] == "mine.7"


async def test_an_unknown_id_is_a_404_in_the_usual_shape(client):
    answer = await client.get("/v1/audio/speech/nobody/codes")
    assert answer.status == 404
    error = (await answer.json())["error"]
    assert (error["param"], error["code"]) == ("request_id", "codes_not_found")
    assert "nobody" in error["message"] and "512" in error["message"]


async def test_a_request_that_failed_has_no_codes():
    engine = fake.FakeEngine(fail_after=1, codes=codes(3))
    async with TestClient(TestServer(create_app(engine))) as client:
        spoken = await client.post("/v1/audio/speech", json={"input": "Hello."}, headers={"x-request-id": "bad"})
        assert spoken.status == 500
        assert (await client.get("/v1/audio/speech/bad/codes")).status == 404
    engine.stop()


async def test_an_engine_that_tells_no_codes_is_no_error():
    engine = fake.FakeEngine()
    async with TestClient(TestServer(create_app(engine))) as client:
        spoken = await client.post("/v1/audio/speech", json={"input": "Hello."}, headers={"x-request-id": "x"})
        assert spoken.status == 200
        assert (await client.get("/v1/audio/speech/x/codes")).status == 404
    engine.stop()
