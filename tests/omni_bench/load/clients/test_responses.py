"""Error messages are found where servers put them, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.load.clients.responses import (
    MESSAGE_LIMIT_CHARS,
    describe_body,
    error_at_end,
    error_in_body,
    message_of,
    one_line,
    parse_content_type,
)


@given(st.text())
def test_shortened_text_is_one_printable_line(text):
    line = one_line(text)
    assert len(line) <= MESSAGE_LIMIT_CHARS
    assert line.isprintable()


@given(st.binary(max_size=2000))
def test_any_body_can_be_described(body):
    assert describe_body(body)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"error": {"message": "m", "code": 1}}, "m"),
        ({"error": {"code": 1}}, '{"code": 1}'),
        ({"error": "m"}, "m"),
        ({"detail": "m"}, "m"),
        ({"error": None}, None),
        ({"data": 1}, None),
        ([1], None),
        ("error", None),
    ],
)
def test_message_of(value, message):
    assert message_of(value) == message


def test_the_error_among_events():
    body = b'data: {"type": "speech.audio.delta"}\n\ndata: {"error": {"message": "m"}}\n\ndata: [DONE]\n\n'
    assert error_in_body(body) == "m"


def test_deeply_nested_json_is_no_crash():
    assert error_in_body(b"[" * 100_000) is None


def test_error_at_end_gives_offset_and_message():
    assert error_at_end(b'\x00\x01{"error": {"message": "m"}} \n') == (2, "m")


@pytest.mark.parametrize("tail", [b"", b"\x00" * 99, b'{"error": "m"} and more', b'{"error": "m', b'{"error": null}'])
def test_no_error_at_end(tail):
    assert error_at_end(tail) is None


def test_a_tail_full_of_openings_is_no_error():
    assert error_at_end(b'{"error":' * 1500) is None


# --- what headers say of a payload


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("audio/pcm", ("audio/pcm", None, None)),
        ("Audio/PCM; Rate=16000", ("audio/pcm", 16_000, None)),
        ('audio/pcm; sample_rate="24000"; channels=1', ("audio/pcm", 24_000, None)),
    ],
)
def test_content_types(value, expected):
    assert parse_content_type(value) == expected


@pytest.mark.parametrize("value", ["audio/pcm; rate=fast", "audio/pcm; rate=1", "audio/pcm; channels=2"])
def test_content_types_that_cannot_be(value):
    assert parse_content_type(value)[2] is not None
