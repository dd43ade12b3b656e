"""Verdicts: each rule at its threshold, both directions, known Holm and Benjamini–Hochberg examples, the plan."""

from __future__ import annotations

import math

import numpy as np
import pytest

from omni_bench.compare.stats.looks import ONE_LOOK, Look
from omni_bench.compare.stats.verdicts import (
    VERDICTS,
    StudyPlan,
    Verdict,
    benjamini_hochberg,
    decide,
    holm,
    judge,
    limits_of,
    overall,
    overall_code,
    worse_sign,
)


def around(mean, spread=0.002, pairs=5):
    """``pairs`` values with this mean."""
    return [mean + spread * (i - (pairs - 1) / 2) for i in range(pairs)]


def verdict_of(metric, mean, *, spread=0.002, pairs=5, look=ONE_LOOK):
    (primary,) = judge({metric: around(mean, spread, pairs)}, look)
    return primary.verdict


def test_holm_by_hand():
    # Holm 1979: the smallest times 4, the next times 3, ...; never smaller than the one before.
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.6, 0.9])) == pytest.approx([1.0, 1.0])
    assert holm(np.array([[0.01, 0.02], [0.02, 0.01]])) == pytest.approx(np.array([[0.02, 0.02], [0.02, 0.02]]))


def test_benjamini_hochberg_on_their_own_example():
    # Benjamini & Hochberg 1995, section 3.2: 15 p values, of which the first four are rejected at 0.05.
    p = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.3240,
        0.4262,
        0.5719,
        0.6528,
        0.7590,
        1,
    ]
    adjusted = benjamini_hochberg(p)
    assert sum(value <= 0.05 for value in adjusted) == 4
    assert adjusted[3] == pytest.approx(0.0095 * 15 / 4)
    assert benjamini_hochberg([None, 0.02, None, 0.5]) == [None, pytest.approx(0.04), None, pytest.approx(0.5)]
    assert benjamini_hochberg([None]) == [None] and benjamini_hochberg([]) == []


@pytest.mark.parametrize(
    ("metric", "mean", "expected"),
    [
        ("ttfp_ms", math.log(1.08), Verdict.REGRESSION),
        ("ttfp_ms", math.log(0.92), Verdict.IMPROVEMENT),
        ("ttfp_ms", 0.0, Verdict.NO_REGRESSION),
        ("audio_per_s", math.log(0.92), Verdict.REGRESSION),
        ("audio_per_s", math.log(1.08), Verdict.IMPROVEMENT),
        # certain, but not worse than 3 %
        ("ttfp_ms", math.log(1.025), Verdict.NO_REGRESSION),
        ("audio_per_s", math.log(0.975), Verdict.NO_REGRESSION),
        ("ttfp_ms", math.log(1.032), Verdict.REGRESSION),
        ("audio_per_s", math.log(0.968), Verdict.REGRESSION),
        ("ttfp_ms", math.log(0.975), Verdict.NO_REGRESSION),
    ],
)
def test_each_rule_in_both_directions(metric, mean, expected):
    assert verdict_of(metric, mean) is expected


def test_a_wide_spread_is_inconclusive_both_ways():
    assert verdict_of("rtf", math.log(1.08), spread=0.08) is Verdict.INCONCLUSIVE
    assert verdict_of("rtf", 0.0, spread=0.05) is Verdict.INCONCLUSIVE


def test_no_regression_needs_the_bound_to_exclude_a_loss_of_five_percent():
    # mean 0, so the bound is t(0.95, 4) · sd / √5 = 2.1318 · sd / 2.2361; a loss of 5 % is ln 1.05 or −ln 0.95.
    for metric, limit in (("rtf", math.log(1.05)), ("audio_per_s", -math.log(0.95))):
        at_limit = limit / (2.13185 * math.sqrt(2.5) / math.sqrt(5))  # sd of around() is spread · √2.5
        assert verdict_of(metric, 0.0, spread=0.999 * at_limit) is Verdict.NO_REGRESSION
        assert verdict_of(metric, 0.0, spread=1.001 * at_limit) is Verdict.INCONCLUSIVE


def test_holm_over_the_primaries_takes_away_a_verdict():
    barely = around(0.06, spread=0.0328)  # one-sided p a little below 0.05
    quiet = around(0.0, spread=0.03)
    (alone,) = judge({"ttfp_ms": barely})
    assert alone.p_worse < 0.05 and alone.verdict is Verdict.REGRESSION
    among = judge({"ttfp_ms": barely, "rtf": quiet, "audio_per_s": quiet})
    assert among[0].p_worse == pytest.approx(3 * alone.p_worse)
    assert among[0].verdict is Verdict.INCONCLUSIVE
    assert among[0].detectable > alone.detectable


def test_what_is_the_same_in_every_pair_is_no_test():
    """Tarone 1990: without a stall in any run, the others are judged as if stalls were not looked at."""
    among = {"ttfp_ms": around(0.06, spread=0.0328), "rtf": around(0.0, spread=0.03)}
    with_none = judge({**among, "stalled": [0.0] * 5})
    assert with_none[:2] == judge(among)
    assert with_none[2].verdict is Verdict.NO_REGRESSION and with_none[2].p_worse is None
    assert holm(np.array([np.nan, 0.01, 0.04]))[1:] == pytest.approx([0.02, 0.04])


def test_the_slowest_requests_have_wider_limits_and_shares_count_in_points():
    assert verdict_of("ttfp_tail_ms", math.log(1.045)) is Verdict.NO_REGRESSION
    assert verdict_of("ttfp_tail_ms", math.log(1.06)) is Verdict.REGRESSION
    assert verdict_of("stalled", 0.025) is Verdict.NO_REGRESSION
    assert verdict_of("stalled", 0.04) is Verdict.REGRESSION
    (halved,) = judge({"stalled": [-0.5, -0.45, -0.55, -0.5, -0.5]})
    assert halved.change == pytest.approx(-0.5) and halved.verdict is Verdict.IMPROVEMENT
    (wild,) = judge({"stalled": [-1.0, 1.0, 0.9]})
    assert wild.interval == (-1.0, 1.0), "shares differ by no more"


def test_a_look_of_two_asks_for_more():
    barely = 0.06
    assert verdict_of("ttfp_ms", barely, spread=0.0328) is Verdict.REGRESSION
    assert verdict_of("ttfp_ms", barely, spread=0.0328, look=Look(1, (5, 8), 2)) is Verdict.INCONCLUSIVE


def test_a_primary_is_described_in_fractions():
    (primary,) = judge({"ttfp_ms": around(math.log(1.08))})
    assert primary.change == pytest.approx(0.08)
    low, high = primary.interval
    assert low < 0.08 < high
    # the ends are the one-sided 95 % bounds: t(0.95, 4) = 2.132
    half = 2.13185 * 0.002 * math.sqrt(2.5) / math.sqrt(5)
    assert high == pytest.approx(1.08 * math.exp(half) - 1, abs=1e-6)
    assert primary.better == "lower" and primary.effect.pairs == 5


def test_missing_and_single_give_no_verdict():
    missing, single = judge({"rtf": None, "ttfp_ms": [0.1]})
    assert (missing.effect, missing.change, missing.interval, missing.verdict) == (None, None, None, None)
    assert single.change == pytest.approx(math.expm1(0.1))
    assert (single.interval, single.detectable, single.p_worse, single.verdict) == (None, None, None, None)
    assert overall([missing, single]) is None


def test_a_missing_primary_does_not_count_in_holm():
    alone = judge({"ttfp_ms": around(0.05, 0.02)})
    with_missing = judge({"ttfp_ms": around(0.05, 0.02), "rtf": None})
    assert with_missing[0] == alone[0]


def test_mixed_numbers_of_pairs_are_refused():
    with pytest.raises(ValueError, match="different numbers of pairs"):
        judge({"ttfp_ms": [0.1, 0.2], "rtf": [0.1, 0.2, 0.3]})
    with pytest.raises(ValueError, match="direction"):
        worse_sign(None)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.INCONCLUSIVE), Verdict.REGRESSION),
        ((Verdict.IMPROVEMENT, Verdict.INCONCLUSIVE), Verdict.INCONCLUSIVE),
        ((Verdict.IMPROVEMENT, Verdict.NO_REGRESSION), Verdict.IMPROVEMENT),
        ((Verdict.NO_REGRESSION, Verdict.NO_REGRESSION), Verdict.NO_REGRESSION),
    ],
)
def test_the_overall_verdict(codes, expected):
    numbers = np.array([VERDICTS.index(code) for code in codes])
    assert VERDICTS[int(overall_code(numbers))] is expected


def test_many_studies_are_decided_like_each_alone():
    rng = np.random.default_rng(3)
    changes = rng.normal(0.03, 0.03, (50, 5, 2))
    codes = decide(changes.mean(axis=1), changes.std(axis=1, ddof=1), 5, (1, -1), limits_of(["ttfp_ms", "audio_per_s"]))
    for study, expected in zip(changes, codes, strict=True):
        primaries = judge({"ttfp_ms": list(study[:, 0]), "audio_per_s": list(study[:, 1])})
        assert [VERDICTS.index(primary.verdict) for primary in primaries] == list(expected)
    assert len(set(codes.ravel())) == 4


def test_a_study_goes_on_until_it_can_tell():
    plan = StudyPlan()
    assert plan.looks == (3, 5, 8) and StudyPlan(early=False).looks == (5, 8) and StudyPlan(3, None).looks == (3,)
    assert StudyPlan(30, None).looks == (3, 5, 8, 13, 21, 30)
    assert plan.wanted_pairs(2, Verdict.REGRESSION) == 3 and plan.wanted_pairs(4, Verdict.REGRESSION) == 5
    assert plan.wanted_pairs(3, Verdict.REGRESSION) == 3 and plan.wanted_pairs(3, Verdict.INCONCLUSIVE) == 5
    assert plan.wanted_pairs(3, Verdict.NO_REGRESSION) == 5, "it may be an improvement"
    assert plan.wanted_pairs(5, Verdict.NO_REGRESSION) == 5
    assert plan.wanted_pairs(5, None) == 5, "a hard failure, which no further pair would change"
    assert plan.wanted_pairs(6, None) == 8, "an extension that was cut off goes on"
    assert plan.wanted_pairs(8, Verdict.INCONCLUSIVE) == 8
    assert StudyPlan(extended=None).wanted_pairs(5, Verdict.INCONCLUSIVE) == 5
    more = plan.with_more(12)
    assert more.looks == (12,) and more.look(12).level(0.05) == pytest.approx(0.05 / 4)
    assert StudyPlan(early=False).look(5).level(0.05) == 0.025, "as before looks were spent"
    with pytest.raises(ValueError, match="more when extended"):
        StudyPlan(pairs=5, extended=5)
