"""The error that all looks spend, against a simulation of its own; and the correction of p values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from omni_bench.compare.stats.looks import ONE_LOOK, Look, null_p
from omni_bench.compare.stats.verdicts import StudyPlan

AT = (3, 5, 8)


def looks(at=AT):
    return [Look(number, at, None) for number in range(1, len(at) + 1)]


@pytest.mark.parametrize("error", [0.05, 0.0125])
@pytest.mark.parametrize("heavy", [False, True])
def test_all_looks_together_spend_the_error(error, heavy):
    rng = np.random.default_rng(5)
    changes = rng.standard_t(3, (200_000, 8)) if heavy else rng.standard_normal((200_000, 8))
    rejected = np.zeros(len(changes), dtype=bool)
    for look in looks():
        found = stats.ttest_1samp(changes[:, : look.pairs], 0, axis=1, alternative="greater").pvalue
        rejected |= found <= look.level(error)
    rate = rejected.mean()
    assert rate <= error * 1.04, "heavy tails make Student's t careful"
    assert heavy or rate >= error * 0.96


def test_the_first_look_spends_its_share_and_the_last_most():
    levels = [look.level(0.05) for look in looks()]
    assert levels[0] == pytest.approx(0.05 * 3 / 8, rel=0.01) and levels[2] > levels[0]
    assert sum(levels) > 0.05, "more than equal shares would allow"
    assert looks((5,))[0].is_last and ONE_LOOK.level(0.05) == 0.05


def test_early_looks_spend_nothing_of_the_error_of_no_regression():
    first, second, last = (StudyPlan().look(pairs) for pairs in AT)
    assert first.bound == first.level(0.05)
    assert second.bound == pytest.approx(0.05 * 5 / 8, rel=0.01) and second.level(0.05) < 0.025 < last.bound < 0.05
    assert StudyPlan(5, None).look(5).bound == 0.05 and StudyPlan(early=False).look(5).bound == 0.025


def test_p_values_are_corrected_by_the_same_rule():
    p = np.array([1e-7, 1e-3, 0.02, 0.4, 1.0, np.nan])
    for look in looks():
        corrected = look.corrected(p)
        assert np.isnan(corrected[-1]) and corrected[4] == 1 and (np.diff(corrected[:5]) >= 0).all()
        assert (corrected[:4] >= p[:4]).all()
        assert look.corrected(np.array(look.level(0.0125))) == pytest.approx(0.0125)
    assert ONE_LOOK.corrected(p[:5]) == pytest.approx(p[:5])


def test_each_p_is_uniform_by_itself():
    p = null_p((2, 7), 12)
    assert all(stats.kstest(of_look, "uniform").pvalue > 0.01 for of_look in p.T)
