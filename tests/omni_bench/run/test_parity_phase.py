"""Which requests are sent alone, and what they are compared with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omni_bench.records.plan import LevelPlan, PlannedRequest
from omni_bench.records.recording import LevelRecording
from omni_bench.run.parity import ParityPhase, solo_level


@pytest.fixture
def plan():
    def make(concurrency: int, requests: int = 5) -> LevelPlan:
        measured = tuple(
            PlannedRequest(f"c{concurrency}-{i}", f"p{i}", {"input": f"text {i}", "seed": i}, i, False, None)
            for i in range(requests)
        )
        warmup = (PlannedRequest(f"c{concurrency}-w0", "w", {"input": "warm"}, 99, True, None),)
        return LevelPlan(concurrency, warmup, measured)

    return make


def record(plan: LevelPlan, answers) -> LevelRecording:
    audio = {one.request_id: one.audio for one in answers if one.audio is not None}
    return LevelRecording(plan.concurrency, tuple(one.timeline for one in answers), (), audio, None, False, False)


def test_bodies_and_seeds_are_those_of_the_level(plan):
    solo = solo_level(plan(4), ["c4-0", "c4-2"], repeats=0)
    assert solo.concurrency == 4 and solo.plan.concurrency == 1 and solo.plan.warmup == ()
    assert [one.request_id for one in solo.plan.measured] == ["solo-c4-0", "solo-c4-2"]
    assert [(one.prompt_id, one.body, one.seed) for one in solo.plan.measured] == [
        ("p0", {"input": "text 0", "seed": 0}, 0),
        ("p2", {"input": "text 2", "seed": 2}, 2),
    ]
    assert solo.pairs == (("c4-0", "solo-c4-0", False), ("c4-2", "solo-c4-2", False))


def test_the_first_are_sent_twice_with_something_in_between(plan):
    solo = solo_level(plan(1), ["c1-0", "c1-1", "c1-2"], repeats=2)
    names = [one.request_id for one in solo.plan.measured]
    assert names == ["solo-c1-0", "solo-c1-1", "solo-c1-0-again", "solo-c1-1-again", "solo-c1-2"]
    assert solo.pairs[3:] == (("solo-c1-0", "solo-c1-0-again", True), ("solo-c1-1", "solo-c1-1-again", True))


def test_repeats_are_shared_by_levels_that_are_short(plan, make_answer):
    phase = ParityPhase(requests=1)
    plans = [plan(1), plan(2), plan(4)]
    recordings = [record(one, [make_answer(f"c{one.concurrency}-{i}") for i in range(3)]) for one in plans]
    planned = phase.plan(plans, recordings)
    assert [len(level.plan.measured) for level in planned] == [2, 2, 1]


def test_requests_that_failed_in_company_are_not_sent_again(plan, make_answer):
    level = plan(2)
    answers = [make_answer("c2-0", error="timeout"), *(make_answer(f"c2-{i}") for i in range(1, 5))]
    phase = ParityPhase(requests=2)
    assert phase.candidates(record(level, answers)) == ["c2-1", "c2-2"]
    only_failures = record(level, [make_answer("c2-0", error="timeout")])
    assert ParityPhase(requests=2).plan([level], [only_failures]) == []


def test_pairs_are_compared_by_what_is_known_of_them(plan, make_answer):
    level = plan(2, requests=3)
    company = [
        make_answer("c2-0", start_ms=0),
        make_answer("c2-1", start_ms=10, change={(6, 2): 700}),
        make_answer("c2-2", start_ms=900),
    ]
    alone = [make_answer(f"solo-c2-{i}", start_ms=5000 + 500 * i, concurrency=1) for i in range(2)]
    alone += [make_answer(f"solo-c2-{i}-again", start_ms=7000, concurrency=1, change={(0, 0): 1}) for i in range(2)]
    phase = ParityPhase(requests=2)
    phase.plan([level], [record(level, company)])
    phase.solos[2] = record(replace(level, concurrency=1), alone)
    phase.codes = {one.request_id: one.codes for one in (*company, *alone)}
    equal, other, *repeats = phase.compare([record(level, company)])
    assert (equal.request_id, equal.equal, equal.concurrency) == ("c2-0", True, 2)
    assert (other.request_id, other.first_frame, other.first_codebook) == ("c2-1", 6, 2)
    assert [one.request_id for one in other.neighbours] == ["c2-0"]
    assert [(one.repeat, one.equal, one.concurrency, one.neighbours) for one in repeats] == [(True, False, 2, ())] * 2


def test_a_level_that_was_not_come_to_has_no_comparison(plan, make_answer):
    phase = ParityPhase(requests=2)
    recording = record(plan(2), [make_answer("c2-0")])
    phase.plan([plan(2)], [recording])
    assert phase.compare([recording]) == []
