"""Two answers to one request, by codes and by samples, with the place and the company of the first difference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from answers import make_timeline

from omni_bench.accuracy.parity.compare import (
    CODES,
    NO_AUDIO,
    PCM,
    Neighbour,
    compare_answers,
    compare_run_answers,
    in_flight_at,
    sample_arrived_ns,
)
from omni_bench.errors import StoreError

FRAME, MS = 1920, 1_000_000


def test_the_same_answer_is_equal_and_parts_nowhere(make_answer):
    found = compare_answers(make_answer("c2-0"), make_answer("solo"))
    assert (found.kind, found.equal, found.exact) == (CODES, True, True)
    assert found.first_frame is found.first_sample is found.at_s is found.arrived_ns is None
    assert found.neighbours == () and found.sha256 == found.solo_sha256


def test_a_changed_code_is_located_in_frame_codebook_time_and_company(make_answer):
    mine = make_answer("c2-0", change={(7, 3): 900, (9, 0): 1})
    flight = [
        mine.timeline,
        make_timeline("before", start_ms=-200),  # over at 100 ms
        make_timeline("beside", start_ms=150, prompt="its prompt"),
        make_timeline("after", start_ms=201),
    ]
    found = compare_answers(mine, make_answer("solo"), flight)
    assert (found.kind, found.equal, found.exact) == (CODES, False, False)
    assert (found.first_frame, found.first_codebook) == (7, 3)
    assert found.at_s == pytest.approx(7 * 0.08) and found.arrived_ns == 200 * MS
    assert found.first_sample == 7 * FRAME
    assert found.neighbours == (Neighbour("beside", "its prompt"),)


def test_the_same_codes_with_other_audio_are_not_equal(make_answer):
    mine = make_answer("c2-0", glitch_at=2 * FRAME + 5)
    found = compare_answers(mine, make_answer("solo"), [mine.timeline, make_timeline("beside", start_ms=50)])
    assert found.kind == CODES and found.equal is False and found.first_frame is None
    assert found.first_sample == 2 * FRAME + 5 and found.arrived_ns == 100 * MS
    assert [one.request_id for one in found.neighbours] == ["beside"]


def test_without_codes_of_both_the_samples_decide(make_answer):
    found = compare_answers(make_answer("c2-0", change={(1, 0): 900}), make_answer("solo", codes=False))
    assert (found.kind, found.equal, found.first_frame) == (PCM, False, None)
    assert found.first_sample == FRAME and found.at_s == pytest.approx(0.08)


def test_without_audio_the_codes_decide(make_answer):
    found = compare_answers(make_answer("c2-0", audio=False), make_answer("solo", change={(3, 2): 1}))
    assert (found.kind, found.equal, found.exact, found.first_frame) == (CODES, False, None, 3)


def test_with_neither_nothing_is_said(make_answer):
    found = compare_answers(make_answer("c2-0", audio=False, codes=False), make_answer("solo"))
    assert found.kind is None and found.equal is None and found.problem == NO_AUDIO


def test_two_empty_answers_are_equal(make_answer):
    empty = make_answer("c2-0", audio=False, codes=False, frames=0)
    assert compare_answers(empty, replace(empty)).equal is True


def test_a_shorter_answer_parts_at_its_end(make_answer):
    found = compare_answers(make_answer("c2-0", frames=8), make_answer("solo"))
    assert (found.first_frame, found.first_codebook) == (8, None)
    assert found.length_difference == -2 * FRAME and found.first_sample == 8 * FRAME
    assert found.arrived_ns == 300 * MS, "the moment the answer ended"


def test_a_request_that_failed_is_not_compared(make_answer):
    found = compare_answers(make_answer("c2-0"), make_answer("solo", error="timeout"))
    assert found.equal is None and found.solo_error == "timeout" and found.problem == "solo failed: timeout: made up"
    found = compare_answers(make_answer("c2-0", error="connect"), make_answer("solo"))
    assert found.equal is None and found.solo_error is None and "c2-0 failed" in found.problem


def test_a_recording_that_is_gone_is_an_error(make_answer):
    mine = make_answer("c2-0")
    mine.audio.unlink()
    with pytest.raises(StoreError, match=r"c2-0\.pcm"):
        compare_answers(mine, make_answer("solo"))


def test_samples_arrive_with_the_read_that_holds_them():
    timeline = make_timeline("a")
    ends = [sample_arrived_ns(timeline, sample) for sample in (0, 5 * FRAME - 1, 5 * FRAME, 10 * FRAME)]
    assert ends == [100 * MS, 100 * MS, 200 * MS, 300 * MS]


def test_company_begins_when_sent_and_ends_when_finished():
    one = make_timeline("one", start_ms=100)
    for at_ms, expected in ((99, 0), (100, 1), (400, 1), (401, 0)):
        assert len(in_flight_at(at_ms * MS, [one], besides="me")) == expected
    assert in_flight_at(200 * MS, [one], besides="one") == ()


def test_runs_are_joined_by_prompt_and_seed(make_answer):
    faulty = [
        make_answer("f0", prompt="a", seed=1),
        make_answer("f1", prompt="b", seed=2, change={(4, 6): 1}),
        make_answer("f2", prompt="a", seed=3),
        make_answer("f3", prompt="c", seed=None),
    ]
    clean = [
        make_answer("k0", prompt="b", seed=2, error="connect"),
        make_answer("k1", prompt="b", seed=2),
        make_answer("k2", prompt="a", seed=1),
        make_answer("k3", prompt="c", seed=None),
    ]
    first, second = compare_run_answers(faulty, clean)
    assert (first.request_id, first.solo_id, first.equal) == ("f0", "k2", True)
    assert (second.request_id, second.solo_id, second.first_frame, second.first_codebook) == ("f1", "k1", 4, 6)
    assert {one.request_id for one in second.neighbours} == {"f0", "f2", "f3"}
