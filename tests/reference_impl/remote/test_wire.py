"""What goes between the HTTP process and the engine's comes out as it went in."""

from __future__ import annotations

import json
import pickle
import struct
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.errors import EngineError
from reference_impl.engine_api import (
    AudioChunk,
    EngineDead,
    EngineStats,
    Failed,
    Finished,
    QueueFull,
    RequestRejected,
    SpeechRequest,
)
from reference_impl.remote import wire

STATS = EngineStats(True, 3, 2**40, *range(4, 11), 0.5, 1e-9, 1e9)
ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates too: JSON from a client may hold them


def body_of(message: bytes, kind: int) -> bytes:
    buffer = bytearray(message)
    taken = wire.take_message(buffer)
    assert taken is not None and taken[0] == kind and not buffer
    return taken[1]


def through(*items: wire.Item) -> list[wire.Item]:
    stats, read = wire.read_report(body_of(wire.report_message(STATS, items), wire.REPORT))
    assert stats == STATS
    return list(read)


@given(text=ANY_TEXT, seed=st.integers(0, 2**63 - 1), number=st.integers(0, wire.MAX_NUMBER))
def test_a_request(text, seed, number):
    request = SpeechRequest("a.1", text, "alba", seed, max_new_tokens=7, streaming_text=False)
    assert wire.read_submit(body_of(wire.submit_message(number, request), wire.SUBMIT)) == (number, request)


@pytest.mark.parametrize("samples", [0, 1, 48_000])
def test_a_recording(samples):
    reference = np.linspace(-1, 1, samples, dtype=np.float32)
    request = SpeechRequest("a.1", "x", "alba", 1, reference_audio=reference, reference_text="y")
    _, read = wire.read_submit(body_of(wire.submit_message(1, request), wire.SUBMIT))
    assert read.reference_audio.dtype == np.float32 and np.array_equal(read.reference_audio, reference)
    assert read.reference_text == "y"


def test_every_field_of_a_request_is_sent():
    values = {"reference_audio": np.zeros(2, np.float32)}
    values |= {field.name: field.name for field in fields(SpeechRequest) if field.name not in values}
    _, read = wire.read_submit(body_of(wire.submit_message(1, SpeechRequest(**values)), wire.SUBMIT))
    assert {name: getattr(read, name) for name in values if name != "reference_audio"} == {
        name: name for name in values if name != "reference_audio"
    }


def test_a_cancellation():
    assert wire.read_cancel(body_of(wire.cancel_message(wire.MAX_NUMBER), wire.CANCEL)) == wire.MAX_NUMBER


@pytest.mark.parametrize(
    "event",
    [
        AudioChunk(bytes(range(256)) * 15, 1),
        AudioChunk(b"", 8),
        Failed("the engine died: ünïcode"),
        Failed(""),
        Finished("length", 12, 7),
    ],
)
def test_an_event(event):
    (item,) = through(wire.event_item(9, event))
    assert (item.number, wire.read_event(item)) == (9, event)


def test_a_failure_with_bytes_that_are_no_text():
    (item,) = through(wire.event_item(9, Failed("no such file: \udcff")))
    assert wire.read_event(item).message == "no such file: \\udcff"


@pytest.mark.parametrize("frames", [0, 1, 300])
def test_codes(frames):
    codes = np.arange(frames * 16, dtype=np.int16).reshape(frames, 16)
    (item,) = through(wire.event_item(1, Finished("stop", frames, 7, codes)))
    finished = wire.read_event(item)
    assert (finished.reason, finished.frames, finished.prompt_tokens) == ("stop", frames, 7)
    assert finished.codes.shape == codes.shape and np.array_equal(finished.codes, codes)


@pytest.mark.parametrize("error", [QueueFull("full"), EngineDead("dead"), EngineError("broken")])
def test_a_refusal(error):
    read = wire.read_refusal(*through(wire.refusal_item(1, error)))
    assert type(read) is type(error) and str(read) == str(error)


def test_a_rejection_names_its_field():
    read = wire.read_refusal(*through(wire.refusal_item(1, RequestRejected("nothing to speak", "input"))))
    assert isinstance(read, RequestRejected) and (str(read), read.param) == ("nothing to speak", "input")


def test_an_error_of_another_kind_is_refused_as_an_engine_error():
    read = wire.read_refusal(*through(wire.refusal_item(1, ValueError("secret"))))
    assert type(read) is EngineError


def test_a_report_keeps_the_order_of_its_items():
    items = [wire.Item(number, wire.CHUNK, number, bytes([number])) for number in (5, 3, 5, 4)]
    assert through(*items) == items
    assert through() == []


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6), st.integers(1, 60))
def test_messages_come_out_whole_however_they_are_cut(bodies, step):
    stream = b"".join(wire.message(kind, body) for kind, body in enumerate(bodies, 1))
    buffer, taken = bytearray(), []
    for start in range(0, len(stream), step):
        buffer += stream[start : start + step]
        while (message := wire.take_message(buffer)) is not None:
            taken.append(message)
    assert taken == list(enumerate(bodies, 1)) and not buffer


def test_reading_no_further_than_one_message():
    stream = wire.message(wire.READY, b"12345") + b"the next one"
    buffer, at = bytearray(), 0
    while wire.take_message(bytearray(buffer)) is None:
        count = wire.missing_bytes(buffer)
        buffer += stream[at : at + count]
        at += count
    assert at == len(wire.message(wire.READY, b"12345"))


@pytest.mark.parametrize("length", [0, wire.MAX_MESSAGE_BYTES + 1, 2**32 - 1])
def test_a_length_that_cannot_be(length):
    with pytest.raises(EngineError, match=str(length)):
        wire.take_message(bytearray(struct.pack("<IB", length, 1)))


def test_nothing_that_is_read_can_name_code():
    payload = pickle.dumps(json.loads)
    for read in (wire.read_submit, wire.split_blob):
        with pytest.raises((ValueError, struct.error)):
            read(payload)
