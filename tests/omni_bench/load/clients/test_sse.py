"""Event streams by the letter of the standard, in any split, within a bound."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.load.clients.decoder import WireFailure
from omni_bench.load.clients.sse import SseParser


def parse(stream, *cuts, limit_bytes=1000):
    parser = SseParser(limit_bytes)
    events = []
    for begin, end in pairwise([0, *cuts, len(stream)]):
        events += parser.feed(stream[begin:end])
    return [*events, *parser.end()]


STREAMS = [
    (b"data: a\n\ndata: b\n\n", ["a", "b"]),
    (b"data:a\n\ndata:  b\n\n", ["a", " b"]),  # one space is of the form, the next of the data
    (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
    (b"data: a\r\rdata: b\r\r", ["a", "b"]),
    (b"data: a\n\r\ndata: b\r\n\n", ["a", "b"]),
    (b"data: a\ndata: b\n\n", ["a\nb"]),
    (b"data: a\r\ndata\r\ndata: b\r\n\r\n", ["a\n\nb"]),
    (b": keep-alive\n\n\n\ndata: a\n: ping\n\n: bye\n\n", ["a"]),
    (b"event: x\nid: 7\nretry: 10\ndata: a\n\nevent: y\n\n", ["a"]),
    (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
    ("data: Zoë 你好 😀\n\n".encode(), ["Zoë 你好 😀"]),
    (b"data: a\n", ["a"]),  # the body ends cleanly after a whole line
    (b"data: a\n\ndata: b", ["a"]),  # half a line is no event
    (b"data\n\n", [""]),
    (b"database: a\n\n data: b\n\n", []),
    (b"", []),
]


@pytest.mark.parametrize(("stream", "events"), STREAMS)
def test_streams_at_every_split(stream, events):
    assert parse(stream) == events
    assert parse(stream, *range(len(stream))) == events
    for cut in range(len(stream) + 1):
        assert parse(stream, cut) == events, cut


_PIECE = st.sampled_from(
    [b"data: ", b"data:", b": c", b"\n", b"\r\n", b"\r", b"\n\n", b"x", b"\xc3\xa9", b"event: e", b""]
)


@given(st.lists(_PIECE, max_size=30), st.lists(st.integers(0, 200), max_size=10))
def test_any_stream_is_the_same_in_any_pieces(pieces, cuts):
    stream = b"".join(pieces)
    cuts = sorted(cut for cut in cuts if cut <= len(stream))
    assert parse(stream, *cuts) == parse(stream)


@pytest.mark.parametrize(
    "stream", [b"data: " + b"x" * 1000 + b"\n\n", b": " + b"x" * 1000, b"data: x\n" * 400 + b"\n", b"x" * 2000]
)
def test_an_event_or_a_line_beyond_the_bound(stream):
    for cuts in ([], [500], range(0, len(stream), 10)):
        with pytest.raises(WireFailure) as caught:
            parse(stream, *cuts)
        assert caught.value.error.kind == "too_large"


def test_many_events_within_the_bound():
    assert len(parse(b"data: " + b"x" * 900 + b"\n\n" + b"data: y\n\n" * 500)) == 501


def test_bytes_that_are_no_text():
    with pytest.raises(WireFailure, match="not UTF-8") as caught:
        parse(b"data: \xff\xfe\n\n")
    assert caught.value.error.kind == "content_type"
