"""Comparisons on disk."""

from __future__ import annotations

import json

import pytest
from answers import make_comparison, make_words

from omni_bench.accuracy.parity.compare import Neighbour
from omni_bench.accuracy.parity.records import comparison_of, comparison_record, parity_record
from omni_bench.accuracy.parity.verdict import level_parity
from omni_bench.errors import StoreError


def test_a_comparison_survives_its_line():
    for one in (
        make_comparison(),
        make_comparison(equal=None, kind=None, problem="failed", solo_error="timeout", seed=None),
        make_comparison(
            equal=False,
            first_frame=3,
            first_codebook=5,
            first_sample=5760,
            at_s=0.24,
            arrived_ns=10**15,
            neighbours=(Neighbour("c4-0001", "q"), Neighbour("c4-0002", "r")),
            words=make_words(heard="", wer_between=None, worse=True),
        ),
    ):
        assert comparison_of(json.loads(json.dumps(comparison_record(one)))) == one


def test_what_was_heard_stands_beside_the_rest():
    assert comparison_record(make_comparison(words=make_words(wer_between=0.5)))["wer_between"] == 0.5
    assert comparison_record(make_comparison())["wer_between"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"request_id": None}, "request_id is None; expected str"),
        ({"equal": 1}, "equal is 1; expected bool . null"),
        ({"concurrency": True}, "concurrency is True; expected int"),
        ({"at_s": "0.1"}, "at_s is '0.1'; expected float . null"),
        ({"neighbours": None}, "neighbours is None; expected array"),
        ({"neighbours": [{"request_id": 3, "prompt_id": "p"}]}, r"neighbours\[0\].request_id is 3"),
        ({"wer": None}, "wer is None; expected float"),
        ({"worse": 0}, "worse is 0; expected bool"),
    ],
)
def test_a_line_of_another_form_is_named(change, message):
    record = {**comparison_record(make_comparison(words=make_words())), **change}
    with pytest.raises(StoreError, match=message):
        comparison_of(record)


def test_a_field_that_is_missing_is_named():
    record = comparison_record(make_comparison())
    del record["seed"]
    with pytest.raises(StoreError, match="missing required field seed"):
        comparison_of(record)


def test_a_levels_parity_names_the_first_difference():
    found = make_comparison(equal=False, first_frame=3, first_codebook=0, at_s=0.24, neighbours=(Neighbour("n", "q"),))
    record = parity_record(level_parity([found], 4, deterministic=False))
    assert record["first"] == {
        "request_id": "c4-0000",
        "solo_id": "solo-c4-0000",
        "prompt_id": "p",
        "first_frame": 3,
        "first_codebook": 0,
        "first_sample": None,
        "at_s": 0.24,
        "neighbours": [{"request_id": "n", "prompt_id": "q"}],
    }
    assert parity_record(None) is None
