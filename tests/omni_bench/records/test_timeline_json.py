"""Timelines survive JSON exactly, and damaged ones are refused by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.errors import StoreError
from omni_bench.records.timeline import ERROR_KINDS, RequestError, Timeline
from omni_bench.records.timeline_json import timeline_from_dict, timeline_to_dict

ns = st.integers(min_value=0, max_value=2**63)
maybe_ns = st.none() | ns


@st.composite
def timelines(draw):
    chunks = draw(st.lists(st.tuples(ns, st.integers(0, 2**40)), max_size=20))
    error = draw(st.none() | st.builds(RequestError, kind=st.sampled_from(ERROR_KINDS), message=st.text()))
    end = draw(ns)
    texts = draw(st.lists(st.tuples(ns, st.integers(0, 50)), max_size=10))
    return Timeline(
        request_id=draw(st.text()),
        prompt_id=draw(st.text()),
        concurrency=draw(st.integers(1, 1000)),
        seed=draw(st.none() | st.integers()),
        scheduled_ns=draw(ns),
        started_ns=draw(ns),
        headers_ns=draw(maybe_ns),
        first_byte_ns=draw(maybe_ns),
        first_audio_ns=draw(maybe_ns),
        ended_ns=end if error is None else None,
        failed_ns=None if error is None else end,
        chunk_arrived_ns=tuple(arrived for arrived, _ in chunks),
        chunk_bytes=tuple(size for _, size in chunks),
        sample_rate_hz=draw(st.none() | st.integers(1, 10**6)),
        sample_width_bytes=draw(st.integers(1, 8)),
        http_status=draw(st.none() | st.integers(100, 599)),
        error=error,
        warmup=draw(st.booleans()),
        chunk_ends=tuple(draw(st.booleans()) for _ in chunks) if draw(st.booleans()) else (),
        text_arrived_ns=tuple(arrived for arrived, _ in texts),
        text_tokens=tuple(count for _, count in texts) if draw(st.booleans()) else (),
        reply_text=draw(st.none() | st.text()),
        completion_tokens=draw(st.none() | st.integers(0, 10**6)),
        server_request_id=draw(st.none() | st.text()),
    )


@given(timelines())
def test_round_trip_through_text(timeline):
    record = json.loads(json.dumps(timeline_to_dict(timeline)))
    assert timeline_from_dict({**record, "later_version": 1}) == timeline


GOOD = {
    "request_id": "r",
    "prompt_id": "p",
    "concurrency": 1,
    "seed": None,
    "scheduled_ns": 0,
    "started_ns": 0,
    "headers_ns": None,
    "first_byte_ns": None,
    "first_audio_ns": None,
    "ended_ns": 5,
    "failed_ns": None,
    "chunk_arrived_ns": [1, 2],
    "chunk_bytes": [3, 4],
    "sample_rate_hz": 24000,
    "sample_width_bytes": 2,
    "http_status": 200,
    "error": None,
    "warmup": False,
}


def test_in_a_line_of_schema_1_0_every_read_is_a_chunk():
    timeline = timeline_from_dict(GOOD)
    assert timeline.chunk_ends == () and timeline.http_chunks == ((1, 1), (2, 2))


def test_a_line_of_before_1_4_has_no_text():
    timeline = timeline_from_dict(GOOD)
    assert (timeline.text_arrived_ns, timeline.text_tokens, timeline.reply_text) == ((), (), None)
    assert timeline.completion_tokens is timeline.output_tokens is timeline.server_request_id is None


def test_the_tokens_of_a_reply_are_those_that_the_server_counts():
    stated = {"text_arrived_ns": [1, 2], "text_tokens": [3, 4]}
    assert timeline_from_dict({**GOOD, **stated}).output_tokens == 7
    assert timeline_from_dict({**GOOD, **stated, "completion_tokens": 9}).output_tokens == 9
    assert timeline_from_dict({**GOOD, "text_arrived_ns": [1, 2]}).output_tokens is None


def test_the_reads_of_an_http_chunk_are_one_chunk_from_its_first_byte():
    timeline = timeline_from_dict({**GOOD, "chunk_ends": [False, True]})
    assert timeline.http_chunks == ((1, 3),)
    cut = {"chunk_arrived_ns": [1, 2, 5], "chunk_bytes": [3, 4, 2], "chunk_ends": [True, False, False]}
    assert timeline_from_dict({**GOOD, **cut}).http_chunks == ((1, 1), (2, 3))


@pytest.mark.parametrize("name", sorted(GOOD.keys() - {"warmup"}))
def test_a_missing_field_is_named(name):
    with pytest.raises(StoreError, match=f"missing required field {name}"):
        timeline_from_dict({key: value for key, value in GOOD.items() if key != name})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("request_id", 5),
        ("concurrency", True),
        ("started_ns", 1.5),
        ("seed", "x"),
        ("chunk_bytes", [1]),
        ("chunk_bytes", [-1, 5]),
        ("sample_rate_hz", 0),
        ("chunk_ends", [True]),
        ("chunk_ends", [0, 1]),
        ("text_arrived_ns", [1.5]),
        ("sample_width_bytes", 0),
        ("warmup", 0),
        ("error", "boom"),
        ("error", {"kind": "timeout"}),
        ("error", {"kind": "timeout", "message": "though it ended"}),
        ("ended_ns", None),
        ("failed_ns", 5),
    ],
)
def test_a_wrong_value_is_named(name, value):
    with pytest.raises(StoreError, match=r"timeline .*(must be|expected|missing required)"):
        timeline_from_dict({**GOOD, name: value})
