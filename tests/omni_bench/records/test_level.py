"""Levels of concurrency and of rate, and how they are stored."""

import json

import pytest

from omni_bench.errors import StoreError
from omni_bench.records.level import (
    Rate,
    axis_label,
    level_fields,
    level_name,
    level_of,
    level_or_none,
    level_text,
    level_title,
    listed_levels,
    rate_of,
    short_title,
)


@pytest.mark.parametrize("level", [1, 16, Rate(1.0), Rate(0.25), Rate(22.5)])
def test_a_level_comes_back_from_the_fields_that_name_it(level):
    assert level_of(json.loads(json.dumps(level_fields(level)))) == level


def test_one_request_a_second_is_not_one_request_in_flight():
    assert Rate(1.0) != 1 and len({Rate(1.0), 1}) == 2


def test_a_closed_loop_is_written_as_it_was_before_there_were_rates():
    assert level_fields(16) == {"concurrency": 16}


def test_the_rate_names_a_level_of_run_json_whatever_was_in_flight():
    assert level_of({"concurrency": 9, "rate_hz": 5.0}) == Rate(5.0)
    assert level_of({"concurrency": 9, "rate_hz": None}) == 9


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"concurrency": None},
        {"concurrency": True},
        {"concurrency": "4"},
        {"rate_hz": "5"},
        {"rate_hz": True, "concurrency": 4},
        {"rate_hz": float("nan")},
    ],
)
def test_a_record_without_a_level_is_refused(record):
    with pytest.raises(StoreError, match="must be"):
        level_of(record)
    assert level_or_none(record) is None and level_text(record, "n/a") == "n/a"


def test_levels_for_people_and_for_files():
    assert (level_title(16), level_title(Rate(0.5))) == ("concurrency 16", "0.5 req/s")
    assert (short_title(16), short_title(Rate(5.0))) == ("c = 16", "5 req/s")
    assert (level_name(16), level_name(Rate(5.0)), level_name(Rate(0.1))) == ("c16", "r5", "r0.1")
    assert listed_levels([1, 4]) == "c = 1, 4" and listed_levels([Rate(1.0), Rate(2.5)]) == "1 req/s, 2.5 req/s"
    assert axis_label([1, 4]).startswith("concurrency") and axis_label([Rate(2.0)]).startswith("request rate")


def test_rates_that_are_named_alike_are_equal():
    assert rate_of(1 / 3) == rate_of(0.333333) and level_name(rate_of(1 / 3)) == "r0.333333"
    assert sorted([Rate(10.0), Rate(9.0)]) == [Rate(9.0), Rate(10.0)]
