"""The facts in an answer, and which of them a reader must be told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from timelines import BASE_NS, make_timeline

from omni_bench.records.config import ClientConfig
from omni_bench.run.conformance import NOT_REPEATABLE, Framing, describe, listed_models, warnings
from omni_bench.targets.base import TargetInfo

MS = 1_000_000
CLIENT = ClientConfig(kind="openai_speech", model="m")
INFO = TargetInfo("external", "http://127.0.0.1:1", 0.1, None, None, None)
RAW = Framing(200, "audio/pcm", "chunked", None)


def answer(arrived_ms=(10, 60), ended_ms=100, samples=12000, text_ms=(), **changes):
    timeline = make_timeline("probe-0", ended=ended_ms, chunks=[(one, samples) for one in arrived_ms])
    return replace(timeline, text_arrived_ns=tuple(BASE_NS + one * MS for one in text_ms), **changes)


def test_a_stream_of_samples():
    found = describe(answer(), RAW, "obeyed")
    assert (found.status, found.content_type, found.transfer) == (200, "audio/pcm", "chunked")
    assert found.audio_s == pytest.approx(1.0) and found.chunks == 2 and found.first_share == pytest.approx(0.1)
    assert found.streams and list(warnings(found, CLIENT, INFO)) == []
    assert json.loads(json.dumps(found.as_dict()))["seed"] == "obeyed"
    assert found.line() == (
        "probe: HTTP 200, audio/pcm, chunked, 24000 Hz (client.sample_rate_hz: not stated), "
        "1.0 s of audio in 2 pieces, the first after 10 % of the time, clean end; seed: obeyed"
    )


@pytest.mark.parametrize(
    ("framing", "stated"),
    [
        (RAW, False),
        (replace(RAW, stated_rate_hz=24000), True),
        (replace(RAW, content_type="application/octet-stream"), False),
        (replace(RAW, content_type="text/event-stream"), None),
        (replace(RAW, content_type="audio/wav"), None),
        (None, None),
    ],
)
def test_who_states_the_sample_rate(framing, stated):
    assert describe(answer(), framing, None).sample_rate_stated is stated


@pytest.mark.parametrize(
    ("arrived_ms", "streams"),
    [((10,), False), ((89, 90), True), ((91, 95), False), ((100,), False), ((99, 99, 100), False)],
)
def test_what_is_a_stream(arrived_ms, streams):
    """One piece is none, and neither is a file that comes in pieces once it is complete."""
    found = describe(answer(arrived_ms), RAW, None)
    assert found.streams is streams
    assert ["does not stream" in one for one in warnings(found, CLIENT, INFO)] == ([] if streams else [True])


def test_reads_of_one_http_chunk_are_one_piece():
    found = describe(answer((10, 60), chunk_ends=(False, True)), RAW, None)
    assert found.chunks == 1 and not found.streams


def test_a_reply_in_text():
    found = describe(answer((), text_ms=(10, 20, 30)), Framing(200, "text/event-stream", "chunked", None), "obeyed")
    assert (found.audio_s, found.sample_rate_hz, found.chunks, found.text_deltas) == (None, None, 0, 3)
    assert found.streams and found.first_share == pytest.approx(0.1)
    assert "text in 3 pieces" in found.line() and "Hz" not in found.line()
    late = describe(answer((), text_ms=(100,)), RAW, None)
    assert "text came in one piece, after 100 % of the time; TTFT is E2EL" in next(warnings(late, CLIENT, INFO))


def test_an_answer_of_nothing_has_no_shares():
    found = describe(answer((), sample_rate_hz=None), None, None)
    assert found.first_share is None and found.audio_s is None and not found.streams
    assert "seed: none sent" in found.line()


def test_an_end_at_the_very_start_divides_by_nothing():
    assert describe(answer((0,), ended_ms=0), RAW, None).first_share is None


def test_a_seed_that_repeats_nothing_is_warned_of():
    (warning,) = warnings(describe(answer(), RAW, NOT_REPEATABLE), CLIENT, INFO)
    assert "runs cannot be repeated exactly" in warning


@pytest.mark.parametrize(
    ("models", "listed"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}]}, ["a", "b"]),
        ({"data": [{"id": 3}, "x", None, {}]}, []),
        ({"data": "m"}, []),
        ([], []),
        (None, []),
    ],
)
def test_the_models_that_a_server_lists(models, listed):
    assert listed_models(models) == listed
    found = list(warnings(describe(answer(), RAW, None), CLIENT, replace(INFO, models=models)))
    assert bool(found) is bool(listed)
    if found:
        assert found == ["client.model=m is not among the models that the server lists: a, b"]


def test_a_model_that_is_listed_is_not_mentioned():
    info = replace(INFO, models={"data": [{"id": "m"}]})
    assert list(warnings(describe(answer(), RAW, None), CLIENT, info)) == []
