"""Accuracy of two arms: McNemar's test against textbook values, the bootstrap against what is known."""

from __future__ import annotations

import math

import pytest

from omni_bench.compare.stats.accuracy import compare_flags, wer_difference


def flags(true, of=100):
    return {i: i in true for i in range(of)}


@pytest.mark.parametrize(
    ("worse", "better", "p"),
    [
        (5, 0, 2 / 2**5),
        (6, 1, 2 * (1 + 7) / 2**7),
        (9, 3, 2 * (1 + 12 + 66 + 220) / 2**12),
        (4, 4, 1.0),
        (0, 0, 1.0),
    ],
)
def test_exact_mcnemar(worse, better, p):
    before, after = flags(range(50, 50 + better)), flags(range(worse))
    found = compare_flags([before], [after])
    assert (found.worse, found.better, found.utterances) == (worse, better, 100)
    assert found.p == pytest.approx(p)


def test_utterances_that_are_corrupted_in_both_arms_do_not_count():
    found = compare_flags([flags({1, 2, 3})], [flags({2, 3, 4})])
    assert (found.before, found.after, found.worse, found.better) == (3, 3, 1, 1)


def test_repetitions_of_an_utterance_are_one_observation():
    runs = [flags({7}) for _ in range(5)]
    found = compare_flags([flags(()) for _ in range(5)], runs)
    assert (found.worse, found.better) == (1, 0) and found.p == 1.0
    found = compare_flags([flags(()), flags(())], [flags({1}), flags({2})])
    assert found.after == 2


def test_what_was_not_flagged_stays_out():
    before, after = {1: True, 2: None, 3: False}, {1: True, 2: True, 3: None}
    assert compare_flags([before], [after]).utterances == 1
    assert compare_flags([{1: None}], [{1: True}]) is None
    assert compare_flags([{}], [{}]) is None and compare_flags([], []) is None
    with pytest.raises(ValueError, match="1 and 2 runs"):
        compare_flags([{}], [{}, {}])


def test_wer_is_of_the_corpus_and_the_difference_is_paired():
    before = {i: (1, 10) for i in range(40)}
    after = {i: (2, 10) for i in range(40)}
    found = wer_difference(before, after)
    assert (found.before, found.after, found.difference) == pytest.approx((0.1, 0.2, 0.1))
    assert (found.low, found.high) == pytest.approx((0.1, 0.1))  # every utterance says the same


def test_the_interval_is_as_wide_as_the_normal_one():
    # one word each; 100 of 400 utterances change for the worse: sd of the mean is √(0.25 · 0.75 / 400)
    before = {i: (0, 1) for i in range(400)}
    after = {i: (int(i < 100), 1) for i in range(400)}
    found = wer_difference(before, after)
    half = 1.96 * math.sqrt(0.25 * 0.75 / 400)
    assert (found.low, found.high) == pytest.approx((0.25 - half, 0.25 + half), abs=0.006)


def test_the_same_seed_gives_the_same_interval():
    before = {i: (i % 3, 9) for i in range(50)}
    after = {i: ((i + 1) % 4, 9) for i in range(50)}
    assert wer_difference(before, after, seed=1) == wer_difference(before, after, seed=1)
    assert wer_difference(before, after, seed=1) != wer_difference(before, after, seed=2)


def test_only_utterances_with_words_in_both_arms_count():
    assert wer_difference({1: (0, 0)}, {1: (0, 0)}) is None
    assert wer_difference({1: (0, 5)}, {2: (0, 5)}) is None
    assert wer_difference({1: (1, 5), 2: (0, 5)}, {1: (0, 5), 2: (0, 0)}).utterances == 1
