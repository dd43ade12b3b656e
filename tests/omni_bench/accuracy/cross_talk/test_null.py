"""What chance gives: the null's figures, and the probability of a level's hits."""

from __future__ import annotations

import math

import pytest

from omni_bench.accuracy.cross_talk.null import MIN_TAIL, SIGNIFICANT, TAIL_FROM, USUAL_DECAY, chance_of, describe_null


def test_counts_and_expected_hits():
    null = describe_null([0.0] * 990 + [9.0] * 10, 7.0)
    assert (null.pairs, null.hits, null.beyond) == (1000, 10, 10)
    assert null.expected_hits(500) == pytest.approx(5.0)


def test_without_a_null_nothing_is_expected_and_nothing_proven():
    null = describe_null([], 7.0)
    assert null.expected_hits(500) is None
    assert chance_of([7.0], 500, null) == 1.0


def test_the_tail_is_fitted_from_many_scores_only():
    few = describe_null([TAIL_FROM + 0.5] * (MIN_TAIL - 1), 7.0)
    many = describe_null([TAIL_FROM + 0.5] * MIN_TAIL, 7.0)
    assert few.decay == USUAL_DECAY and many.decay == pytest.approx(2.0)


def test_the_share_falls_off_exponentially_and_is_never_zero():
    null = describe_null([0.0] * 999, 7.0)
    assert null.share_of(TAIL_FROM) == pytest.approx(1 / 1000)
    assert null.share_of(TAIL_FROM + 3) == pytest.approx(math.exp(-3) / 1000)
    assert 0 < null.share_of(40.0) < 1e-15


def test_no_hits_have_no_chance():
    assert chance_of([], 500, describe_null([0.0] * 100, 7.0)) is None


def test_one_weak_hit_in_many_pairs_may_be_chance_and_a_long_phrase_is_not():
    null = describe_null([0.0] * 20_000, 7.0)
    assert chance_of([7.0], 5000, null) > SIGNIFICANT
    assert chance_of([25.0], 5000, null) < SIGNIFICANT


def test_many_weak_hits_are_more_than_chance():
    null = describe_null([0.0] * 20_000, 7.0)
    assert chance_of([7.0] * 3, 2000, null) < SIGNIFICANT


def test_as_many_hits_as_the_null_has_are_chance():
    null = describe_null([0.0] * 9900 + [7.5] * 100, 7.0)
    assert chance_of([7.5] * 10, 1000, null) > 0.5


def test_more_pairs_make_the_same_hits_less_surprising():
    null = describe_null([0.0] * 20_000, 7.0)
    chances = [chance_of([12.0], pairs, null) for pairs in (10, 100, 1000)]
    assert chances == sorted(chances) and chances[0] < chances[-1]
