"""The length guard: when it trips, when it cannot tell, and what it replaces."""

from __future__ import annotations

import pytest

from omni_bench.compare.stats.length_guard import (
    LEVEL_MEANS,
    PER_REQUEST,
    UtteranceKey,
    length_guard,
    length_guard_by_means,
)
from omni_bench.records.level import Rate

TAILS = ("ttfp_tail_ms", "stalled")
PRIMARIES = ("ttfp_ms", "rtf", "audio_per_s", *TAILS)
BY_FIT = ("ttfp_ms", "e2el_slope", "e2el_intercept_ms", "ttfp_tail_ms")


def lengths(scale=1.0, *, levels=(1, 4), prompts=10):
    """Audio seconds by utterance; ``scale``: a factor, or a function of the key."""
    keys = [UtteranceKey(level, f"p{i}", i) for level in levels for i in range(prompts)]
    return {key: (2.0 + 0.3 * key.seed) * (scale(key) if callable(scale) else scale) for key in keys}


@pytest.mark.parametrize(
    ("scale", "tripped"), [(1.0, False), (1.019, False), (1.021, True), (0.981, False), (0.979, True)]
)
def test_trips_outside_two_percent(scale, tripped):
    guard = length_guard([lengths()], [lengths(scale)])
    assert guard.tripped is tripped
    assert guard.change == pytest.approx(scale - 1)
    assert guard.total_change == pytest.approx(scale - 1)
    assert guard.prompts == 20 and guard.basis == PER_REQUEST
    assert guard.primaries == (BY_FIT if tripped else PRIMARIES)
    assert ("slope" in guard.reason) is tripped


def test_one_level_is_enough():
    guard = length_guard([lengths()], [lengths(lambda key: 1.03 if key.concurrency == 4 else 1.0)])
    assert abs(guard.change) < 0.02 and guard.tripped
    assert guard.levels == ((1, pytest.approx(0.0)), (4, pytest.approx(0.03)))
    assert "c = 4: +3.0 %" in guard.reason and "c = 1" not in guard.reason


def test_long_prompts_that_grow_count_by_the_total_too():
    before = {UtteranceKey(1, "short", 1): 1.0, UtteranceKey(1, "long", 2): 50.0}
    after = {UtteranceKey(1, "short", 1): 0.96, UtteranceKey(1, "long", 2): 52.0}
    guard = length_guard([before], [after])
    assert abs(guard.change) < 0.001 and guard.total_change == pytest.approx(52.96 / 51 - 1)
    assert guard.tripped and guard.outside == 2
    assert "all audio together: +3.8 %" in guard.reason, "else nothing in it is beyond the limit"


def test_what_is_just_beyond_the_limit_does_not_read_as_the_limit():
    assert "audio length +2.04 % (" in length_guard([lengths()], [lengths(1.0204)]).reason
    assert "audio length -1.96 % (" in length_guard([lengths()], [lengths(0.9804)]).reason
    assert "audio length +0.0 % (" in length_guard([lengths()], [lengths(1 - 1e-7)]).reason


def test_rates_are_named_as_rates():
    scale = {Rate(1.0): 1.0, Rate(2.5): 1.03}
    guard = length_guard(
        [lengths(levels=tuple(scale))], [lengths(lambda key: scale[key.concurrency], levels=tuple(scale))]
    )
    assert ", 2.5 req/s: +3.0 %: other" in guard.reason and "c = " not in guard.reason


def test_only_twins_are_compared():
    before, after = lengths(), lengths(1.5)
    swapped = {UtteranceKey(key.concurrency, key.prompt_id, key.seed + 100): value for key, value in after.items()}
    assert length_guard([before], [swapped]).tripped is None
    one = next(iter(before))
    guard = length_guard([before], [{one: before[one]}])
    assert guard.prompts == 1 and guard.tripped is False


def test_pairs_are_averaged_a_prompt():
    guard = length_guard([lengths(), lengths()], [lengths(1.05), lengths(1 / 1.05)])
    assert guard.change == pytest.approx(0.0, abs=1e-12) and guard.prompts == 20


def test_without_any_length_nothing_is_said():
    guard = length_guard([{}], [lengths()])
    assert guard.tripped is None and guard.change is None and guard.primaries == PRIMARIES
    assert "could not be compared" in guard.reason
    with pytest.raises(ValueError):
        length_guard([lengths()], [])


def test_by_the_means_of_the_levels():
    guard = length_guard_by_means([{1: 3.0, 4: 3.0}], [{1: 3.3, 4: None}])
    assert guard.tripped and guard.levels == ((1, pytest.approx(0.1)),) and guard.basis == LEVEL_MEANS
    assert guard.total_change is None and guard.outside is None
    assert "mean length of each level" in guard.reason
    assert length_guard_by_means([{1: 3.0}], [{1: 3.05}]).tripped is False
    assert length_guard_by_means([{1: None}], [{1: 3.0}]).tripped is None
