"""Codes: what is taken from a server, and where two answers part."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_bench.accuracy.parity.codes import CodePlace, codes_record, fetch_codes, first_code_difference, parse_codes
from omni_bench.errors import ProtocolError
from omni_bench.targets.probe import ProbeAnswer


def grid(frames: int, codebooks: int = 4) -> np.ndarray:
    return np.arange(frames * codebooks, dtype=np.int32).reshape(frames, codebooks)


def test_equal_codes_do_not_part():
    assert first_code_difference(grid(5), grid(5)) is None
    assert first_code_difference(grid(0), grid(0)) is None


def test_the_first_frame_counts_and_the_first_codebook_in_it():
    other = grid(5)
    other[4, 0] += 1
    other[2, 3] += 1
    other[2, 1] += 1
    assert first_code_difference(grid(5), other) == CodePlace(2, 1)


def test_an_answer_that_goes_on_parts_where_the_other_ends():
    assert first_code_difference(grid(5), grid(7)) == CodePlace(5, None)
    assert first_code_difference(grid(0), grid(1)) == CodePlace(0, None)


def test_other_codebooks_are_another_answer():
    assert first_code_difference(grid(5, 4), grid(5, 3)) == CodePlace(0, 3)


@given(st.integers(1, 12), st.integers(1, 6), st.data())
def test_a_single_change_is_found_where_it_is(frames, codebooks, data):
    frame, codebook = data.draw(st.integers(0, frames - 1)), data.draw(st.integers(0, codebooks - 1))
    other = grid(frames, codebooks)
    other[frame, codebook] += 1
    assert first_code_difference(grid(frames, codebooks), other) == CodePlace(frame, codebook)


def test_codes_survive_their_record():
    record = json.loads(json.dumps(codes_record("c1-0000", grid(3))))
    assert np.array_equal(parse_codes(record, "c1-0000"), grid(3))
    assert parse_codes(codes_record("a", grid(0)), "a").shape == (0, 4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": [[1, 2]]}, "not a list of frames=2 rows"),
        ({"codes": [[1, 2], [3]]}, "frame 1 is not a list of codebooks=2 numbers"),
        ({"codes": [[1, 2], [3, True]]}, "frame 1 holds something else"),
        ({"codes": [[1, 2], [3, 2**31]]}, "frame 1 holds something else"),
        ({"codes": [[1, -1], [3, 4]]}, "frame 0 holds something else"),
        ({"frames": -1}, "frames is -1"),
        ({"frames": 10**9}, "frames is 1000000000"),
        ({"codebooks": "2"}, "codebooks is '2'"),
        ({"request_id": "other"}, "the server sent those of 'other'"),
    ],
)
def test_an_answer_of_another_form_is_refused(change, message):
    good = {"request_id": "a", "frames": 2, "codebooks": 2, "codes": [[1, 2], [3, 4]]}
    parse_codes(good, "a")
    with pytest.raises(ProtocolError, match=message):
        parse_codes({**good, **change}, "a")


@pytest.mark.parametrize("value", [None, [], "codes"])
def test_something_that_is_no_object_is_refused(value):
    with pytest.raises(ProtocolError, match="not a JSON object"):
        parse_codes(value, "a")


class Server:
    """Answers GETs from a table; everything else is a 404."""

    def __init__(self, **bodies: bytes):
        self.bodies, self.asked = bodies, []

    def __call__(self, url: str, timeout_s: float) -> ProbeAnswer:
        self.asked.append(url)
        name = url.split("/")[-2]
        body = self.bodies.get(name)
        return ProbeAnswer(404, b"", "HTTP 404") if body is None else ProbeAnswer(200, body, None)


def body(name: str) -> bytes:
    return json.dumps(codes_record(name, grid(2))).encode()


def test_codes_are_fetched_by_request_id():
    server = Server(a=body("a"), b=body("b"))
    fetched = fetch_codes("http://127.0.0.1:1/v1", ["a", "b"], get=server)
    assert fetched.problem is None and set(fetched.codes) == {"a", "b"}
    assert server.asked[0] == "http://127.0.0.1:1/v1/audio/speech/b/codes", "the latest first"


def test_a_server_without_codes_is_asked_once():
    server = Server()
    fetched = fetch_codes("http://127.0.0.1:1", ["a", "b", "c"], get=server)
    assert fetched.codes == {} and "HTTP 404" in fetched.problem and len(server.asked) == 1


def test_what_the_server_still_has_is_kept():
    fetched = fetch_codes("http://127.0.0.1:1", ["gone", "b", "c"], get=Server(b=body("b"), c=body("c")))
    assert set(fetched.codes) == {"b", "c"} and "no codes of gone" in fetched.problem


@pytest.mark.parametrize("answer", [b"not json", b"[]", body("b")])
def test_a_server_that_answers_nonsense_is_no_server_with_codes(answer):
    fetched = fetch_codes("http://127.0.0.1:1", ["a"], get=Server(a=answer))
    assert fetched.codes == {} and "codes of request 'a'" in fetched.problem


def test_a_server_that_is_gone_has_no_codes():
    fetched = fetch_codes("http://127.0.0.1:9", ["a"])
    assert fetched.codes == {} and "no codes of a" in fetched.problem
