"""Series of nights as logarithms."""

from __future__ import annotations

import math

import night_factory as made
import pytest
from reasons import because

from omni_bench.nightly.history.records import Role
from omni_bench.nightly.history.series import equally_long, loads, series_of
from omni_bench.records.invalid_reason import Code


def test_invalid_nights_and_missing_values_are_left_out():
    good = made.nights(3, concurrencies=(1, 4))
    broken = made.night(4, concurrencies=(1, 4), faulty=1, level_reasons=(because(Code.INVALID_AUDIO),))
    empty = made.night(5, concurrencies=(1, 4), rtf=None)
    other = made.night(6, concurrencies=(4,))
    series = series_of([*good, broken, empty, other], "rtf", "c = 1")
    assert series.nights == tuple(good)
    assert series.logs == pytest.approx([math.log(night.level("c = 1").value("rtf")) for night in good])
    assert loads([*good, other]) == ["c = 1", "c = 4"]


def test_a_value_of_zero_is_no_value():
    assert series_of([made.night(1, rtf=0.0)], "rtf", "c = 1").logs == ()


def test_the_ratio_to_a_pinned_run_cancels_the_machine():
    slow = [made.night(number, slower=2.0 if number == 2 else 1.0) for number in (1, 2, 3)]
    pinned = {
        night.run_id: made.night(number, role=Role.PINNED, hour=1, slower=2.0 if number == 2 else 1.0)
        for number, night in zip((1, 2), slow[:2], strict=True)
    }
    series = series_of(slow, "rtf", "c = 1", pinned=pinned)
    assert series.nights == tuple(slow[:2]), "a night without a pinned run has no ratio"
    assert series.logs == pytest.approx([0.0, 0.0]) and series.values == (None, None)


def test_an_intercept_may_be_negative():
    runs = [made.night(1, e2el_intercept_ms=-10.0), made.night(2, e2el_intercept_ms=50.0)]
    series = series_of(runs, "e2el_intercept_ms", "c = 1")
    e2el_ms = [run.level("c = 1").value("e2el_ms") for run in runs]
    scale = sum(e2el_ms) / 2
    assert series.logs == pytest.approx([math.log1p(-10 / scale), math.log1p(50 / scale)])


def test_only_nights_with_audio_as_long():
    runs = [made.night(1), made.night(2, longer=1.1), made.night(3, longer=1.015)]
    series = series_of(runs, "rtf", "c = 1", as_long_as=runs[0])
    assert series.nights == (runs[0], runs[2])
    assert not equally_long(runs[1].levels[0], runs[0].levels[0])
    unknown = made.night(4, audio_s=None)
    assert equally_long(unknown.levels[0], runs[0].levels[0]) and equally_long(runs[0].levels[0], None)
