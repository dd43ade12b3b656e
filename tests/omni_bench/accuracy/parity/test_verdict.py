"""The rule: what makes a level invalid, and what is only a finding."""

from __future__ import annotations

import pytest
from answers import make_comparison, make_words

from omni_bench.accuracy.parity.verdict import is_mismatch, level_parity, mcnemar_p
from omni_bench.run.validity import CORRUPTED_LIMIT, parity_reasons


@pytest.fixture
def repeat():
    """The comparison of a request that was sent twice alone."""

    def make(equal: bool = True, **fields):
        return make_comparison("solo-c4-0000", repeat=True, equal=equal, **fields)

    return make


def judge_level(comparisons, deterministic=False):
    parity = level_parity(comparisons, 4, deterministic=deterministic)
    return parity, [str(reason) for reason in parity_reasons(parity)]


def test_a_level_without_comparisons_was_not_checked():
    assert level_parity([make_comparison()], 8, deterministic=True) is None
    assert list(parity_reasons(None)) == []


def test_equal_answers_are_no_reason(repeat):
    parity, reasons = judge_level([make_comparison(f"c4-{i}") for i in range(8)] + [repeat(), repeat()], True)
    assert (parity.kind, parity.compared, parity.mismatches, parity.exact) == ("codes", 8, 0, 8)
    assert (parity.repeatable, parity.repeats, parity.asked, parity.sent) == (True, 2, 8, 10)
    assert parity.first is None and parity.mcnemar_p is None and reasons == []


def test_a_difference_is_an_error_of_a_server_that_claims_determinism(repeat):
    comparisons = [make_comparison("c4-0", equal=False, first_frame=3), make_comparison("c4-1"), repeat()]
    parity, (reason,) = judge_level(comparisons, deterministic=True)
    assert parity.mismatches == 1 and parity.first.request_id == "c4-0"
    assert "1 of 2 answers differ" in reason and "claims to be deterministic" in reason


def test_a_difference_alone_is_a_finding_of_any_other(repeat):
    parity, reasons = judge_level([make_comparison("c4-0", equal=False), repeat()])
    assert parity.mismatches == 1 and parity.kind == "codes" and reasons == []


def test_a_server_that_does_not_repeat_itself_is_compared_by_transcripts(repeat):
    comparisons = [make_comparison(f"c4-{i}", equal=False, words=make_words()) for i in range(8)] + [repeat(False)]
    parity, reasons = judge_level(comparisons)
    assert (parity.kind, parity.repeatable, parity.differ, parity.mismatches) == ("transcript", False, 8, 0)
    assert parity.compared == 8 and parity.first is None and reasons == []


def test_without_a_judge_nothing_can_be_said_of_it(repeat):
    parity, reasons = judge_level([make_comparison(equal=False), repeat(False)])
    assert parity.kind == "transcript" and parity.compared == 0 and parity.mismatches is None and reasons == []


def test_a_claim_of_determinism_is_held_against_a_server_that_does_not_repeat_itself(repeat):
    parity, reasons = judge_level([make_comparison(), repeat(False)], deterministic=True)
    assert parity.kind == "codes" and parity.mismatches == 0
    assert reasons == [
        "parity: 1 of 1 requests sent twice without company got another answer the second time, and the server "
        "claims to be deterministic"
    ]


def test_a_level_of_concurrency_1_shows_whether_the_server_repeats_itself():
    alone = make_comparison("c1-0", concurrency=1, equal=False)
    parity, _ = judge_level([alone, make_comparison("c4-0")])
    assert parity.repeatable is False and parity.repeats == 1


def test_whether_it_repeats_itself_may_be_unknown(repeat):
    failed = repeat(equal=None, kind=None, solo_error="timeout")
    parity, reasons = judge_level([make_comparison(equal=False), failed])
    assert parity.repeatable is None and parity.kind == "codes" and parity.mismatches == 1
    assert reasons == ["1 of 2 requests failed when sent alone (timeout 1)"]


def test_samples_count_where_a_pair_has_no_codes():
    parity, _ = judge_level([make_comparison("c4-0"), make_comparison("c4-1", kind="pcm", exact=False)])
    assert parity.kind == "pcm" and parity.exact == 1


def test_requests_that_failed_alone_are_named_but_not_those_that_were_given_up():
    given_up = make_comparison("c4-0", kind=None, equal=None, exact=None, solo_error="cancelled")
    parity, reasons = judge_level([given_up])
    assert parity.failed == {"cancelled": 1} and parity.mismatches is None and reasons == []
    broken = make_comparison("c4-1", kind=None, equal=None, exact=None, solo_error="connect")
    _, reasons = judge_level([given_up, broken])
    assert reasons == ["1 of 2 requests failed when sent alone (connect 1)"]


def test_the_first_mismatch_is_the_one_that_arrived_first():
    parity, _ = judge_level(
        [
            make_comparison("c4-0", equal=False),
            make_comparison("c4-1", equal=False, arrived_ns=900),
            make_comparison("c4-2", equal=False, arrived_ns=100),
        ]
    )
    assert parity.first.request_id == "c4-2"


def damaged(**fields):
    return make_words(worse=True, corrupted=True, wer=0.8, **fields)


def test_words_damaged_in_company_alone_are_an_error(repeat):
    comparisons = [make_comparison(f"c4-{i}", words=make_words()) for i in range(6)]
    comparisons += [make_comparison(f"c4-x{i}", equal=False, words=damaged()) for i in range(CORRUPTED_LIMIT)]
    parity, (reason,) = judge_level([*comparisons, repeat()])
    assert parity.corrupted == CORRUPTED_LIMIT and parity.mcnemar_p == 0.5
    assert "2 of 8 utterances are corrupted in company and none alone" in reason


@pytest.mark.parametrize("case", ["one", "equal codes", "alone too", "not repeatable"])
def test_damage_that_company_cannot_be_blamed_for(repeat, case):
    bad = [make_comparison(f"c4-{i}", equal=case == "equal codes", words=damaged()) for i in range(3)]
    if case == "one":
        bad = bad[:1]
    if case == "alone too":
        bad.append(make_comparison("c4-9", words=make_words(corrupted_alone=True)))
    parity, reasons = judge_level([*bad, repeat(case != "not repeatable")])
    assert parity.corrupted >= 1 and reasons == []


def test_mcnemar_makes_a_level_invalid_whatever_the_server_repeats(repeat):
    worse = [make_comparison(f"c4-{i}", equal=False, words=make_words(worse=True, wer=0.3)) for i in range(8)]
    for repeatable in (True, False):
        _, (reason,) = judge_level([*worse, repeat(repeatable)])
        assert "8 utterances against 0 alone of 8 (McNemar p = 0.0078)" in reason
    _, reasons = judge_level([*worse[1:], repeat(False)])
    assert reasons == []


def test_words_damaged_alone_are_no_fault_of_company(repeat):
    better = [make_comparison(f"c4-{i}", equal=False, words=make_words(worse_alone=True)) for i in range(12)]
    parity, reasons = judge_level([*better, repeat()])
    assert parity.mcnemar_p < 0.001 and reasons == []


def test_mcnemar_is_the_exact_two_sided_test():
    assert mcnemar_p(0, 0) == 1.0
    assert mcnemar_p(5, 0) == pytest.approx(2 * 0.5**5)
    assert mcnemar_p(9, 2) == pytest.approx(2 * (1 + 11 + 55) / 2**11)  # the tail of a fair coin, both sides
    assert mcnemar_p(2, 9) == mcnemar_p(9, 2)
    assert mcnemar_p(4, 4) == 1.0


def test_by_transcript_only_words_make_a_mismatch():
    assert not is_mismatch(make_comparison(equal=False), "transcript")
    assert is_mismatch(make_comparison(words=make_words(worse=True)), "transcript")
    assert is_mismatch(make_comparison(equal=False), "codes") and not is_mismatch(make_comparison(equal=None), "pcm")
